package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"coppice/internal/dataset/table"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// The last requests, on which a new version is compared with the one that answers: within these bounds.
const (
	recentRows  = 4096
	recentBytes = 16 << 20
	leastRows   = 100 // fewer say nothing about a shift
)

// mostPause bounds the pause before a version that could not be loaded is tried again.
const mostPause = 10 * time.Minute

// past is a request that was answered. It is kept unread, since another version may need other columns of it.
type past struct {
	read        func(*Model) (*table.Batch, error)
	rows, bytes int
}

// recent holds the last requests.
type recent struct {
	mu          sync.Mutex
	requests    []past // the oldest first
	rows, bytes int
}

// add keeps a request, and drops the oldest ones until recentRows and recentBytes are kept. A request that exceeds one
// of them by itself is not kept.
func (r *recent) add(p past) {
	if p.rows > recentRows || p.bytes > recentBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, p)
	r.rows, r.bytes = r.rows+p.rows, r.bytes+p.bytes
	old := 0
	for ; r.rows > recentRows || r.bytes > recentBytes; old++ {
		r.rows, r.bytes = r.rows-r.requests[old].rows, r.bytes-r.requests[old].bytes
	}
	clear(r.requests[:old]) // the array keeps them in memory otherwise
	r.requests = r.requests[old:]
}

func (r *recent) all() []past {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Watch has the version answer that the model's alias points at, and follows the alias whenever it moves, until ctx
// ends. What fails is tried again; until then the version before continues to answer.
func (s *Server) Watch(ctx context.Context) {
	var held *Model // loaded, but beyond MaxShift
	defer func() {
		if held != nil {
			held.Retire()
		}
	}()
	var failed failure
	for {
		held = s.followAlias(ctx, held, &failed)
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.c.Poll):
		}
	}
}

// failure is a version that could not be loaded. It may have gigabytes, so the pauses before it is tried again double.
type failure struct {
	number int           // the version's
	pause  time.Duration // the last pause
	until  time.Time     // when that ends
}

// waits reports whether the version has failed and its pause has not ended.
func (f *failure) waits(number int) bool { return f.number == number && time.Now().Before(f.until) }

// scheduleRetry notes that a version could not be loaded. Its pause is twice the one before, at first two polls, and at
// most most.
func (f *failure) scheduleRetry(number int, poll, most time.Duration) {
	if f.number != number {
		*f = failure{number: number, pause: poll}
	}
	f.pause = min(2*f.pause, most)
	f.until = time.Now().Add(f.pause)
}

// followAlias asks the registry which version is to answer, loads it if it is new, and has it answer unless it differs
// too much from the one before (compare). Such a version is returned, so that it need not be loaded again for the next
// call, which gets it as held; otherwise the result is nil. failed remembers a version that could not be loaded.
func (s *Server) followAlias(ctx context.Context, held *Model, failed *failure) *Model {
	drop := func() *Model {
		if held != nil {
			held.Retire()
		}
		return nil
	}

	// Which version is it?
	v, err := s.c.Registry.Get(ctx, s.c.Model, s.c.Ref)
	if err != nil {
		s.tellOnce(ctx, "", "the registry cannot be asked which version is to answer", err)
		return held
	}
	name := fmt.Sprintf("%s@%d", v.Model, v.Number)
	now := s.current.Load()
	if now != nil && same(now.Version, v) {
		s.tellOnce(ctx, "", "", nil) // nothing waits any more
		return drop()
	}

	// Load it, unless it is held already.
	if held == nil || !same(held.Version, v) {
		held = drop()
		if failed.waits(v.Number) {
			return nil
		}
		if held, err = Load(ctx, s.c.Registry, v, s.c.Cache); err != nil {
			most, what := mostPause, "a new version cannot be loaded"
			if now == nil { // nobody answers
				most = 30 * time.Second
				what = "no version answers, since this one cannot be loaded. " + adviceUnloaded
			}
			failed.scheduleRetry(v.Number, s.c.Poll, most)
			s.tellOnce(ctx, name, what, err)
			return nil
		}
	}
	*failed = failure{}

	// It waits if it differs too much.
	if now != nil {
		if why := s.compare(now, held); why != "" {
			s.tellOnce(ctx, name, "a new version waits", problem.New(problem.Conflict, "%s", why))
			return held
		}
	}

	// From here on it answers. The one before is closed when its last request is answered.
	s.current.Store(held)
	s.c.Meters.countSwap(ctx, held)
	s.c.Log.Info("a version answers", "version", held.Name)
	s.tellOnce(ctx, "", "", nil)
	if now != nil {
		now.Retire()
	}
	return nil
}

