package worker

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"coppice/internal/blob"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// readings are what an in-memory reader collects: by instrument and the value of one attribute ("" for none).
type readings map[string]map[string]float64

func read(t *testing.T, reader sdk.Reader, by attribute.Key) readings {
	t.Helper()
	var all metricdata.ResourceMetrics
	must.Do(t, reader.Collect(context.WithoutCancel(t.Context()), &all))
	out := readings{}
	put := func(name string, a attribute.Set, v float64) {
		if id, _ := a.Value("sweep"); id.AsString() != "test-1" {
			t.Errorf("%s is of sweep %q", name, id.AsString())
		}
		if out[name] == nil {
			out[name] = map[string]float64{}
		}
		key, _ := a.Value(by)
		out[name][key.AsString()] = v
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return out
}

// reading is a store that calls read when the object last is requested.
type reading struct {
	blob.Store
	name string
	read func()
}

func (r *reading) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	if name == r.name {
		r.read()
	}
	return r.Store.Stat(ctx, name)
}

// TestWhatATaskMeasures compares the collected metrics with the results.
func TestWhatATaskMeasures(t *testing.T) {
	w := newWorld(t, 4, func(p *sweep.Plan) { p.Trials[1].Params["num_leaves"] = "many" })
	w.putJSON(t, sweep.Names(w.plan.Sweep).Claim(3, 0), sweep.Claim{Format: 1, Sweep: w.plan.Sweep, Trial: 3})
	w.put(t, sweep.Names(w.plan.Sweep).Release(3, 0), "{}")
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	task := w.worker(0)
	task.Meter = provider.Meter("coppice")
	var during readings // process state is observed only while the dataset is open
	var rows float64
	task.Sweeps = &reading{w.sweeps, sweep.Names(w.plan.Sweep).Ending(), func() {
		if task.table == nil {
			return
		}
		train, err := task.table.Select(sweep.Rows{Split: "train"})
		if err != nil {
			t.Error(err)
			return
		}
		rows, during = float64(train.Len()), read(t, reader, "")
	}}
	must.Do(t, task.Run(t.Context()))
	var trees float64
	for _, i := range []int{0, 2, 3} {
		r := w.result(t, i)
		trees += float64(r.TreesGrown)
		if u := r.Usage; u.CPUSeconds <= 0 || u.PeakPSSBytes < u.PrivateBytes || u.MappedBytes <= 0 ||
			u.TreesPerSecond <= 0 {
			t.Errorf("trial %d: %+v", i, u)
		}
		if got := read(t, reader, "trial")["coppice.task.score"][string(rune('0'+i))]; !(got > 0.5) {
			t.Errorf("score of trial %d: %v", i, got)
		}
	}
	if u := w.result(t, 1).Usage; u.MappedBytes <= 0 || u.PeakPSSBytes <= 0 || u.TreesPerSecond != 0 {
		t.Errorf("of a trial that failed: %+v", u)
	}
	got := read(t, reader, "status")
	for name, want := range map[string]float64{"coppice.task.trees": trees, "coppice.task.rows": trees * rows,
		"coppice.task.takeovers": 1, "coppice.task.queue": 0} {
		if got[name][""] != want {
			t.Errorf("%s is %v, want %v", name, got[name][""], want)
		}
	}
	if ended := got["coppice.task.trials"]; ended["done"] != 3 || ended["failed"] != 1 {
		t.Errorf("trials %v", ended)
	}
	if during["coppice.task.dataset.mapped"][""] != float64(w.result(t, 0).Usage.MappedBytes) ||
		during["coppice.task.memory.pss"][""] <= 0 ||
		during["coppice.task.memory.private"][""] <= 0 || during["coppice.task.cpu"][""] <= 0 {
		t.Errorf("while it trained: %v", during)
	}
}

// TestTheFinalTrainingIsMeasured: it trains on all orders of the statistics and on held-out rows, and its trees count
// those; a trial has one order of train.
func TestTheFinalTrainingIsMeasured(t *testing.T) {
	w := newWorldOn(t, datasettest.Options{Rows: 1500, Encodings: "{final: true}"}, 2, withFinal)
	reader := sdk.NewManualReader()
	task := w.worker(0)
	task.Meter = sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("coppice")
	must.Do(t, task.Run(t.Context()))
	want, final := 0, w.result(t, 2)
	for trial := range 2 {
		rows := w.manifest.TableRows(sweep.Train)
		if !w.plan.OneOrder() {
			rows *= w.manifest.Copies()
		}
		want += w.result(t, trial).TreesGrown * rows
	}
	want += final.TreesGrown * final.TrainRows
	if got := read(t, reader, "")["coppice.task.rows"][""]; got != float64(want) || final.TrainRows == 0 {
		t.Errorf("rows of the trees of two trials and a final training on %d rows: %v, want %d", final.TrainRows, got,
			want)
	}
}

// TestInterruptionsAreCounted: SIGTERM during training is what a preemption looks like from inside.
func TestInterruptionsAreCounted(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) {
		p.Trials[0].Params["num_iterations"] = 100000
		p.Trials[0].Params["early_stopping_round"] = 0
	})
	reader := sdk.NewManualReader()
	task := w.worker(0)
	task.Meter = sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("coppice")
	ctx, cancel := context.WithCancel(t.Context())
	task.Sweeps = &reading{w.sweeps, sweep.Names(w.plan.Sweep).Claim(0, 1), cancel} // the first check for a takeover
	if err := task.Run(ctx); err == nil {
		t.Fatal("interrupted, and no error")
	}
	if got := read(t, reader, "")["coppice.task.interruptions"][""]; got != 1 {
		t.Errorf("%v interruptions", got)
	}
}
