package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
)

// TestNoTurn: a request that waits for its turn longer than it may is told so. The deadline of its body, which ends
// first, is not taken for a caller that has left.
func TestNoTurn(t *testing.T) {
	c := Defaults()
	c.Timeout, c.Log = 200*time.Millisecond, slog.New(slog.DiscardHandler)
	s := New(c)
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	h := httptest.NewServer(s.Handler())
	defer h.Close()
	r, err := http.Post(h.URL+"/predict", typeJSON, strings.NewReader(`{"instances":[{}]}`))
	must.Do(t, err)
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("got %s, Retry-After %q, %q; want 429 with Retry-After", r.Status, r.Header.Get("Retry-After"), text)
	}
}

// TestFullQueue: more requests than fit are told to come back.
func TestFullQueue(t *testing.T) {
	c := Defaults()
	c.MaxQueue, c.Timeout, c.Log = 1, time.Minute, slog.New(slog.DiscardHandler)
	s := New(c)
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	ask := func(ctx context.Context) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/predict",
			strings.NewReader(`{"instances":[{}]}`)))
		return w
	}
	ctx, giveUp := context.WithCancel(t.Context())
	waits := make(chan struct{})
	go func() { defer close(waits); ask(ctx) }()
	for s.open.Load() == 0 {
		runtime.Gosched()
	}
	if w := ask(t.Context()); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q, %s; want 429 with Retry-After", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	giveUp()
	<-waits
	if s.open.Load() != 0 || s.held.Load() != 0 {
		t.Errorf("%d requests are open and %d bytes held after all were answered, want none", s.open.Load(),
			s.held.Load())
	}
}

// TestRoutesOfVertex: a health route may be one that is there anyway.
func TestRoutesOfVertex(t *testing.T) {
	for _, route := range []string{"/healthz", "/readyz", "/health"} {
		c := Defaults()
		c.Log = slog.New(slog.DiscardHandler)
		must.Do(t, c.Check(Environment{Health: route, Predict: "/predict"}))
		w := httptest.NewRecorder()
		New(c).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, route, nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: got %d of a server without a version, want 503", route, w.Code)
		}
	}
	c := Defaults()
	if err := c.Check(Environment{Health: "/"}); err == nil {
		t.Error("the health route / is accepted, want it refused: it would answer for all others")
	}
}
