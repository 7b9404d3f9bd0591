package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// readings are what an in-memory reader collects: by instrument, then by the value of one attribute ("" for none).
type readings map[string]map[string]float64

// read collects all readings, by the values of an attribute, and checks that each is of the test's sweep.
func read(t *testing.T, reader sdk.Reader, by attribute.Key) readings {
	t.Helper()
	var all metricdata.ResourceMetrics
	must.Do(t, reader.Collect(context.WithoutCancel(t.Context()), &all))
	out := readings{}
	put := func(name string, a attribute.Set, v float64) {
		if id, _ := a.Value("sweep"); id.AsString() != "test-1" {
			t.Errorf("%s is of sweep %q, want test-1", name, id.AsString())
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
				t.Errorf("%s is a %T, want a sum or a gauge of numbers", m.Name, m.Data)
			}
		}
	}
	return out
}

// TestWhatATaskMeasures: the metrics that a task reports agree with its results: trees, rows, trials by status, the one
// takeover, scores, and the process's memory and processor time while the dataset is open. Trial 1 fails, and trial 3
// was released by another task before.
func TestWhatATaskMeasures(t *testing.T) {
	// Run the task, and read the meters once while the dataset is open.
	w := newWorld(t, 4, func(p *sweep.Plan) { p.Trials[1].Params["num_leaves"] = "many" })
	w.putJSON(t, sweep.Names(w.plan.Sweep).Claim(3, 0), sweep.Claim{Format: 1, Sweep: w.plan.Sweep, Trial: 3})
	w.put(t, sweep.Names(w.plan.Sweep).Release(3, 0), "{}")
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	task := w.worker(0)
	task.Meter = provider.Meter("coppice")
	var during readings
	var rows float64 // of train
	// A task looks for the ending before each claim, and before it opens the dataset: then it has no table.
	task.Sweeps = reading(w.sweeps, sweep.Names(w.plan.Sweep).Ending(), func() {
		if task.table == nil {
			return
		}
		train, err := task.table.Select(sweep.Rows{Split: "train"})
		if err != nil {
			t.Error(err)
			return
		}
		rows, during = float64(train.Len()), read(t, reader, "")
	})
	must.Do(t, task.Run(t.Context()))

	// The results that have a model, and the one that failed.
	var trees float64
	for _, i := range []int{0, 2, 3} {
		r := w.result(t, i)
		trees += float64(r.TreesGrown)
		if u := r.Usage; u.CPUSeconds <= 0 || u.PeakPSSBytes < u.PrivateBytes || u.MappedBytes <= 0 ||
			u.TreesPerSecond <= 0 {
			t.Errorf("trial %d has the usage %+v; want processor time, memory, mapped bytes and trees per second", i, u)
		}
		if got := read(t, reader, "trial")["coppice.task.score"][string(rune('0'+i))]; !(got > 0.5) {
			t.Errorf("the last score of trial %d is %v, want it above 0.5", i, got)
		}
	}
	if u := w.result(t, 1).Usage; u.MappedBytes <= 0 || u.PeakPSSBytes <= 0 || u.TreesPerSecond != 0 {
		t.Errorf("a trial that failed has the usage %+v; want mapped bytes and memory, and no trees per second", u)
	}

	// The counters at the end.
	got := read(t, reader, "status")
	for name, want := range map[string]float64{"coppice.task.trees": trees, "coppice.task.rows": trees * rows,
		"coppice.task.takeovers": 1, "coppice.task.queue": 0} {
		if got[name][""] != want {
			t.Errorf("%s is %v, want %v", name, got[name][""], want)
		}
	}
	if ended := got["coppice.task.trials"]; ended["done"] != 3 || ended["failed"] != 1 {
		t.Errorf("trials by status are %v, want 3 done and 1 failed", ended)
	}
	if during["coppice.task.dataset.mapped"][""] != float64(w.result(t, 0).Usage.MappedBytes) ||
		during["coppice.task.memory.pss"][""] <= 0 ||
		during["coppice.task.memory.private"][""] <= 0 || during["coppice.task.cpu"][""] <= 0 {
		t.Errorf("while the dataset was open: %v; want its mapped bytes, memory and processor time", during)
	}
}

// TestTheFinalTrainingIsMeasured: the counter of rows counts, for every tree, the rows that it was grown on. For trials
// these are one copy of train, and for the final training all copies and the held-out rows.
func TestTheFinalTrainingIsMeasured(t *testing.T) {
	w := newWorldOn(t, datasettest.Options{Rows: 1500, Encodings: "{final: true}"}, 2, withFinal)
	reader := sdk.NewManualReader()
	task := w.worker(0)
	task.Meter = sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("coppice")
	must.Do(t, task.Run(t.Context()))
	want, final := 0, w.result(t, 2)
	for trial := range 2 {
		want += w.result(t, trial).TreesGrown * w.manifest.TableRows(sweep.Train) // of one copy
	}
	want += final.TreesGrown * final.TrainRows
	if got := read(t, reader, "")["coppice.task.rows"][""]; got != float64(want) || final.TrainRows == 0 {
		t.Errorf("rows of the trees of two trials and a final training on %d rows: %v, want %d", final.TrainRows, got,
			want)
	}
}

