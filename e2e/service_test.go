//go:build e2e

package e2e

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// startServing starts a program and returns what follows the pattern in its output.
func startServing(t *testing.T, env []string, pattern string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binaryOf(t, program), args...)
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatalf("%s %q has ended without saying %s", program, args, pattern)
	return ""
}

const serves = `"message":"aggregator serves","address":"([^"]+)"`

// waitForLog returns what the pattern's group matches in a log, once it does.
func waitForLog(t *testing.T, file, pattern string, limit time.Duration) string {
	t.Helper()
	late := time.After(limit)
	for {
		log := must.Get(os.ReadFile(file))(t)
		if found := regexp.MustCompile(pattern).FindSubmatch(log); found != nil {
			return string(found[1])
		}
		select {
		case <-late:
			t.Fatalf("%s does not say %s within %s:\n%s", file, pattern, limit, log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestE2EServiceLetsInItsCallers: the aggregator's service takes pushes and calls of the schedule with a good token,
// and no others; the one of a local cloud takes none but that cloud's own.
func TestE2EServiceLetsInItsCallers(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "cloud")
	startServing(t, os.Environ(), `export COPPICE_(PROJECT)`, "localemu", "up", "--data", data)
	local := waitForLog(t, filepath.Join(data, "logs", "aggregator-0.0.log"), serves, time.Minute)

	// One with a key of ours, so that each part of a token can be wrong by itself.
	ours, theirs := newSigner(t), newSigner(t)
	settings := must.Get(os.ReadFile(filepath.Join(data, "env")))(t)
	env := append(os.Environ(), "COPPICE_AUDIENCE=here.example", "COPPICE_CALLERS=push@here.example",
		"COPPICE_KEYS_URL="+ours.url)
	for _, line := range strings.Split(string(settings), "\n") {
		if name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "="); ok {
			env = append(env, name+"="+strings.Trim(value, "'"))
		}
	}
	own := startServing(t, env, serves, "aggregator", "serve", "--listen", "127.0.0.1:0")

	good := map[string]any{"iss": "https://accounts.google.com", "aud": "here.example", "email": "push@here.example",
		"email_verified": true, "exp": time.Now().Add(time.Hour).Unix()}
	with := func(key string, value any) map[string]any {
		claims := map[string]any{}
		for k, v := range good {
			claims[k] = v
		}
		claims[key] = value
		return claims
	}
	push := `{"message":{"data":"` + base64.StdEncoding.EncodeToString([]byte("no score")) + `"}}`
	for name, c := range map[string]struct {
		at, token string
		want      int
	}{
		"good":                       {own, ours.token(t, good), 204},
		"none":                       {own, "", 401},
		"another key":                {own, theirs.token(t, good), 401},
		"another audience":           {own, ours.token(t, with("aud", "there.example")), 401},
		"another issuer":             {own, ours.token(t, with("iss", "https://accounts.example")), 401},
		"another account":            {own, ours.token(t, with("email", "eve@here.example")), 403},
		"an address that may be any": {own, ours.token(t, with("email_verified", false)), 403},
		"expired":                    {own, ours.token(t, with("exp", time.Now().Add(-time.Minute).Unix())), 401},
		"unsigned":                   {own, "eyJhbGciOiJub25lIn0.e30.AAAA", 401},
		"local cloud, none":          {local, "", 401},
		"local cloud, another key": {local, ours.token(t, map[string]any{"iss": good["iss"], "exp": good["exp"],
			"aud": "coppice-aggregator.local-project", "email_verified": true,
			"email": "coppice-push@local-project.iam.gserviceaccount.com"}), 401},
	} {
		for _, path := range []string{"/push", "/reconcile"} {
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.at+path,
				strings.NewReader(push)))(t)
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			reply := must.Get(http.DefaultClient.Do(r))(t)
			reply.Body.Close()
			if reply.StatusCode != c.want {
				t.Errorf("%s: %s answered %d, want %d", name, path, reply.StatusCode, c.want)
			}
		}
	}

	// On Cloud Run a service refuses to start with COPPICE_KEYS_URL: there only Google's keys count.
	for _, more := range []string{"K_SERVICE=coppice-aggregator", "COPPICE_SIGNATURES=cloud-run"} {
		r := execute(t, data, append(env, more), binaryOf(t, "aggregator"), "serve", "--listen", "127.0.0.1:0")
		if r.code != sweep.ExitSetup || !strings.Contains(r.errOut, "COPPICE_KEYS_URL") {
			t.Errorf("with COPPICE_KEYS_URL and %s: exit code %d, %s; want %d and a refusal of COPPICE_KEYS_URL", more,
				r.code, r.errOut, sweep.ExitSetup)
		}
	}
}

// signer is somebody who signs tokens, and a page with the public key.
type signer struct {
	key jose.JSONWebKey
	url string
}

func newSigner(t *testing.T) signer {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	s := signer{key: jose.JSONWebKey{Key: key, KeyID: "local", Algorithm: "RS256", Use: "sig"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.key.Public()}})
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s signer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	by := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: s.key}, nil))(t)
	text := must.Get(jwt.Signed(by).Claims(claims).Serialize())(t)
	return text
}

// TestE2EPushAloneConcludes: where the schedule's calls are refused, what tasks publish has a sweep concluded, and
// where pushes are, the schedule does, so that each is seen without the other.
func TestE2EPushAloneConcludes(t *testing.T) {
	t.Parallel()
	calm := newLocal(t)
	want := calm.outcome(calm.smallSweep(6))
	const both = "coppice-push@local-project.iam.gserviceaccount.com," +
		"coppice-scheduler@local-project.iam.gserviceaccount.com"
	for _, caller := range strings.Split(both, ",") {
		t.Run(caller, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t)
			file := l.smallSweep(6)
			only := l.file("aggregator.sh", "#!/bin/sh\n[ \"$COPPICE_CALLERS\" = "+both+" ] || exit 1\n"+
				"COPPICE_CALLERS="+caller+" exec "+binaryOf(t, "aggregator")+" \"$@\"\n")
			must.Do(t, os.Chmod(only, 0o755))
			l.args = append(l.args, "--aggregator", only)
			// Without word of the job's end, which calls /reconcile as well.
			l.script(`unset COPPICE_JOBS_TOPIC; "$1" sweep "$2"`, file).ok(t)
			if got := l.outcome(file); got != want {
				t.Errorf("got %+v, and with both %+v", got, want)
			}
		})
	}
}
