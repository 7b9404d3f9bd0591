package serve

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"coppice/internal/scorer"
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
	if err != nil {
		t.Fatal(err)
	}
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
	for _, route := range []string{"/healthz", "/v2/health/live", "/readyz", "/health"} {
		c := Defaults()
		c.Log = slog.New(slog.DiscardHandler)
		if err := c.Check(Environment{Health: route, Predict: "/predict"}); err != nil {
			t.Fatal(err)
		}
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

// TestCallsWithoutATurn: who waits in vain is told to come back by gRPC's means, and whose deadline passes is told
// that.
func TestCallsWithoutATurn(t *testing.T) {
	c := Defaults()
	c.MaxQueue, c.Timeout, c.Log, c.Model = 2, time.Hour, slog.New(slog.DiscardHandler), "ctr"
	s := New(c)
	s.current.Store(&Model{Name: "ctr@1", Scorer: &scorer.Scorer{}})
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	ask := func(timeout string) http.Header {
		w := httptest.NewRecorder()
		body := strings.NewReader("\x00\x00\x00\x00\x05\n\x03ctr")
		r := httptest.NewRequest(http.MethodPost, callService+"ModelInfer", body)
		r.ProtoMajor = 2
		r.Header.Set("Content-Type", typeGRPC)
		r.Header.Set("Grpc-Timeout", timeout)
		s.Handler().ServeHTTP(w, r)
		return w.Header()
	}
	if h := ask("1m"); h.Get("Grpc-Status") != "4" || !strings.Contains(h.Get("Grpc-Message"), "deadline") {
		t.Errorf("a deadline of a millisecond: got %v, want DEADLINE_EXCEEDED", h)
	}

	s.open.Store(2) // the queue is full
	h := ask("1H")
	details, err := base64.RawStdEncoding.DecodeString(h.Get("Grpc-Status-Details-Bin"))
	if err != nil {
		t.Fatal(err)
	}
	var told statuspb.Status
	var wait errdetails.RetryInfo
	if err := proto.Unmarshal(details, &told); err != nil || len(told.GetDetails()) != 1 {
		t.Fatalf("got the details %q (%v), want one", details, err)
	}
	if err := told.GetDetails()[0].UnmarshalTo(&wait); err != nil || wait.GetRetryDelay().AsDuration() != time.Second ||
		told.GetCode() != 8 || h.Get("Grpc-Status") != "8" || h.Get("Grpc-Retry-Pushback-Ms") != "1000" ||
		told.GetMessage() != h.Get("Grpc-Message") {
		t.Errorf("got %v, %v, %v (%v); want RESOURCE_EXHAUSTED, and to come back in a second", h, &told, &wait, err)
	}
}

// TestDeadlines: clients send small times in small units, of up to eight digits.
func TestDeadlines(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "50000000n": 50 * time.Millisecond, "0n": 1,
		"5S": 5 * time.Second, "99999999m": 99_999_999 * time.Millisecond, "2M": 2 * time.Minute,
		"99999999H": math.MaxInt64} {
		if got, err := deadline(text); got != want || err != nil {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
}