// TestInterruptionsAreCounted: a task that is told to stop while it trains, as when its machine is preempted, counts
// one interruption.
func TestInterruptionsAreCounted(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) {
		p.Trials[0].Params["num_iterations"] = 100000
		p.Trials[0].Params["early_stopping_round"] = 0
	})
	reader := sdk.NewManualReader()
	task := w.worker(0)
	task.Meter = sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("coppice")
	ctx, cancel := context.WithCancel(t.Context())
	task.Sweeps = reading(w.sweeps, sweep.Names(w.plan.Sweep).Claim(0, 1), cancel) // the first check for a takeover
	if err := task.Run(ctx); err == nil {
		t.Fatal("told to stop, the task ended without an error; want one")
	}
	if got := read(t, reader, "")["coppice.task.interruptions"][""]; got != 1 {
		t.Errorf("%v interruptions were counted, want 1", got)
	}
}

// curve returns a trial's learning curve, joined from those of all its claims.
func (w *world) curve(t *testing.T, trial int) []sweep.CurvePoint {
	t.Helper()
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	l := must.Get(trials.List(t.Context()))(t)
	curves := must.Get(trials.Curves(t.Context(), l.Trials[trial]))(t)
	return sweep.JoinCurves(curves)
}

// TestEveryTreeIsOnTheCurve: the learning curve of a trial with early stopping has a score for every tree, and that of
// the best tree is the result's. A trial without early stopping has no curve.
func TestEveryTreeIsOnTheCurve(t *testing.T) {
	w := newWorld(t, 2, func(p *sweep.Plan) { p.Trials[1].Params["early_stopping_round"] = 0.0 })
	w.run(t, 0)
	r, points := w.result(t, 0), w.curve(t, 0)
	if len(points) != r.TreesGrown || points[0].Tree != 1 || points[len(points)-1].Tree != r.TreesGrown {
		t.Fatalf("%d trees were grown, the curve is %v; want a point for each", r.TreesGrown, points)
	}
	if best := points[r.BestIteration-1].Score; math.Abs(best-r.Score) > 1e-6 {
		t.Errorf("tree %d, the best, has %v on the curve, want the result's score, %v", r.BestIteration, best, r.Score)
	}

	// Scores that nothing else needs are not computed for the curve alone.
	if points := w.curve(t, 1); len(points) != 0 {
		t.Errorf("a trial without early stopping has the curve %v, want none", points)
	}
}

// scored changes a plan as patient does, and has every tree evaluated: early stopping is on, but never stops a trial.
func scored(p *sweep.Plan) {
	patient(p)
	p.Trials[0].Params["early_stopping_round"] = 1000.0
}

// TestAnInterruptedCurveIsWhole: the curves that a trial's holders write before and after an interruption join to the
// same curve that an uninterrupted task writes.
func TestAnInterruptedCurveIsWhole(t *testing.T) {
	calm := newWorld(t, 1, scored)
	calm.run(t, 0)
	w := newWorld(t, 1, scored)
	w.interrupted(t, 0, 20)
	again := w.worker(0)
	again.Attempt = 1
	runs(t, again)
	if r := w.result(t, 0); r.Usage.ResumedTrees == 0 {
		t.Fatal("no trees were resumed, so nothing is tested; want some")
	}
	if got, want := w.curve(t, 0), calm.curve(t, 0); !reflect.DeepEqual(got, want) {
		t.Errorf("with an interruption %d points, without %d; want the same\n%v\n%v", len(got), len(want), got, want)
	}
}

// TestACurveIsNotWorthFailingFor: a trial whose curve cannot be written, since there is an object with its name
// already, is done all the same.
func TestACurveIsNotWorthFailingFor(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.put(t, sweep.Names(w.plan.Sweep).Curve(0, 0), "damaged")
	w.run(t, 0)
	if r := w.result(t, 0); r.Status != sweep.StatusDone || len(w.curve(t, 0)) != 0 {
		t.Errorf("%s with the curve %v; want done without", r.Status, w.curve(t, 0))
	}
}

