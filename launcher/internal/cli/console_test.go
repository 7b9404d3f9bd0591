package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
)

// TestConsoleServes: it prints its address, has a page of a sweep there with the command that cancels it, and takes
// nothing.
func TestConsoleServes(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "night-1", "--no-wait")
	ctx, stop := context.WithCancel(t.Context())
	w.ctx = ctx
	from, to := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- w.runTo(to, io.Discard, "console", "--listen", "127.0.0.1:0") }()
	lines := bufio.NewScanner(from)
	lines.Scan()
	for method, want := range map[string]int{http.MethodGet: http.StatusOK, http.MethodPost: http.StatusMethodNotAllowed} {
		r := must.Get(http.NewRequestWithContext(t.Context(), method, lines.Text()+"/sweeps/night-1", nil))(t)
		answer, err := http.DefaultClient.Do(r)
		must.Do(t, err)
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil || answer.StatusCode != want ||
			want == http.StatusOK && !strings.Contains(string(text), "<code>launcher cancel night-1</code>") {
			t.Errorf("%s is answered %d %.200q, %v; expected %d", method, answer.StatusCode, text, err, want)
		}
	}
	stop()
	if code := <-ended; code != sweep.ExitOK {
		t.Errorf("the console ended with %d, expected %d", code, sweep.ExitOK)
	}
}

// someCallers authenticates callers if any are configured, and then rejects them all.
func someCallers(_ context.Context, env environment.CallersEnv) (program.Callers, error) {
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
	w.env = map[string]string{"COPPICE_AUDIENCE": "https://console.example"}
	w.refused(sweep.ExitError, "nobody may call", "console", "--listen", "0.0.0.0:0")
}
