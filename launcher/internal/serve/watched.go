package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"coppice/internal/dataset/cell"
	"coppice/internal/registry"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/served"
)

// hours is how many past hours are kept in memory.
const hours = 24

// Hour is what was asked and answered within an hour. It holds no values of rows.
type Hour struct {
	Begin    time.Time       `json:"begin"`
	Version  string          `json:"version"` // that answered last
	Requests int64           `json:"requests"`
	Rows     int64           `json:"rows"`
	Mean     float64         `json:"mean_prediction"`
	Seconds  float64         `json:"seconds"`           // over all requests, from the first byte to the answer
	Busy     int64           `json:"busy,omitempty"`    // refused with 429,
	Refused  int64           `json:"refused,omitempty"` // another 4xx,
	Failed   int64           `json:"failed,omitempty"`  // or 5xx
	Inputs   []predict.Input `json:"inputs,omitempty"`
	Findings []string        `json:"findings,omitempty"`

	sum float64
	by  map[string]*answered // by version
}

// answered is what a version has answered within an hour.
type answered struct {
	served.Kept
	usual *cell.Inputs
	model registry.Version
}

// of is what a version has answered within the hour.
func (h *Hour) of(m *Model) *answered {
	a := h.by[m.Name]
	if a == nil {
		a = &answered{Kept: served.Kept{Version: m.Name, Begin: h.Begin}, usual: m.Scorer.Usual, model: m.Version}
		if h.by == nil {
			h.by = map[string]*answered{}
		}
		h.by[m.Name] = a
	}
	return a
}

// kept are copies of what each version has answered.
func (h *Hour) kept() []answered {
	var out []answered
	for _, name := range slices.Sorted(maps.Keys(h.by)) {
		k := *h.by[name]
		k.Inputs.Columns, k.Latency = slices.Clone(k.Inputs.Columns), slices.Clone(k.Latency)
		out = append(out, k)
	}
	return out
}

// day holds the last hours.
type day struct {
	mu   sync.Mutex
	now  Hour
	past []Hour // the oldest first
}

// turn begins a new hour if it is time, and returns the one that has ended, if a version was asked in it.
func (d *day) turn(at time.Time) *Hour {
	begin := at.UTC().Truncate(time.Hour)
	if d.now.Begin.Equal(begin) {
		return nil
	}
	ended := d.now.finish()
	d.now = Hour{Begin: begin}
	if len(ended.by) == 0 {
		return nil
	}
	d.past = append(d.past, ended)
	d.past = d.past[max(0, len(d.past)-hours):]
	return &ended
}

// finish computes what follows from the sums.
func (h Hour) finish() Hour {
	h.Mean = h.sum / float64(max(h.Rows, 1))
	for _, a := range h.by {
		h.Busy, h.Refused, h.Failed = h.Busy+a.Busy, h.Refused+a.Refused, h.Failed+a.Failed
	}
	if a := h.by[h.Version]; a != nil {
		past := served.PastOf(&a.Kept, a.usual)
		h.Inputs, h.Findings = past.Inputs, past.Findings
	}
	return h
}

// total is the sum of predictions. One that is not finite counts as 0: it would take the others of its hour with it.
func total(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			sum += x
		}
	}
	return sum
}

// seen records a request that was answered.
func (s *Server) seen(ctx context.Context, m *Model, predictions []float64, in *cell.Inputs, took time.Duration) {
	sum := total(predictions)
	s.c.Meters.answered(ctx, len(predictions), sum, took)

	s.count(ctx, func(h *Hour) {
		h.Version = m.Name
		h.Rows += int64(len(predictions))
		h.sum += sum
		h.Requests++
		h.Seconds += took.Seconds()
		h.of(m).Answered(len(predictions), sum, took, in)
	})
}

// statusLeft is for a caller that has left: nothing has failed here.
const statusLeft = 499

// refused records a request that was refused, for the version that would have answered it. Before there is one, only
// the metrics count it.
func (s *Server) refused(ctx context.Context, status int) {
	s.c.Meters.refused(ctx, status)
	if ctx.Err() != nil {
		status = statusLeft
	}
	if m := s.current.Load(); m != nil {
		s.count(ctx, func(h *Hour) { h.of(m).Turned(status) })
	}
}

// count has change count something of this hour.
func (s *Server) count(ctx context.Context, change func(*Hour)) {
	s.endHour(ctx)
	s.day.mu.Lock()
	defer s.day.mu.Unlock()
	change(&s.day.now)
}

// endHour reports the hour that has ended, if one has.
func (s *Server) endHour(ctx context.Context) {
	s.day.mu.Lock()
	ended := s.day.turn(s.now())
	s.day.mu.Unlock()
	if ended != nil { // telling people may take a minute, and is not for the caller to wait for
		s.reports.Go(func() { s.report(context.WithoutCancel(ctx), ended) })
	}
}

// report tells what an hour's requests were like, if they were unlike the rows that the model was judged on.
func (s *Server) report(ctx context.Context, h *Hour) {
	s.c.Log.Info("an hour has ended", "begin", h.Begin, "version", h.Version, "requests", h.Requests, "rows", h.Rows,
		"mean_prediction", h.Mean)
	for _, finding := range h.Findings {
		s.c.Meters.found(ctx)
		s.c.Log.Warn("requests differ from what the model knows", "version", h.Version, "hour", h.Begin, "finding",
			finding)
	}
	if s.c.Tell != nil && len(h.Findings) > 0 {
		s.c.Tell(ctx, h.by[h.Version].model, h.Begin, h.Findings)
	}
	s.keep(ctx, h.kept())
}

