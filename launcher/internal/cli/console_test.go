package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/console"
)

// A console with actions: a sweep is cancelled, a version promoted and the champion rolled back as by the commands of
// these names.
func TestConsoleActs(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1", "--no-wait")
	reg := registry.New(w.buckets["registry"])
	for _, key := range []string{"one", "two"} {
		if _, err := reg.Register(t.Context(), "ctr", key, map[string][]byte{"model.txt": []byte(key)},
			registry.Info{At: w.now, By: "test", Why: "best"}); err != nil {
			t.Fatal(err)
		}
	}
	w.must("registry", "promote", "ctr@1", "--why", "a test")

	ctx, stop := context.WithCancel(t.Context())
	w.ctx = ctx
	from, to := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- w.runTo(to, io.Discard, "console", "--actions", "--listen", "127.0.0.1:0") }()
	lines := bufio.NewScanner(from)
	lines.Scan()
	url := lines.Text()
	lines.Scan()
	token, found := strings.CutPrefix(lines.Text(), "token for actions: ")
	if !found || len(token) < shortestToken {
		t.Fatalf("the console printed %q and %q, expected its address and a token", url, lines.Text())
	}

	act := func(token string, a console.Action) string {
		t.Helper()
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/actions",
			strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Coppice-Token", token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s", answer.StatusCode, said)
	}
	for _, tc := range []struct {
		token  string
		action console.Action
		says   string
	}{
		{"guessed", console.Action{Do: console.Cancel, Name: "night-1", Confirm: "night-1"}, "403 the token is wrong"},
		{token, console.Action{Do: console.Promote, Name: "ctr", Version: 2, Champion: 1, Confirm: "ctr@2",
			Why: "it is better"}, "200 champion of ctr: version 1 -> 2"},
		{token, console.Action{Do: console.Promote, Name: "ctr", Version: 1, Champion: 1, Confirm: "ctr@1"}, "409 "},
		{token, console.Action{Do: console.Rollback, Name: "ctr", Champion: 2, Confirm: "ctr"},
			"200 champion of ctr: version 2 -> 1"},
		{token, console.Action{Do: console.Rollback, Name: "other", Champion: 2, Confirm: "other"}, "404 "},
		{token, console.Action{Do: console.Cancel, Name: "night-1", Confirm: "night-1"},
			"200 sweep night-1 is cancelled"},
		{token, console.Action{Do: console.Cancel, Name: "night-2", Confirm: "night-2"}, "404 "},
	} {
		if said := act(tc.token, tc.action); !strings.HasPrefix(said, tc.says) {
			t.Errorf("%+v is answered %q, expected %q", tc.action, said, tc.says)
		}
	}
	stop()
	if code := <-ended; code != sweep.ExitOK {
		t.Errorf("the console ended with %d, expected %d", code, sweep.ExitOK)
	}

	w.ctx = t.Context()
	if history := w.must("registry", "history", "ctr"); !strings.Contains(history, "it is better") ||
		!strings.Contains(history, "by hand, in the console") {
		t.Errorf("the history is\n%s\nexpected both moves with their reasons", history)
	}
	if !w.jobs.cancelled {
		t.Error("the sweep's job was not cancelled")
	}
}

// someCallers authenticates callers if any are configured, and then rejects them all.
func someCallers(_ context.Context, env sweep.CallersEnv) (console.Callers, error) {
	if env.Audience == "" || len(env.Callers) == 0 {
		return nil, errors.New("nobody may call")
	}
	return nobody{}, nil
}

type nobody struct{}

func (nobody) Verify(context.Context, string) (string, error) { return "", errors.New("nobody") }

func TestConsoleRefuses(t *testing.T) {
	w := newWorld(t)
	w.refused(sweep.ExitInput, "ssh -L", "console", "--listen", "0.0.0.0:8765")
	w.refused(sweep.ExitInput, "invalid port 99999", "console", "--listen", "127.0.0.1:99999")
	for _, token := range []string{"hunter2", strings.Repeat(" ", 30), strings.Repeat("a", 30) + "\n", "a b" +
		strings.Repeat("a", 30), strings.Repeat("ü", 30)} {
		w.env = map[string]string{"COPPICE_CONSOLE_TOKEN": token}
		w.refused(sweep.ExitUsage, "use at least 20 printable", "console", "--actions", "--listen", "127.0.0.1:99999")
	}
	w.env = map[string]string{"COPPICE_AUDIENCE": "https://console.example"}
	w.refused(sweep.ExitError, "nobody may call", "console", "--listen", "0.0.0.0:0")
}
