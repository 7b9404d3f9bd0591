//go:build unix

package world

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"coppice/terraform"
)

// storageOf returns the address of the storage in an environment.
func storageOf(t *testing.T, env []string) string {
	t.Helper()
	for _, v := range slices.Backward(env) {
		if host, ok := strings.CutPrefix(v, "STORAGE_EMULATOR_HOST="); ok {
			return host
		}
	}
	t.Fatalf("no address of the storage in %q", env)
	return ""
}

// TestFaultsOfOneClient: each client has an address of its own, with its own rights, and only the named client is
// struck.
func TestFaultsOfOneClient(t *testing.T) {
	spec, err := ParseFaults("faults.yaml",
		[]byte(`read_fault: [{match: "**", does: refuse, status: 429, client: task-1}]`))
	if err != nil {
		t.Fatal(err)
	}
	table, err := terraform.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, rights := range map[string]*terraform.Table{"without rights": nil, "with rights": table} {
		t.Run(name, func(t *testing.T) {
			w, err := Start(t.Context(), Options{Data: t.TempDir(), Faults: spec, Rights: rights, Stderr: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()

			account := w.guard.email(terraform.Task)
			seen := map[string]string{}
			for client, c := range map[string]struct {
				env  []string
				want int
			}{
				"launcher":   {w.Env(), 404},
				"aggregator": {w.environ(nil, terraform.Aggregator, aggregatorClient), 404},
				"task 0":     {w.clients.task(account, 0), 404},
				"task 1":     {w.clients.task(account, 1), 429},
			} {
				host := storageOf(t, c.env)
				if other, taken := seen[host]; taken {
					t.Errorf("%s and %s call at %s, expected addresses of their own", client, other, host)
				}
				seen[host] = client
				res, err := http.Get(host + "/coppice-sweeps/none")
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != c.want {
					t.Errorf("%s read what is not there and got %d, expected %d", client, res.StatusCode, c.want)
				}
			}
			if again := storageOf(t, w.clients.task(account, 1)); seen[again] != "task 1" {
				t.Errorf("task 1 calls at %s when it is tried again, expected its address of before", again)
			}
		})
	}
}

// TestOneAddressForAll: without faults of single clients there is only one.
func TestOneAddressForAll(t *testing.T) {
	w, err := Start(t.Context(), Options{Data: t.TempDir(), Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got, want := storageOf(t, w.clients.task("", 3)), "http://"+w.storage.Addr(); got != want {
		t.Errorf("a task calls at %s, expected %s", got, want)
	}
	if got, want := storageOf(t, w.Env()), "http://"+w.storage.Addr(); got != want {
		t.Errorf("the command calls at %s, expected %s", got, want)
	}
}
