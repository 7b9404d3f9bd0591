package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/serve"
)

// unreliable is storage some of whose reads fail or are slow, and that kills its reader during some.
type unreliable struct {
	blob.Store
	reads atomic.Int64
	every atomic.Int64              // one of so many reads fails; 0 for none
	slow  func(ctx context.Context) // called during every seventh read; nil for none
	kill  atomic.Pointer[func()]    // called during every 31st read
}

var errAway = errors.New("the storage is away")

func (u *unreliable) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	n := u.reads.Add(1)
	if every := u.every.Load(); every > 0 && n%every == 0 {
		return nil, blob.Attrs{}, errAway
	}
	if n%7 == 0 && u.slow != nil {
		u.slow(ctx)
	}
	if kill := u.kill.Load(); kill != nil && n%31 == 0 {
		(*kill)()
	}
	return u.Store.Open(ctx, name, r)
}

var act = registry.Act{At: time.Unix(1e9, 0), By: "test", Why: "a test"}

func promote(tb testing.TB, r *registry.Registry, version int) {
	tb.Helper()
	must.Get(r.Promote(tb.Context(), "ctr", version, registry.Expect{Any: true}, act))(tb)
}

// damage returns a view of the store in which the model of the version v has another first byte. Tests promote through
// the store itself, in which it is sound, since the registry refuses to promote what is damaged.
func damage(store blob.Store, v registry.Version) blob.Store {
	f, _ := v.File(scorer.FileModel)
	return &blobtest.Hooked{Store: store, Reads: func(name string, data []byte) ([]byte, error) {
		if name == f.Object {
			data[0] ^= 1
		}
		return data, nil
	}}
}

// state reads the server's /status: the version that answers, the one that waits, and why.
func state(tb testing.TB, s *served) (status struct{ Version, Waiting, Why string }) {
	tb.Helper()
	r, err := http.Get(s.url + "/status")
	must.Do(tb, err)
	defer r.Body.Close()
	must.Do(tb, json.NewDecoder(r.Body).Decode(&status))
	return status
}

// TestSwapsUnderLoad moves the champion while requests come. Every request is answered, with the predictions of exactly
// the version that the answer names. Meanwhile storage fails or is slow, some new versions are damaged, and what
// watches the alias is killed in the middle of a read and started again. The heap does not grow by more than the kept
// requests. COPPICE_SERVE_SWAPS and COPPICE_SERVE_REQUESTS make it longer (`make serve-swaps`).
func TestSwapsUnderLoad(t *testing.T) {
	swaps, requests := 12, int64(400)
	if n, err := strconv.Atoi(os.Getenv("COPPICE_SERVE_SWAPS")); err == nil {
		swaps = n
	}
	if n, err := strconv.ParseInt(os.Getenv("COPPICE_SERVE_REQUESTS"), 10, 64); err == nil {
		requests = n
	}

	// Four versions, of which the last is damaged, and what each of the others predicts. Those are trained on other
	// rows each, drawn with the seeds 1 to 3.
	reg, store := newRegistry()
	var versions []registry.Version
	for i := range 4 {
		versions = append(versions, register(t, reg, strconv.Itoa(i), filesOf(t, uint64(1+i%3))))
	}
	away := &unreliable{Store: damage(store, versions[3])}
	names, rows := small.names(), someRows(small, 7, 3)
	body := instancesOf(names, rows)
	want := map[string][]float64{}
	for _, v := range versions[:3] {
		want["ctr@"+strconv.Itoa(v.Number)] = predicted(t, reg, v, names, rows)
	}
	if sameBits(want["ctr@1"], want["ctr@2"]) {
		t.Fatal("two versions predict the same, want them to differ, so that a mixture is seen")
	}

	// A server, and a watcher that is started again whenever it is killed.
	promote(t, reg, 1)
	var answered, killed atomic.Int64
	away.slow = func(ctx context.Context) { // until 20 more requests are answered; not before there are any
		for late := answered.Load() + 20; late > 20 && answered.Load() < late && ctx.Err() == nil; {
			runtime.Gosched()
		}
	}
	c := serve.Defaults()
	c.Registry, c.Model, c.Cache, c.Poll, c.MaxShift = registry.New(away), "ctr", t.TempDir(), time.Millisecond, 0
	c.Log = slog.New(slog.DiscardHandler)
	server := serve.New(c)
	h := httptest.NewServer(server.Handler())
	defer h.Close()
	s := &served{Server: server, url: h.URL}
	ctx, end := context.WithCancel(t.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for ctx.Err() == nil {
			one, kill := context.WithCancel(ctx)
			killing := func() { killed.Add(1); kill() }
			away.kill.Store(&killing)
			server.Watch(one)
			kill()
		}
	})
	defer watcher.Wait()
	defer end()
	until(t, "the server is ready", s.Ready)

	// Four callers, who check every answer.
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := http.Post(s.url+"/predict", "application/json", bytes.NewReader(body))
				if err != nil {
					t.Errorf("a request failed: %v, want none lost", err)
					return
				}
				var got answer
				err = json.NewDecoder(r.Body).Decode(&got)
				r.Body.Close()
				name := got.Model + "@" + strconv.Itoa(got.Version)
				if err != nil || r.StatusCode != http.StatusOK || name != r.Header.Get("Coppice-Version") ||
					!sameBits(got.Predictions, want[name]) {
					t.Errorf("got status %d, %s, header %q, %.5v, %v; want the predictions of the version it "+
						"names, %.5v",
						r.StatusCode, name, r.Header.Get("Coppice-Version"), got.Predictions, err, want[name])
					return
				}
				answered.Add(1)
			}
		})
	}

	// Swaps: among the sound versions in turn, every fourth time by way of the damaged one.
	at := 1 // the version that answers
	for i := range swaps {
		until(t, "the requests of this swap are answered", func() bool {
			return answered.Load() >= requests*int64(i)/int64(swaps) || t.Failed()
		})
		away.every.Store([]int64{0, 29, 13}[i%3]) // no read fails, or one of 29, or one of 13
		if i%4 == 3 {
			promote(t, reg, 4)
			got := state(t, s)
			until(t, "the damaged version waits", func() bool { got = state(t, s); return got.Waiting == "ctr@4" })
			if got.Version != "ctr@"+strconv.Itoa(at) || !strings.Contains(got.Why, "cannot be loaded") {
				t.Errorf("got %+v while a damaged version waits; want ctr@%d to answer, and why", got, at)
			}
		}
		at = at%3 + 1
		promote(t, reg, at)
		until(t, "the new version answers", func() bool { return state(t, s).Version == "ctr@"+strconv.Itoa(at) })
	}
	away.every.Store(0)
	until(t, "enough requests are answered", func() bool { return answered.Load() >= requests || t.Failed() })
	close(stop)
	callers.Wait()

	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 24<<20 {
		t.Errorf("the heap grew by %d MiB over %d swaps, want at most the last requests' 16 and a little", grown>>20,
			swaps)
	}
	if killed.Load() == 0 {
		t.Error("the watcher was never killed; want it killed at least once")
	}
	t.Logf("%d requests during %d swaps, %d reads of storage, the watcher killed %d times; heap %.1f MiB before, %.1f "+
		"after", answered.Load(), swaps, away.reads.Load(), killed.Load(), float64(before.HeapAlloc)/(1<<20),
		float64(after.HeapAlloc)/(1<<20))
}