// TestACurveIsThereBeforeTheResult: a trial's curve is written before its result, so that a reader of the result finds
// it.
func TestACurveIsThereBeforeTheResult(t *testing.T) {
	w := newWorld(t, 1, nil)
	worker, seen := w.worker(0), false
	worker.Sweeps = before(w.sweeps, "result.json", func() { seen = len(w.curve(t, 0)) > 0 })
	if err := worker.Run(t.Context()); err != nil || !seen {
		t.Errorf("when the result was written the curve was there: %t (error %v), want true", seen, err)
	}
}

// trouble returns what the sweep's objects say holds a task up; nil if nothing does.
func (w *world) trouble(t *testing.T) *sweep.Trouble {
	t.Helper()
	l := must.Get(sweepstore.NewTrials(w.sweeps, w.plan).List(t.Context()))(t)
	return must.Get(sweepstore.New(w.sweeps, w.plan.Sweep).Trouble(t.Context(), l))(t)
}

// TestTroubleIsTold: a task that waits for room on its disk, or for memory, writes what it waits for, and takes that
// back once it goes on. The keys are parts of what it writes.
func TestTroubleIsTold(t *testing.T) {
	for says, prepare := range map[string]func(*testing.T, *world, *Worker) (mend func()){
		"make the scratch folder": func(t *testing.T, w *world, k *Worker) func() {
			empty := w.fill(t)
			k.Scratch = w.scratch
			return empty
		},
		"a trial needs": func(_ *testing.T, _ *world, k *Worker) func() { // 1 MiB, by the plan below
			var free atomic.Int64
			free.Store(1 << 10)
			k.Available = free.Load
			return func() { free.Store(1 << 30) }
		},
	} {
		w := newWorld(t, 1, func(p *sweep.Plan) { p.Sizing.TrialBytes = 1 << 20 })
		k := w.worker(0)
		mend := prepare(t, w, k)
		synctest.Test(t, func(t *testing.T) {
			done := make(chan error)
			go func() { done <- k.Run(t.Context()) }()
			must.Do(t, pause(t.Context(), time.Minute))
			if got := w.trouble(t); got == nil || !strings.Contains(got.Text, says) || got.Refused {
				t.Errorf("while it waits, the task tells %+v, expected %q", got, says)
			}
			mend()
			if err := <-done; err != nil {
				t.Errorf("the task ended with %v, expected it to train", err)
			}
			if got := w.trouble(t); got != nil {
				t.Errorf("after it went on, the task tells %+v, expected nothing", got)
			}
		})
	}
}

// TestAPlanWithAnotherKey: a task refuses a plan with a key that this build does not know, names the version that wrote
// it, and writes that it has refused.
func TestAPlanWithAnotherKey(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) { p.Coppice = "v9.1" })
	text, _ := json.Marshal(w.plan)
	text = bytes.Replace(text, []byte(`"trials":[{`), []byte(`"trials":[{"moon":1,`), 1)
	plan := sweep.Names(w.plan.Sweep).Plan()
	must.Get(w.sweeps.Put(t.Context(), plan, blob.Any, bytes.NewReader(text)))(t)
	const says = `"moon"; coppice v9.1 wrote it: use programs and images of one version`
	err := w.worker(0).Run(t.Context())
	if got := w.trouble(t); got == nil || !got.Refused || err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the task ended with %v, and tells %+v; expected %q", err, got, says)
	}
}

// TestAPlanOfAnotherBuild: a task refuses a plan with a training parameter that this build does not know, and claims no
// trial of it. The error names the versions of both builds.
func TestAPlanOfAnotherBuild(t *testing.T) {
	w := newWorld(t, 2, func(p *sweep.Plan) { p.Coppice, p.Trials[1].Params["bagging_moons"] = "v9.1", 3 })
	k := w.worker(0)
	k.Version = "v9.0"
	err := k.Run(t.Context())
	const says = `task v9.0 does not know the parameter "bagging_moons" of the plan; coppice v9.1 wrote it: use `
	if !problem.Is(err, problem.Environment) || !strings.Contains(err.Error(), says) {
		t.Errorf("the task ended with %v, expected %q", err, says)
	}
	if got := w.trouble(t); got == nil || !got.Refused || !strings.Contains(got.Text, says) {
		t.Errorf("the task tells %+v, expected it to refuse the plan with %q", got, says)
	}
	for trial := range w.plan.Trials {
		if has, err := sweepstore.NewTrials(w.sweeps, w.plan).HasClaim(t.Context(), trial, 0); has || err != nil {
			t.Errorf("trial %d is claimed: %t (%v), expected none to be", trial, has, err)
		}
	}
}

// reading returns a store that calls read whenever an object is looked for.
func reading(s blob.Store, object string, read func()) blob.Store {
	return blobtest.Before(s, blobtest.Stat, func(_ context.Context, name string) error {
		if name == object {
			read()
		}
		return nil
	})
}
