package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
)

// scraped runs an aggregator until its page has been read once.
func scraped(t *testing.T, args ...string) (text, log string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	serving := make(chan struct{})
	out := lockedBuffer{wants: "metrics for Prometheus", seen: serving}
	done := make(chan int)
	go func() {
		done <- Run(ctx, world(&out, blob.Memory(), &script{messages: [][]byte{[]byte("x"), []byte("y")}}, args...))
	}()
	<-serving
	var line struct{ Address string }
	for text := range strings.Lines(out.String()) {
		if strings.Contains(text, out.wants) {
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
		}
	}
	for !strings.Contains(text, `outcome="ignored"`) {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, line.Address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("the page of metrics answers %s (error %v); want 200", r.Status, err)
		}
		text = string(data)
	}
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	return text, line.Address
}

func TestPrometheusPage(t *testing.T) {
	text, address := scraped(t, "pull", "--metrics", "127.0.0.1:0")
	if !strings.Contains(text, "coppice_aggregator_messages_total{") || !strings.HasPrefix(address,
		"http://127.0.0.1:") {
		t.Errorf("the page of metrics is at %s and says %s; want it on 127.0.0.1, with "+
			"coppice_aggregator_messages_total", address, text)
	}
}

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
				w := world(&out, blob.Memory(), nil, "serve", "--listen", "127.0.0.1:0", "--metrics", "")
				w.Env = envconfig.MultiLookuper(w.Env,
					envconfig.MapLookuper(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}))
				done := make(chan int, 1)
				go func() { done <- Run(ctx, w) }()
				<-serving
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+served(t, out.String())+path,
					strings.NewReader(push("nonsense")))
				if err != nil {
					t.Fatal(err)
				}
				r, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Fatal(err)
				}
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
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line.Message == "aggregator serves" {
			return line.Address
		}
	}
	t.Fatalf("no address in %s", log)
	return ""
}

// TestPrometheusPageOfTheSecond: without a requested port another one is used; with a requested port it is an error.
func TestPrometheusPageOfTheSecond(t *testing.T) {
	if l, err := net.Listen("tcp", newPage().address); err == nil {
		defer l.Close()
	} // else the port is taken already, which serves the test as well
	if _, address := scraped(t, "pull"); strings.Contains(address, newPage().address) {
		t.Errorf("at %s, which is taken", address)
	}
	var out lockedBuffer
	if code := Run(t.Context(), world(&out, blob.Memory(), &script{}, "pull", "--metrics",
		newPage().address)); code == 0 || !strings.Contains(out.String(), "set another address with --metrics") {
		t.Errorf("a second aggregator on the same port: exit code %d, output %s; want an error that advises another "+
			"--metrics", code, out.String())
	}
}