// same reports whether two versions are one.
func same(a, b registry.Version) bool { return a.Model == b.Model && a.Number == b.Number }

// tellOnce sets what /status and /readyz say: the version name does not answer, because of what and err. It logs and
// counts that if it is news. A nil err means that nothing waits any more. An error after ctx has ended is passed over:
// that end is its cause.
func (s *Server) tellOnce(ctx context.Context, name, what string, err error) {
	text := ""
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		text = what + ": " + err.Error()
	}
	s.mu.Lock()
	changed := s.waits != text
	s.waits, s.waited = text, name
	s.mu.Unlock()
	if changed && text != "" {
		s.c.Meters.countWaiting(ctx)
		s.c.Log.Warn(what, "version", name, "error", err.Error())
	}
}

// compare scores the last requests with the version that answers now and with the next. It returns why the next may not
// answer yet, "" if it may: it answers in another form, cannot score one of the requests, or shifts their mean
// prediction by more than MaxShift, a share of the mean before. Means are compared neither on fewer than leastRows rows
// nor if MaxShift is 0.
func (s *Server) compare(now, next *Model) string {
	if why := next.otherClasses(now); why != "" {
		return why + ". If callers can read its answers, start the server again"
	}
	var before, after float64
	rows := 0
	for _, past := range s.recent.all() {
		p, err := now.scoreAgain(past)
		if err != nil {
			continue // it was answered by the version before this one, which needed other columns
		}
		q, err := next.scoreAgain(past)
		if err != nil {
			return fmt.Sprintf("it cannot score a request that %s can: %v. Have requests send what it needs, or "+
				"return to the version before with `launcher registry rollback`", now.Version.Called(), err)
		}
		for i := range p {
			before += p[i]
			after += q[i]
		}
		rows += len(p)
	}

	if rows < leastRows || s.c.MaxShift <= 0 {
		return ""
	}
	shift := math.Abs(after-before) / max(math.Abs(before), 1e-12) // 1e-12: no division by 0
	if shift <= s.c.MaxShift {
		return ""
	}
	return fmt.Sprintf("on the last %d rows its mean prediction is %.4g where that of %s is %.4g, a shift of %.0f %% "+
		"(--max-shift allows %.0f %%); it is compared again as requests come. If it is right, start the server again",
		rows, after/float64(rows), now.Version.Called(), before/float64(rows), 100*shift, 100*s.c.MaxShift)
}

// otherClasses says in what the answers of m differ from those of the other version; "" if both have the same classes.
func (m *Model) otherClasses(than *Model) string {
	if slices.Equal(m.classes, than.classes) {
		return ""
	}
	return fmt.Sprintf("%s answers with %s, and %s with %s", m.Version.Called(), m.form(),
		than.Version.Called(), than.form())
}

// form names what comes back for a row.
func (m *Model) form() string {
	if len(m.classes) == 0 {
		return "one number"
	}
	return fmt.Sprintf("probabilities of %d classes (%.300s)", len(m.classes), strings.Join(m.classes, ", "))
}

// scoreAgain scores a request that was answered before with m, and returns one number for each row.
func (m *Model) scoreAgain(p past) ([]float64, error) {
	b, err := p.read(m)
	if err != nil {
		return nil, err
	}
	predictions, err := m.Score(b, nil, nil)
	return m.onePerRow(predictions), err
}

// serveStatus says which version answers, and what waits and why.
func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	status := struct {
		Version string   `json:"version"`
		Columns []string `json:"columns"`
		Waiting string   `json:"waiting,omitempty"`
		Why     string   `json:"why,omitempty"`
	}{Columns: []string{}}
	if m := s.current.Load(); m != nil {
		status.Version, status.Columns = m.Name, m.columns
	}
	s.mu.Lock()
	status.Waiting, status.Why = s.waited, s.waits
	s.mu.Unlock()
	w.Header().Set("Content-Type", typeJSON)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(status) // the caller may have left
}
