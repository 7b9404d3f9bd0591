package conclude

import (
	"context"
	"iter"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// numbers are what an in-memory reader collects, by instrument and its attribute values, in the order of their names.
func numbers(t *testing.T, reader sdk.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	must.Do(t, reader.Collect(context.WithoutCancel(t.Context()), &all))
	out := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					out[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					out[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					out[key(m.Name, p.Attributes)] = p.Value
				}
			}
		}
	}
	return out
}

func key(name string, attributes attribute.Set) string {
	for _, a := range attributes.ToSlice() {
		name += " " + a.Value.AsString()
	}
	return name
}

// hidden is a store in which one object has not appeared yet.
type hidden struct {
	blob.Store
	name string
}

func (h *hidden) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		for attrs, err := range h.Store.List(ctx, prefix) {
			if (h.name == "" || attrs.Name != h.name) && !yield(attrs, err) {
				return
			}
		}
	}
}

// TestOpenSweepsAreMeasured: the metrics of a sweep follow its results, and disappear when it is concluded.
func TestOpenSweepsAreMeasured(t *testing.T) {
	w := newWorld(t, options{})
	results := hidden{Store: w.sweeps, name: sweep.Names(w.plan.Sweep).Result(2)}
	a := w.aggregator()
	a.Sweeps = &results
	reader := sdk.NewManualReader()
	must.Do(t, a.Measure(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("coppice")))
	if c, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || c != nil {
		t.Fatalf("trials are still open: concluded as %+v (error %v); want no conclusion yet", c, err)
	}
	id := string(w.plan.Sweep)
	var trees, takeovers float64
	best := 0.0
	for _, i := range []int{0, 1} {
		var r sweep.Result
		must.Get(blob.ReadJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(i), &r))(t)
		trees, takeovers, best = trees+float64(r.TreesGrown), takeovers+float64(r.Claim), max(best, r.Score)
	}
	got := numbers(t, reader)
	for name, want := range map[string]float64{
		"coppice.sweep.trials done":    2,
		"coppice.sweep.trials waiting": 1,
		"coppice.sweep.trees":          trees,
		"coppice.sweep.takeovers":      takeovers,
		"coppice.sweep.best_score auc": best,
	} {
		if v, ok := got[name+" "+id]; !ok || v != want {
			t.Errorf("%s is %v (%t), want %v in %v", name, v, ok, want, got)
		}
	}
	results.name = ""
	if c, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || c == nil {
		t.Fatalf("considered when all results can be read: got %+v, %v; want a conclusion", c, err)
	}
	got = numbers(t, reader)
	if got["coppice.aggregator.conclusions winner"] != 1 || got["coppice.aggregator.verdicts promoted"] != 1 ||
		len(got) != 2 {
		t.Errorf("after the end: %v", got)
	}
}

// TestApart: a model of many trees is verified on some of the sample's rows, others on all.
func TestApart(t *testing.T) {
	for _, tc := range []struct{ rows, trees, want int }{{25_000, 500, 1}, {50_000, 23_000, 77}, {0, 23_000, 1}} {
		if got := apart(tc.rows, tc.trees); got != tc.want {
			t.Errorf("apart(%d, %d) = %d, want %d", tc.rows, tc.trees, got, tc.want)
		}
	}
}
