package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/aggregator/internal/conclude"
	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// broken is a store whose listings fail.
type broken struct{ blob.Store }

var errBroken = errors.New("storage is out of reach")

func (broken) List(context.Context, string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) { yield(blob.Attrs{}, errBroken) }
}

func aggregator(sweeps blob.Store) *conclude.Aggregator {
	return &conclude.Aggregator{Datasets: blob.Memory(), Sweeps: sweeps, Registry: registry.New(blob.Memory()),
		Now: time.Now, Log: program.Logger(io.Discard, program.LogOrigin{})}
}

func push(data string) string {
	return `{"message":{"data":"` + base64.StdEncoding.EncodeToString([]byte(data)) +
		`","messageId":"1"},"subscription":"s"}`
}

func TestEndpoints(t *testing.T) {
	message, _ := json.Marshal(sweep.ScoreMessage{Format: 1, Sweep: "night-1"})
	fine, bad := aggregator(blob.Memory()), aggregator(broken{blob.Memory()})
	// A cancelled sweep is concluded at once, which shows that a push about it reached the handler.
	plan := sweep.Plan{Format: 1, Sweep: "night-1", Job: "projects/p/locations/l/jobs/night-1", Heartbeat: 1,
		Takeover: 2, Trials: []sweep.Trial{{}}, Dataset: sweep.DatasetRef{Name: "d", Version: "0123456789abcdef"}}
	plan.Spec.Model = "m"
	plan.Holdout = sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
		Test: sweep.Rows{Split: "test"}}
	for _, a := range []*conclude.Aggregator{fine, bad} {
		if ok, err := blobtest.CreateJSON(t.Context(), a.Sweeps, sweep.Names(plan.Sweep).Plan(), plan); !ok ||
			err != nil {
			t.Fatalf("stored the plan: created %t, error %v", ok, err)
		}
		must.Get(blob.Create(t.Context(), a.Sweeps, sweep.Names(plan.Sweep).Cancel(), []byte("{}")))(t)
	}
	for name, tc := range map[string]struct {
		a                  *conclude.Aggregator
		method, path, body string
		want               int
	}{
		"health":           {fine, "GET", "/healthz", "", 200},
		"push":             {fine, "POST", "/push", push(string(message)), 204},
		"push of nonsense": {fine, "POST", "/push", push("nonsense"), 204}, // acknowledged: redelivery would not help
		"no envelope":      {fine, "POST", "/push", "nonsense", 400},
		"too long":         {fine, "POST", "/push", push(strings.Repeat("x", maxEnvelope)), 413},
		"wrong method":     {fine, "GET", "/push", "", 405},
		"unknown path":     {fine, "GET", "/admin", "", 404},
		"reconcile":        {fine, "POST", "/reconcile", "", 204},
		"push fails":       {bad, "POST", "/push", push(string(message)), 500},
		"reconcile fails":  {bad, "POST", "/reconcile", "", 500},
	} {
		t.Run(name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			handler(tc.a, nil, func(context.Context) {}).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(),
				tc.method, tc.path, strings.NewReader(tc.body)))
			if rec.Code != tc.want {
				t.Errorf("%d, want %d: %s", rec.Code, tc.want, rec.Body)
			}
			if strings.Contains(rec.Body.String(), errBroken.Error()) {
				t.Error("the answer tells a stranger what failed inside")
			}
		})
	}
	if _, err := fine.Sweeps.Stat(t.Context(), sweep.Names(plan.Sweep).Conclusion()); err != nil {
		t.Errorf("the pushed sweep was not concluded: %v", err)
	}
}

func world(out io.Writer, sweeps blob.Store, args ...string) Setup {
	env := map[string]string{"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "d", "COPPICE_SWEEPS_BUCKET": "s",
		"COPPICE_REGISTRY_BUCKET": "r"}
	return Setup{
		World: program.World{Args: args, Env: envconfig.MapLookuper(env), Out: program.To(out), Err: program.To(out),
			Now: time.Now},
		Connect: func(context.Context, environment.Deployment) (*Backends, error) {
			return &Backends{Datasets: blob.Memory(), Sweeps: sweeps, Registry: blob.Memory(),
				Close: func() error { return nil }}, nil
		},
	}
}

// lockedBuffer is a log that tests can wait for.
type lockedBuffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wants string
	seen  chan struct{}
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.b.Write(p)
	if l.seen != nil && strings.Contains(l.b.String(), l.wants) {
		close(l.seen)
		l.seen = nil
	}
	return n, err
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestServeEndsWhenTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	serving := make(chan struct{})
	out := lockedBuffer{wants: "aggregator serves", seen: serving}
	done := make(chan int)
	go func() { done <- Run(ctx, world(&out, blob.Memory(), "serve", "--listen", "127.0.0.1:0")) }()
	<-serving
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	var l lockedBuffer
	if code := Run(t.Context(), world(&l, blob.Memory(), "serve", "--listen", "nowhere:1")); code == 0 {
		t.Error("listened nowhere")
	}
}

func TestMissingEnvironment(t *testing.T) {
	var out lockedBuffer
	w := world(&out, blob.Memory(), "reconcile")
	w.Env = envconfig.MapLookuper(nil)
	if code := Run(t.Context(), w); code != sweep.ExitSetup || !strings.Contains(out.String(), "COPPICE_PROJECT") {
		t.Errorf("without the environment: exit code %d, output %s; want the code for a faulty setup, and "+
			"COPPICE_PROJECT named", code, out.String())
	}
}