// TestAShiftedVersionWaits: a new version does not answer if its mean prediction on the last requests is far off, or if
// it cannot score them, since it needs another column. When the alias moves back, nothing waits any more.
func TestAShiftedVersionWaits(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "good", filesOf(t, 1))
	shifted := maps.Clone(filesOf(t, 2))
	// The log odds are the raw score plus 2, so that the odds are more than seven times as high.
	shifted[scorer.FileCalibrator] = []byte(`{"format":1,"method":"platt","a":1,"c":2}`)
	register(t, reg, "shifted", shifted)
	wide := small
	wide.numbers++
	register(t, reg, "wide", wide.trained(t, 5))
	promote(t, reg, 1)
	s := start(t, store, nil)
	for i := range uint64(3) { // 150 rows, as means of fewer than leastRows are not compared
		if status, _, text := post(t, s.url+"/predict", "text/csv", csvOf(small.names(), someRows(small, 50,
			i))); status != 200 {
			t.Fatalf("got status %d, %s; want 200", status, text)
		}
	}

	for version, why := range map[int]string{2: "its mean prediction is",
		3: "cannot score a request that ctr version 1 can"} {
		promote(t, reg, version)
		name := "ctr@" + strconv.Itoa(version)
		until(t, name+" waits", func() bool { return state(t, s).Waiting == name })
		if got := state(t, s); got.Version != "ctr@1" || !strings.Contains(got.Why, why) {
			t.Errorf("got %+v; want ctr@1 to answer, and ... %s ...", got, why)
		}
	}
	promote(t, reg, 1)
	until(t, "nothing waits", func() bool { return state(t, s).Waiting == "" })
	if !strings.Contains(s.log.String(), "a new version waits") {
		t.Errorf("the log has %s; want that a new version waits", s.log)
	}
}

// TestNoVersionCanBeServed: a server whose only version is damaged is not ready, and /readyz and the log say why and
// what to do. It becomes ready once another version is the champion.
func TestNoVersionCanBeServed(t *testing.T) {
	reg, store := newRegistry()
	broken := damage(store, register(t, reg, "one", filesOf(t, 1)))
	register(t, reg, "two", filesOf(t, 2))
	promote(t, reg, 1)
	s := starting(t, broken, nil)
	read := func() (status int, text string) {
		r, err := http.Get(s.url + "/readyz")
		must.Do(t, err)
		defer r.Body.Close()
		all := must.Get(io.ReadAll(r.Body))(t)
		return r.StatusCode, string(all)
	}
	until(t, "/readyz names the version and what to do", func() bool {
		status, text := read()
		return status == http.StatusServiceUnavailable && strings.HasPrefix(text, "ctr@1 cannot be loaded") &&
			strings.Contains(text, "launcher registry rollback")
	})
	if text := s.log.String(); !strings.Contains(text, "no version answers") ||
		!strings.Contains(text, "launcher registry rollback") {
		t.Errorf("the log is %s; want that no version answers, and what to do", text)
	}
	promote(t, reg, 2)
	until(t, "the other version answers", func() bool { status, _ := read(); return status == http.StatusOK })
}
