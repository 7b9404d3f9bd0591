package serve

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"

	"coppice/internal/dataset/cell"
	"coppice/internal/telemetry"
)

// StartMetrics starts measuring. It returns the page that Prometheus reads, the server's instruments, and the telemetry
// that exports them as o says, which the caller has to close.
func StartMetrics(ctx context.Context, o telemetry.Options) (http.Handler, *Meters, *telemetry.Telemetry, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make the page for Prometheus: %w", err)
	}
	o.Readers = append(o.Readers, reader)
	t := telemetry.Start(ctx, o)
	meters, err := NewMeters(t.Meter())
	if err != nil {
		t.Close(ctx)
		return nil, nil, nil, err
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), meters, t, nil
}

// Meters are the server's measurements. A nil one measures nothing.
type Meters struct {
	requests, rows, swaps, waits metric.Int64Counter
	predicted                    metric.Float64Counter
	seconds                      metric.Float64Histogram

	mu      sync.Mutex
	columns map[string]*inputColumn
	mean    float64 // prediction for the held-out rows of the version that answers; NaN if it does not record it
}

// inputColumn counts the values of one column of the models' inputs: in requests since the start, whichever version has
// answered (asked), and in the rows on which the version that answers now was tested (heldOut).
type inputColumn struct {
	name           metric.MeasurementOption
	asked, heldOut valueCount
}

// valueCount counts the values of a column. Only ids can be unseen.
type valueCount struct {
	rows, missing, unseen int64
	ids                   bool
}

func (c *valueCount) add(rows int64, in *cell.InputCount) {
	c.rows, c.missing, c.unseen, c.ids = c.rows+rows, c.missing+in.Missing, c.unseen+in.Unseen, c.ids || in.IDs
}

// mostColumns is how many columns are counted by name; those beyond, and one of this name, are summed up as "other".
// Their names are the only label values that do not come from this program.
const (
	mostColumns  = 200
	otherColumns = "other"
)

// column returns the counts of a column, which it makes if they are new. The caller holds m.mu.
func (m *Meters) column(name string) *inputColumn {
	c := m.columns[name]
	if c == nil && len(m.columns) >= mostColumns {
		name = otherColumns
		c = m.columns[name]
	}
	if c == nil {
		c = &inputColumn{name: metric.WithAttributeSet(attribute.NewSet(attribute.String("column", name)))}
		m.columns[name] = c
	}
	return c
}

// latencies are the upper ends, in seconds, of the classes in which answers are counted.
var latencies = []float64{.0002, .0005, .001, .002, .003, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5}

// NewMeters registers the server's instruments with a meter; docs/serving.md says what they measure.
func NewMeters(m metric.Meter) (*Meters, error) {
	out := &Meters{columns: map[string]*inputColumn{}, mean: math.NaN()}
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, what string
	}{
		{&out.requests, "coppice.serve.requests", "requests, by the status of their answer"},
		{&out.rows, "coppice.serve.rows", "rows that were scored"},
		{&out.swaps, "coppice.serve.swaps", "versions that began to answer"},
		{&out.waits, "coppice.serve.waits", "times that a version could not be loaded, or not answer yet"},
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
		metric.WithExplicitBucketBoundaries(latencies...))
	if err != nil {
		return nil, fmt.Errorf("measure seconds: %w", err)
	}
	return out, out.watchInputs(m)
}

// watchInputs registers the instruments of columns and held-out rows. They are computed from m when the measurements
// are read, and not while requests are answered.
func (m *Meters) watchInputs(of metric.Meter) error {
	var counters [3]metric.Int64ObservableCounter
	var shares [3]metric.Float64ObservableGauge
	var all []metric.Observable
	for i, c := range [3][2]string{
		{"coppice.serve.column.rows", "rows that were scored with this column"},
		{"coppice.serve.column.missing", "of them, those without a value in it"},
		{"coppice.serve.column.unseen", "of them, those with an id that training has not seen"},
	} {
		var err error
		if counters[i], err = of.Int64ObservableCounter(c[0], metric.WithDescription(c[1])); err != nil {
			return fmt.Errorf("measure %s: %w", c[0], err)
		}
		all = append(all, counters[i])
	}
	for i, c := range [3][3]string{
		{"coppice.serve.column.heldout.missing", "1", "share of the held-out rows without a value in this column"},
		{"coppice.serve.column.heldout.unseen", "1", "share of the held-out rows with an id that training did not see"},
		{"coppice.serve.heldout.mean_prediction", "", "mean prediction for the held-out rows"},
	} {
		var err error
		if shares[i], err = of.Float64ObservableGauge(c[0], metric.WithUnit(c[1]),
			metric.WithDescription(c[2]+" of the version that answers")); err != nil {
			return fmt.Errorf("measure %s: %w", c[0], err)
		}
		all = append(all, shares[i])
	}

	_, err := of.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, c := range m.columns {
			o.ObserveInt64(counters[0], c.asked.rows, c.name)
			o.ObserveInt64(counters[1], c.asked.missing, c.name)
			if c.asked.ids {
				o.ObserveInt64(counters[2], c.asked.unseen, c.name)
			}
			if c.heldOut.rows == 0 {
				continue
			}
			o.ObserveFloat64(shares[0], float64(c.heldOut.missing)/float64(c.heldOut.rows), c.name)
			if c.heldOut.ids {
				o.ObserveFloat64(shares[1], float64(c.heldOut.unseen)/float64(c.heldOut.rows), c.name)
			}
		}
		if !math.IsNaN(m.mean) {
			o.ObserveFloat64(shares[2], m.mean)
		}
		return nil
	}, all...)
	if err != nil {
		return fmt.Errorf("measure columns: %w", err)
	}
	return nil
}

var statusOK = metric.WithAttributeSet(attribute.NewSet(attribute.Int("status", http.StatusOK)))

// countAnswered counts a request that was answered: predictions has one number for each row, in counts the values of
// its columns, and took is from the first byte to the answer.
func (m *Meters) countAnswered(ctx context.Context, predictions []float64, in *cell.Inputs, took time.Duration) {
	if m == nil {
		return
	}
	m.requests.Add(ctx, 1, statusOK)
	m.rows.Add(ctx, int64(len(predictions)))
	m.predicted.Add(ctx, max(sumFinite(predictions), 0)) // a counter cannot fall, while a regression may predict less
	m.seconds.Record(ctx, took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range in.Columns {
		m.column(in.Columns[i].Column).asked.add(in.Rows, &in.Columns[i])
	}
}

// sumFinite is the sum of predictions. One that is not finite counts as 0: added to the counter, it would make all
// later values NaN or infinite.
func sumFinite(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			sum += x
		}
	}
	return sum
}

func (m *Meters) countRefused(ctx context.Context, status int) {
	if m != nil {
		m.requests.Add(ctx, 1, metric.WithAttributes(attribute.Int("status", status)))
	}
}

// countSwap counts that the version to begins to answer, and replaces the counts of held-out rows by those of its own.
func (m *Meters) countSwap(ctx context.Context, to *Model) {
	if m == nil {
		return
	}
	m.swaps.Add(ctx, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mean = to.heldOutMean
	for _, c := range m.columns {
		c.heldOut = valueCount{}
	}
	if usual := to.Scorer.Usual; usual != nil {
		for i := range usual.Columns {
			m.column(usual.Columns[i].Column).heldOut.add(usual.Rows, &usual.Columns[i])
		}
	}
}

func (m *Meters) countWaiting(ctx context.Context) {
	if m != nil {
		m.waits.Add(ctx, 1)
	}
}