// keep stores an hour of each version. A failure costs the hour, and no answer.
func (s *Server) keep(ctx context.Context, all []answered) {
	if s.c.Keep == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for _, k := range all {
		if err := s.c.Keep(ctx, k.Kept); err != nil {
			s.c.Log.Warn("an hour could not be kept", "version", k.Version, "hour", k.Begin, "error", err.Error())
		}
	}
}

// keepLast stores the hour in which the server ends, in the second that Cloud Run leaves for it. A request that has
// outlasted the drain may still be counted while it is written, so it has a copy.
func (s *Server) keepLast(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	s.day.mu.Lock()
	last := s.day.now.kept()
	s.day.mu.Unlock()
	s.keep(ctx, last)
}

// serveStatus says which version answers, what waits and why, and what the last hours were like.
func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	status := struct {
		Version string   `json:"version"`
		Columns []string `json:"columns"`
		Waiting string   `json:"waiting,omitempty"`
		Why     string   `json:"why,omitempty"`
		Hour    Hour     `json:"hour"`
		Past    []Hour   `json:"past"`
	}{Columns: []string{}, Past: []Hour{}}
	if m := s.current.Load(); m != nil {
		status.Version, status.Columns = m.Name, m.columns
	}
	s.mu.Lock()
	status.Waiting, status.Why = s.waited, s.waits
	s.mu.Unlock()
	s.day.mu.Lock()
	status.Hour = s.day.now.finish()
	status.Past = append(status.Past, s.day.past...)
	s.day.mu.Unlock()
	w.Header().Set("Content-Type", typeJSON)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(status) // the caller may have left
}

// serveDay shows the last hours as a page. They are compared after the lock, for which every request waits: those that
// have ended change no more.
func (s *Server) serveDay(w http.ResponseWriter, r *http.Request) {
	var all served.Hours
	s.endHour(r.Context())
	s.day.mu.Lock()
	past, last := s.day.past, s.day.now.kept()
	s.day.mu.Unlock()
	var kept []answered
	for i := range past {
		kept = append(kept, past[i].kept()...)
	}
	for _, k := range append(kept, last...) {
		all.Hours = append(all.Hours, served.PastOf(&k.Kept, k.usual))
	}
	now := s.now()
	view := served.Day(s.c.Model, &all, nil, now, now)
	view.Command = "curl http://" + r.Host + "/status"
	if m := s.current.Load(); m != nil {
		view.Live = m.Name
	}
	served.Answer(w, view)
}

// Meters are the server's measurements. A nil one measures nothing.
type Meters struct {
	requests, rows, swaps, waits, findings metric.Int64Counter
	predicted                              metric.Float64Counter
	seconds                                metric.Float64Histogram
}

// NewMeters makes the instruments.
func NewMeters(m metric.Meter) (*Meters, error) {
	out := &Meters{}
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, what string
	}{
		{&out.requests, "coppice.serve.requests", "requests, by the status of their answer"},
		{&out.rows, "coppice.serve.rows", "rows that were scored"},
		{&out.swaps, "coppice.serve.swaps", "versions that began to answer"},
		{&out.waits, "coppice.serve.waits", "times that a version could not be loaded, or not answer yet"},
		{&out.findings, "coppice.serve.findings", "columns that differed within an hour from what the model knows"},
	} {
		var err error
		if *c.to, err = m.Int64Counter(c.name, metric.WithDescription(c.what)); err != nil {
			return nil, fmt.Errorf("measure %s: %w", c.name, err)
		}
	}
	var err error
	if out.predicted, err = m.Float64Counter("coppice.serve.predicted",
		metric.WithDescription("sum of the predictions; divided by the rows, their mean")); err != nil {
		return nil, fmt.Errorf("measure predictions: %w", err)
	}
	out.seconds, err = m.Float64Histogram("coppice.serve.seconds", metric.WithUnit("s"),
		metric.WithDescription("time from a request's first byte to its answer"),
		metric.WithExplicitBucketBoundaries(served.Bounds...))
	if err != nil {
		return nil, fmt.Errorf("measure seconds: %w", err)
	}
	return out, nil
}

var statusOK = metric.WithAttributeSet(attribute.NewSet(attribute.Int("status", http.StatusOK)))

func (m *Meters) answered(ctx context.Context, rows int, sum float64, took time.Duration) {
	if m == nil {
		return
	}
	m.requests.Add(ctx, 1, statusOK)
	m.rows.Add(ctx, int64(rows))
	m.predicted.Add(ctx, max(sum, 0)) // a regression may predict less
	m.seconds.Record(ctx, took.Seconds())
}

func (m *Meters) refused(ctx context.Context, status int) {
	if m != nil {
		m.requests.Add(ctx, 1, metric.WithAttributes(attribute.Int("status", status)))
	}
}

func (m *Meters) swapped(ctx context.Context) {
	if m != nil {
		m.swaps.Add(ctx, 1)
	}
}

func (m *Meters) waiting(ctx context.Context) {
	if m != nil {
		m.waits.Add(ctx, 1)
	}
}

func (m *Meters) found(ctx context.Context) {
	if m != nil {
		m.findings.Add(ctx, 1)
	}
}
