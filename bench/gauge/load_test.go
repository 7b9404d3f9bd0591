package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestLoadChargesAStall: a server that stalls once is charged for the requests that were due meanwhile, although only
// one connection waits. A closed loop would see one slow answer.
func TestLoadChargesAStall(t *testing.T) {
	var asked atomic.Int64
	stalled := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 10 {
			<-stalled
		}
	}))
	defer s.Close()
	time.AfterFunc(300*time.Millisecond, func() { close(stalled) })
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := loadOptions{url: s.URL, body: body, kind: "application/json", rate: 200, lasts: 400 * time.Millisecond,
		connections: 1}
	got, err := o.run(t.Context())
	if err != nil || got.Requests != 80 || got.Failed != 0 {
		t.Fatalf("got %+v, %v; want 80 answers", got, err)
	}
	if got.Millis["p50"] < 20 {
		t.Errorf("half of the requests took at most %.1f ms; want the stall of 250 ms to be charged to those that "+
			"were due meanwhile", got.Millis["p50"])
	}
}
