package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/serve"
	answers "coppice/launcher/internal/served"
)

// withUsual are the files of a version that knows what its inputs are usually like.
func withUsual(tb testing.TB) map[string][]byte {
	tb.Helper()
	reg, _ := newRegistry()
	m, err := serve.Load(tb.Context(), reg, register(tb, reg, "one", filesOf(tb, 1)), tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	defer m.Retire()
	files, err := table.Expand(small.write(tb, 77))
	if err != nil {
		tb.Fatal(err)
	}
	t, err := table.Open(files, table.Options{Threads: 1})
	if err != nil {
		tb.Fatal(err)
	}
	var in cell.Inputs
	if err := t.Read(tb.Context(), m.Scorer.Columns(), 4096, func(b *table.Batch) error {
		_, err := m.Score(b, nil, &in)
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	out := maps.Clone(filesOf(tb, 1))
	if out[scorer.FileInputs], err = json.Marshal(in); err != nil {
		tb.Fatal(err)
	}
	return out
}

// TestDays serves ten quiet days, in which nobody is told of anything, and then days with a fault from noon on, of
// which people are told when the hour ends.
func TestDays(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "usual", withUsual(t))
	promote(t, reg, 1)
	var mu sync.Mutex
	clock := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	told := map[time.Time]string{}
	s := start(t, store, func(c *serve.Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
		c.Tell = func(_ context.Context, v registry.Version, hour time.Time, findings []string) {
			mu.Lock()
			defer mu.Unlock()
			told[hour] = v.Model + ": " + strings.Join(findings, "; ")
		}
	})
	rng := rand.New(rand.NewPCG(9, 9))
	hour := func(change func(cells []string)) (begin time.Time) {
		for range 2 {
			var rows [][]string
			for range 500 {
				_, cells := small.row(rng)
				change(cells)
				rows = append(rows, cells)
			}
			status, _, text := post(t, s.url+"/predict", "text/csv", csvOf(small.names(), rows))
			if status != http.StatusOK {
				t.Fatalf("got status %d, %s; want 200", status, text)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		begin, clock = clock, clock.Add(time.Hour)
		return begin
	}
	quiet := func([]string) {}
	for range 10 * 24 {
		hour(quiet)
	}
	hour(quiet) // ends the last of them
	mu.Lock()
	if len(told) > 0 {
		t.Errorf("in ten quiet days people were told %v, want nothing", told)
	}
	mu.Unlock()

	for want, change := range map[string]func(cells []string){
		"i1: 4": func(cells []string) { // four of ten rows have campaigns that are new
			if rng.IntN(10) < 4 {
				cells[1] += "-new"
			}
		},
		"n2: ": func(cells []string) { // a column gets lost on the way
			if rng.IntN(3) == 0 {
				cells[small.ids+2] = ""
			}
		},
	} {
		for range 3 {
			hour(quiet)
		}
		begin := hour(change)
		at := func() string { mu.Lock(); defer mu.Unlock(); return told[begin] }
		until(t, "people are told of the hour that has ended", func() bool { return at() != "" })
		if got := at(); !strings.HasPrefix(got, "ctr: "+want) {
			t.Errorf("got %q at the end of the hour, want a finding that begins with %s", got, want)
		}
	}
}

// TestKeptHours: an hour is kept when it has ended, and the one in which the server ends with it. Storage that fails
// costs the hour only.
func TestKeptHours(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "usual", withUsual(t))
	promote(t, reg, 1)
	var mu sync.Mutex
	clock := time.Date(2026, 11, 20, 7, 0, 0, 0, time.UTC)
	bucket, fails := blob.Memory(), true
	kept := func(hours int) []answers.Past {
		t.Helper()
		past, err := answers.ReadPast(t.Context(), bucket, reg, "ctr", hours, clock.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return past.Hours
	}
	tries := 0
	s := start(t, store, func(c *serve.Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
		c.Keep = func(ctx context.Context, k answers.Kept) error {
			mu.Lock()
			defer mu.Unlock()
			if tries++; fails {
				return errors.New("no storage")
			}
			return answers.Keep(ctx, bucket, "one", k)
		}
	})
	rng := rand.New(rand.NewPCG(9, 9))
	ask := func() {
		t.Helper()
		var rows [][]string
		for range 100 {
			_, cells := small.row(rng)
			rows = append(rows, cells)
		}
		if status, _, text := post(t, s.url+"/predict", "text/csv", csvOf(small.names(), rows)); status != 200 {
			t.Fatalf("got status %d, %s; want 200", status, text)
		}
	}
	next := func(failing bool) {
		mu.Lock()
		defer mu.Unlock()
		clock, fails = clock.Add(time.Hour), failing
	}
	tried := func(want int) {
		t.Helper()
		until(t, "the hour was kept, or tried to", func() bool { mu.Lock(); defer mu.Unlock(); return tries == want })
	}
	ask()
	next(true)
	tried(1)
	ask()
	ask()
	next(false)
	tried(2)
	if past := kept(3); len(past) != 1 || past[0].Requests != 2 || past[0].Rows != 200 || past[0].Version != "ctr@1" ||
		!past[0].Begin.Equal(clock.Add(-time.Hour)) || past[0].Mean <= 0 || len(past[0].Inputs) == 0 {
		t.Errorf("got %+v, want the second hour with 2 requests, 200 rows and its inputs", past)
	}
	ask()
	post(t, s.url+"/predict", "text/csv", []byte("none\n1\n"))
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/day", nil))
	if text := w.Body.String(); !strings.Contains(text, "ctr needs a look: 1 of 3 hours") ||
		!strings.Contains(text, "50 % of the requests were refused (4xx)") ||
		!strings.Contains(text, "ctr@1 answers now") || strings.Contains(text, "<script") ||
		strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src") ||
		!strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Errorf("/day: got %v, %.3000s; want the hour with a request refused, and no script", w.Header(), text)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if past := kept(1); len(past) != 1 || past[0].Rows != 100 || past[0].Refused != 1 || past[0].P50 <= 0 ||
		past[0].P99 < past[0].P50 {
		t.Errorf("got %+v after the server has ended, want its last hour with 100 rows, a refusal and latencies", past)
	}
}

// TestLastHour: a request that outlasts the drain changes nothing of the hour while it is written, and the hour waits
// for nobody who is told of the one before.
func TestLastHour(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "usual", withUsual(t))
	promote(t, reg, 1)
	var mu sync.Mutex
	clock := time.Date(2026, 11, 20, 7, 0, 0, 0, time.UTC)
	begin, lastKept := clock, make(chan struct{})
	var s *served
	ask := func() {
		_, cells := small.row(rand.New(rand.NewPCG(9, 9)))
		r := httptest.NewRequest(http.MethodPost, s.url+"/predict",
			bytes.NewReader(csvOf(small.names(), [][]string{cells})))
		r.Header.Set("Content-Type", "text/csv")
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("got status %d, %s; want 200", w.Code, w.Body)
		}
	}
	s = start(t, store, func(c *serve.Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
		c.Keep = func(ctx context.Context, k answers.Kept) error {
			if k.Begin.Equal(begin) {
				select {
				case <-lastKept:
				case <-ctx.Done():
					t.Error("the last hour waits for the one before, want it to be kept beside")
				}
				return nil
			}
			before, err := json.Marshal(k)
			ask()
			after, err2 := json.Marshal(k)
			if err := errors.Join(err, err2); err != nil || string(after) != string(before) || k.Rows != 1 {
				t.Errorf("got the last hour %s, %v, and %s after another request; want one row in both", before, err,
					after)
			}
			close(lastKept)
			return nil
		}
	})
	ask()
	mu.Lock()
	clock = clock.Add(time.Hour)
	mu.Unlock()
	ask()
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
}
