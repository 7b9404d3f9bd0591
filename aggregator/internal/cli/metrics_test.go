package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	"coppice/internal/must"
)

// TestAPushExportsBeforeItAnswers: after the answer, the CPU may be gone. A collector that refuses does not fail the
// request.
func TestAPushExportsBeforeItAnswers(t *testing.T) {
	for name, status := range map[string]int{"takes": http.StatusOK, "refuses": http.StatusBadRequest} {
		for _, path := range []string{"/push", "/reconcile"} {
			t.Run(name+path, func(t *testing.T) {
				var exported atomic.Int64
				collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					exported.Add(1)
					w.WriteHeader(status)
				}))
				defer collector.Close()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				serving := make(chan struct{})
				out := lockedBuffer{wants: "aggregator serves", seen: serving}
				w := world(&out, blob.Memory(), "serve", "--listen", "127.0.0.1:0")
				w.Env = envconfig.MultiLookuper(w.Env,
					envconfig.MapLookuper(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}))
				done := make(chan int, 1)
				go func() { done <- Run(ctx, w) }()
				<-serving
				q := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+served(t, out.String())+path,
					strings.NewReader(push("nonsense"))))(t)
				r, err := http.DefaultClient.Do(q)
				must.Do(t, err)
				r.Body.Close()
				if n := exported.Load(); r.StatusCode != http.StatusNoContent || n != 1 {
					t.Errorf("%d, and %d exports before it", r.StatusCode, n)
				}
				stop()
				if code := <-done; code != 0 {
					t.Errorf("exit code %d: %s", code, out.String())
				}
			})
		}
	}
}

// served is the address in the log line that announces the server.
func served(t *testing.T, log string) string {
	t.Helper()
	for text := range strings.Lines(log) {
		var line struct{ Message, Address string }
		must.Do(t, json.Unmarshal([]byte(text), &line))
		if line.Message == "aggregator serves" {
			return line.Address
		}
	}
	t.Fatalf("no address in %s", log)
	return ""
}
