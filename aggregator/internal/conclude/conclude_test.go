package conclude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/engine"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// TestConcludesWithTheBest: when all trials have ended, the one with the best score is verified, calibrated and
// registered as version 1. As there is no champion yet, it is promoted.
func TestConcludesWithTheBest(t *testing.T) {
	w := newWorld(t, options{})
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Version != 1 || c.Model != "ctr" || c.Done != 3 {
		t.Fatalf("three good trials: concluded as %+v; want a winner, registered as ctr@1, from three finished trials",
			c)
	}
	if c.Verified.Rows == 0 || c.Verified.MaxDiff > tolerance || c.Verified.Scorer != "leaves" {
		t.Errorf("verified: %+v; want rows on which leaves predicts the same", c.Verified)
	}
	if c.Calibration.Method == "" || len(c.Calibration.Before) != 3 || len(c.Calibration.After) != 3 {
		t.Errorf("calibration: %+v; want a method, and three numbers before and after it", c.Calibration)
	}
	if !c.Gate.Passed || !c.Gate.Promoted || len(c.Test) != 5 {
		t.Errorf("gate %+v, test %v; want it promoted, with five metrics", c.Gate, c.Test)
	}
	best := 0
	for i := range w.plan.Trials {
		if score(t, w, i) > score(t, w, best) {
			best = i
		}
	}
	if c.Trial != best {
		t.Errorf("trial %d won, %d has the best score; want that one", c.Trial, best)
	}
	if v := c.Test[w.plan.Spec.Metric]; c.Within == nil || !(c.Within.Low < v && v < c.Within.High) {
		t.Errorf("the interval of %v on test is %+v; want one around it", v, c.Within)
	}
	contains(t, c.Reason, "auc")
	checkVersion(t, w, c)
}

// TestATrialAtItsLimitMayWin: a trial that stopped at its time limit has a model like any other, and may win. The
// conclusion says that it was stopped.
func TestATrialAtItsLimitMayWin(t *testing.T) {
	const why = "stopped at its limit of 2h0m0s after 12 of 500 trees"
	w := newWorld(t, options{store: func(r *sweep.Result, _ map[string][]byte) { r.AtLimit, r.Reason = true, why }})
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Done != 3 || c.Failed != 0 || c.Verified.Rows == 0 {
		t.Errorf("all trials ended at their limit: %+v; expected one of three to win, verified", c)
	}
	contains(t, c.Reason, "; it "+why)
}

// TestConcludesWithTheSmallest: with several objectives the plan's rule picks the winner, here the smallest model
// within a half of the best score, and the conclusion says so.
func TestConcludesWithTheSmallest(t *testing.T) {
	w := newWorld(t, options{change: func(p *sweep.Plan) {
		p.Spec.Goals = []sweep.Goal{{Name: "auc", Maximize: true}, {Name: "model_bytes"}}
		p.Spec.Pick = &sweep.Pick{Best: "auc", Within: "50%"}
	}})
	c := w.mustConclude(t)
	smallest, bytes := 0, int64(0)
	for i := range w.plan.Trials {
		var r sweep.Result
		must.Get(blob.ReadJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(i), &r))(t)
		if bytes == 0 || r.Model.Bytes < bytes {
			smallest, bytes = i, r.Model.Bytes
		}
	}
	if c.Trial != smallest || c.Version != 1 {
		t.Errorf("trial %d won as version %d (%s); want trial %d, the smallest, as version 1", c.Trial, c.Version,
			c.Reason, smallest)
	}
	contains(t, c.Reason, "the lowest model_bytes", "3 trials within 50% of the best auc")
}

// score reads a trial's score from its result.
func score(t *testing.T, w *world, trial int) float64 {
	t.Helper()
	var r sweep.Result
	must.Get(blob.ReadJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(trial), &r))(t)
	return r.Score
}

// checkVersion checks the champion's files in the registry: that model, calibrator and plan can be decoded, and that
// they, its labels and its report agree with conclusion c.
func checkVersion(t *testing.T, w *world, c *sweep.Conclusion) {
	t.Helper()
	reg := registry.New(w.models)
	v := must.Get(reg.Get(t.Context(), "ctr", "champion"))(t)
	if v.Info.Labels["trace"] != w.plan.Sweep.Trace() || v.Info.Labels["sweep"] != string(w.plan.Sweep) {
		t.Errorf("the labels are %v; want the sweep, and its trace", v.Info.Labels)
	}
	read := func(name string) []byte {
		return must.Get(reg.ReadFile(t.Context(), v, name))(t)
	}
	if _, err := gbt.ReadModel(bytes.NewReader(read(scorer.FileModel))); err != nil {
		t.Error(err)
	}
	cal, err := calibrate.Decode(read(scorer.FileCalibrator))
	if err != nil || string(cal.Method()) != c.Calibration.Method {
		t.Errorf("the version's calibrator: got %v, %v; want one by %s, as the conclusion says", cal, err,
			c.Calibration.Method)
	}
	p, err := sweep.DecodePlan(read(scorer.FilePlan))
	if err != nil || p.Fingerprint() != w.plan.Fingerprint() {
		t.Errorf("the plan in the registry is another one, error %v; want the sweep's", err)
	}
	var r report
	if err := json.Unmarshal(read(scorer.FileReport), &r); err != nil || r.Trial != c.Trial ||
		r.Test["auc"] != c.Test["auc"] {
		t.Errorf("the scorer's report in the version is %+v (error %v); want the winner's trial and the "+
			"conclusion's AUC on test", r, err)
	}
}

// TestSameEndWhateverTheMessages: two aggregators that get every message twice, in any order, come to the same
// conclusion and register one version.
func TestSameEndWhateverTheMessages(t *testing.T) {
	w := newWorld(t, options{})
	want, _ := json.Marshal(w.mustConclude(t))
	for seed := range uint64(6) {
		w.models, w.sweeps = blob.Memory(), without(t, w.sweeps, sweep.Names(w.plan.Sweep).Conclusion())
		rng := rand.New(rand.NewPCG(seed, 1))
		var wg sync.WaitGroup
		for range 2 { // two aggregators, each receiving every message twice, in any order
			a := w.aggregator()
			order := append(rng.Perm(3), rng.Perm(3)...)
			wg.Go(func() {
				for _, trial := range order {
					m, _ := json.Marshal(sweep.ScoreMessage{Format: 1, Sweep: w.plan.Sweep, Trial: trial})
					if err := a.Handle(t.Context(), m); err != nil {
						t.Error(err)
					}
				}
				if err := a.Reconcile(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got, _ := json.Marshal(w.mustConclude(t))
		if string(got) != string(want) {
			t.Errorf("seed %d: concluded as\n%s\nwant\n%s", seed, got, want)
		}
		if versions, err := registry.New(w.models).Versions(t.Context(), "ctr"); err != nil || len(versions) != 1 {
			t.Errorf("seed %d: %d versions, %v; want one", seed, len(versions), err)
		}
	}
}

// without returns a copy of a store that lacks the objects with these names.
func without(t *testing.T, s blob.Store, names ...string) blob.Store {
	t.Helper()
	out := blob.Memory()
	for n, data := range state(t, s, "") {
		if !slices.Contains(names, n) {
			must.Get(out.Put(t.Context(), n, blob.Any, strings.NewReader(data)))(t)
		}
	}
	return out
}

// TestKilledAnywhereTheEndIsTheSame: an aggregator dies at its k-th write, before or after that has reached the store,
// and another one concludes the sweep. For every k, the conclusion and the registry's history are the same as without a
// death.
func TestKilledAnywhereTheEndIsTheSame(t *testing.T) {
	w := newWorld(t, options{leaves: []int{4, 8}})
	trained := w.sweeps
	want := w.mustConclude(t)
	wantEvents := events(t, w)
	survived := false
	for k := int64(1); !survived; k++ {
		if k > 60 {
			t.Fatal("it writes more than 60 objects, want fewer")
		}
		for _, landed := range []bool{false, true} {
			w.models, w.sweeps = blob.Memory(), without(t, trained, sweep.Names(w.plan.Sweep).Ending(),
				sweep.Names(w.plan.Sweep).Conclusion())
			var puts atomic.Int64
			a := w.aggregator()
			a.Sweeps = dying(w.sweeps, &puts, k, landed)
			a.Registry = registry.New(dying(w.models, &puts, k, landed))
			_, err := a.Consider(t.Context(), w.plan.Sweep)
			survived = err == nil
			if survived {
				break
			}
			if !errors.Is(err, errDied) {
				t.Fatalf("write %d: %v; want the planted death", k, err)
			}
			w.now = w.now.Add(time.Minute)
			got := w.mustConclude(t)
			if got.Version != 1 || got.Trial != want.Trial || !got.Gate.Promoted || got.Reason != want.Reason {
				t.Errorf("killed at write %d (landed %t), and run again: %+v; want version 1, as without a "+
					"death", k, landed, got)
			}
			if got := events(t, w); got != wantEvents {
				t.Errorf("killed at write %d (landed %t): the history is\n%s\nexpected\n%s", k, landed, got, wantEvents)
			}
			checkVersion(t, w, got)
		}
	}
}

// TestWhatComesLateDoesNotCount: an aggregator stops between registering and concluding. Then a trial ends that is
// better than all others, and the sweep is cancelled. The next aggregator concludes with what the ending counts, as
// the first would have, also if it has to read results that it has not seen.
func TestWhatComesLateDoesNotCount(t *testing.T) {
	const late = 3
	w := newWorld(t, options{leaves: []int{2, 3, 4, 31}, skip: func(i int) bool { return i == late }})
	w.now = created.Add(7 * time.Hour)
	want := w.mustConclude(t)
	w.sweeps = without(t, w.sweeps, sweep.Names(w.plan.Sweep).Conclusion())
	w.train(t, late, func(r *sweep.Result, _ map[string][]byte) { r.Score = 1 })
	must.Get(blob.Create(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Cancel(), []byte("{}")))(t)
	got := w.mustConclude(t)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("concluded otherwise than at first, want the same (-first +got):\n%s", d)
	}
	// An aggregator that has not seen a result that counts reads it.
	a := w.aggregator()
	w.sweeps = without(t, w.sweeps, sweep.Names(w.plan.Sweep).Conclusion())
	a.Sweeps = &blobtest.Hooked{Store: w.sweeps, Hides: func(string) bool { return true }} // listings lag behind
	if got, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("concluded again without a listing: error %v, another conclusion (-first +got):\n%s", err,
			cmp.Diff(want, got))
	}
}

// TestARollbackIsNotUndone: if a person rolls the champion back between an aggregator's promotion and its conclusion,
// the next aggregator writes the same conclusion and leaves the champion where it is.
func TestARollbackIsNotUndone(t *testing.T) {
	first := newWorld(t, options{leaves: []int{2}, trees: 1})
	first.mustConclude(t)
	w := newWorld(t, options{sweep: "night-2", into: first, leaves: []int{4}, change: withoutGate})
	want := w.mustConclude(t)
	reg := registry.New(w.models)
	must.Get(reg.Rollback(t.Context(), "ctr", "champion", 0, registry.Expect{Version: 2}, registry.Act{By: "on call",
		Why: "it broke", At: w.now}))(t)
	w.sweeps = without(t, w.sweeps, sweep.Names(w.plan.Sweep).Conclusion())
	if d := cmp.Diff(want, w.mustConclude(t)); d != "" {
		t.Errorf("concluded otherwise than at first, want the same (-first +got):\n%s", d)
	}
	w.championIs(t, 1) // to which it was rolled back
}

// withoutGate changes a plan so that every version is promoted.
func withoutGate(p *sweep.Plan) {
	p.Spec.Gate = &sweep.Gate{Metric: "log_loss", Against: sweep.AgainstNone}
}

// events returns the model's history as text, without times.
func events(t *testing.T, w *world) string {
	t.Helper()
	history := must.Get(registry.New(w.models).History(t.Context(), "ctr"))(t)
	out := ""
	for _, e := range history {
		out += fmt.Sprintln(e.Kind, e.Alias, e.Sequence, e.From, e.To, e.By, e.Why)
	}
	return out
}

// TestRequirements: if no trial meets the requirements there is no winner, each is rejected with the requirement, and
// nothing is registered.
func TestRequirements(t *testing.T) {
	w := newWorld(t, options{change: func(p *sweep.Plan) { p.Spec.Require = []string{"trees < 5"} }})
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeNoWinner || len(c.Rejected) != 3 || c.Version != 0 {
		t.Fatalf("no trial meets the requirement: got %+v; want no winner, and three rejected trials", c)
	}
	contains(t, c.Rejected[0].Reason, "trees < 5")
	if objects := state(t, w.models, ""); len(objects) != 0 {
		t.Errorf("the registry has %q, want nothing", slices.Sorted(maps.Keys(objects)))
	}
}

// jobs is an engine with one job in a state, or one that cannot be asked.
type jobs struct {
	state engine.Phase
	err   error
}

func (j jobs) Status(context.Context, string) (engine.JobStatus, error) {
	return engine.JobStatus{State: j.state, Began: j.state == engine.Failed}, j.err
}

// finishing is an engine whose job ends when it is asked for: end is called first.
type finishing struct{ end func() }

func (f finishing) Status(context.Context, string) (engine.JobStatus, error) {
	f.end()
	return engine.JobStatus{State: engine.Done, Began: true}, nil
}

// TestWhenASweepIsOver: a sweep with unfinished trials is concluded, with the results that there are, once its job has
// ended or its time limit is reached, or if it is cancelled. Before that it is not.
func TestWhenASweepIsOver(t *testing.T) {
	// unfinished is a sweep of four trials, of which the first so many are done.
	unfinished := func(done int) *world {
		return newWorld(t, options{leaves: []int{2, 3, 4, 5}, skip: func(i int) bool { return i >= done }})
	}
	consider := func(w *world, j Jobs) *sweep.Conclusion {
		a := w.aggregator()
		a.Jobs = j
		return must.Get(a.Consider(t.Context(), w.plan.Sweep))(t)
	}

	// While the job runs, or the engine may not know it yet, and after it has failed.
	w := unfinished(2)
	if c := consider(w, jobs{}); c != nil {
		t.Errorf("concluded with trials running: %+v; want it to wait", c)
	}
	w.now = created.Add(time.Minute) // so soon, the engine may not know the job yet
	if c := consider(w, jobs{state: engine.Gone}); c != nil {
		t.Errorf("concluded before the job can be known: %+v; want it to wait", c)
	}
	w.now = created.Add(time.Hour)
	c := consider(w, jobs{state: engine.Failed})
	if c == nil || c.Outcome != sweep.OutcomeWinner {
		t.Fatalf("considered when the job has failed: got %+v; want a winner", c)
	}
	contains(t, c.Reason, "2 of 4 trials had not ended when the job had failed")

	lost := unfinished(2) // a job that fails at once ends its sweep at once
	lost.now = created.Add(time.Second)
	if c := consider(lost, jobs{state: engine.Failed}); c == nil {
		t.Error("a failed job's sweep goes on, want it concluded at once")
	}
	never := unfinished(2)
	if c := consider(never, jobs{state: engine.Gone}); c == nil {
		t.Error("a sweep whose job is not there goes on, want it concluded")
	} else {
		contains(t, c.Reason, "the job was gone")
	}

	// The last trial ends between the reading of the results and the look at the job.
	late := unfinished(3)
	c = consider(late, finishing{func() { late.train(t, 3, nil) }})
	if c == nil || c.Done != 4 || strings.Contains(c.Reason, "had not ended") {
		t.Errorf("the last trial ended before the job was looked at: got %+v; want four done, and all had ended", c)
	}

	// At the time limit one trial of four is done, and the quorum is half of them.
	few := unfinished(1)
	few.now = created.Add(7 * time.Hour)
	c = consider(few, nil)
	if c == nil || c.Outcome != sweep.OutcomeNoWinner {
		t.Fatalf("one of four trials ended in time: got %+v; want no winner", c)
	}
	contains(t, c.Reason,
		"3 of 4 trials had not ended after 6h0m0s, the sweep's time limit; 1 trial is done, and the quorum is 2")

	// Cancelled.
	gone := unfinished(4)
	must.Get(blob.Create(t.Context(), gone.sweeps, sweep.Names(gone.plan.Sweep).Cancel(), []byte("{}")))(t)
	if c := consider(gone, nil); c.Outcome != sweep.OutcomeCancelled || c.Version != 0 {
		t.Errorf("a cancelled sweep: concluded as %+v; want it cancelled, without a version", c)
	}
}

// TestLogOfAConclusion: the log line of a conclusion names the trial only if one has won: without a winner its number
// would be 0, which is also that of the first trial. There is none if all trials have failed, as the conclusion says.
func TestLogOfAConclusion(t *testing.T) {
	for _, c := range []struct {
		edit    func(*sweep.Result, map[string][]byte)
		outcome sweep.Outcome
	}{{nil, sweep.OutcomeWinner}, {func(r *sweep.Result, _ map[string][]byte) {
		r.Status, r.Reason = sweep.StatusFailed, "no luck"
	}, sweep.OutcomeNoWinner}} {
		w := newWorld(t, options{store: c.edit})
		var log bytes.Buffer
		a := w.aggregator()
		a.Log = slog.New(slog.NewTextHandler(&log, nil))
		end := must.Get(a.Consider(t.Context(), w.plan.Sweep))(t)
		if end == nil || end.Outcome != c.outcome || end.Reason == "" || end.Done+end.Failed != 3 ||
			(end.Failed == 3) != (c.edit != nil) {
			t.Fatalf("concluded: got %+v; want the outcome %s with a reason, and all three done or failed", end,
				c.outcome)
		}
		if said := log.String(); strings.Contains(said, " trial=") != (c.outcome == sweep.OutcomeWinner) ||
			!strings.Contains(said, "sweep concluded") {
			t.Errorf("the log of the outcome %s is %q; want \"sweep concluded\", and a trial only if one has won",
				c.outcome, said)
		}
	}
}

// TestRegressionAndCarvedHoldout: a regression is verified but not calibrated; calib and test that are folds of valid
// serve as well as splits of their own. Half of valid's 1,200 rows are calib and test, all of which are in the sample.
func TestRegressionAndCarvedHoldout(t *testing.T) {
	c := newWorld(t, options{regression: true}).mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Calibration != nil || c.Test["rmse"] == 0 || c.Verified.Rows == 0 ||
		!c.Gate.Promoted {
		t.Errorf("a regression: concluded as %+v; want a promoted winner with an RMSE on test, verified, and no "+
			"calibration", c)
	}
	carved := newWorld(t, options{carve: true}).mustConclude(t)
	if carved.Outcome != sweep.OutcomeWinner || carved.Verified.Rows < 100 || carved.Calibration == nil {
		t.Errorf("with calib and test carved out of valid: got %+v, verified %+v; want a calibrated winner, verified "+
			"on 100 rows or more", carved, carved.Verified)
	}
}

// TestTheGateNeedsUntouchedRows: if the sample has rows of calib but none of test, the winner is verified by them,
// but the gate does not promote it, the first version of a model or a later one: its calibrator was fitted to these
// rows. The sample is of the last split of the table, valid, which is calib here; test is a part of train.
func TestTheGateNeedsUntouchedRows(t *testing.T) {
	earlier := newWorld(t, options{})
	earlier.mustConclude(t)
	for name, into := range map[string]*world{"a later version": earlier, "a first version": nil} {
		w := newWorld(t, options{into: into, sweep: "night-2", leaves: []int{20}, carve: true,
			change: func(p *sweep.Plan) {
				p.Holdout.Valid, p.Holdout.Calib, p.Holdout.Test = sweep.Rows{Split: "train", Folds: []uint8{0, 1, 2}},
					sweep.Rows{Split: "valid"}, sweep.Rows{Split: "train", Folds: []uint8{3, 4}}
			}})
		if c := w.mustConclude(t); c.Verified.Rows == 0 || c.Gate.Passed || c.Gate.Promoted ||
			!strings.Contains(c.Gate.Reason, "no row of the test part") {
			t.Errorf("%s, with a sample of calib rows only: gate %+v, verified %+v; want it verified but not "+
				"promoted, because no row is of test", name, c.Gate, c.Verified)
		}
	}
}

// TestHopelessDataEndsTheSweep: a dataset without its sample of raw rows cannot verify any model: the sweep ends
// without a winner, and names the file.
func TestHopelessDataEndsTheSweep(t *testing.T) {
	w := newWorld(t, options{})
	prefix := sweep.DatasetDir(w.plan.Dataset.Name, w.plan.Dataset.Version)
	w.datasets = without(t, w.datasets, prefix+"sample.arrow")
	if c := w.mustConclude(t); c.Outcome != sweep.OutcomeNoWinner || !strings.Contains(c.Reason, "sample.arrow") {
		t.Errorf("without sample.arrow: concluded as %+v; want no winner, because of sample.arrow", c)
	}
}

// TestACalibrationThatFailsSaysSoOnce: labels of one class cannot be calibrated on. The error is one of the data, names
// the trial, and says once that it is about calibration.
func TestACalibrationThatFailsSaysSoOnce(t *testing.T) {
	raw := make([]float64, 10) // fewer are left uncalibrated
	trial := winner{result: &sweep.Result{Trial: 7}, trees: new(gbt.Model), calib: raw, testRaw: raw}
	err := trial.calibrate(&sweep.Plan{Spec: sweep.Spec{Objective: "binary"}},
		&holdout{manifest: new(dataset.Manifest), calib: dataset.Targets{Label: slices.Repeat([]float32{1}, 10)}})
	var data *dataError
	if !errors.As(err, &data) || !errors.Is(err, calibrate.ErrOneClass) || !strings.HasPrefix(err.Error(),
		"trial 7: calibrate: all labels are the same: ") {
		t.Errorf("a calibration on labels of one class: got error %v; want one about trial 7's data, wrapping "+
			"ErrOneClass and saying so once", err)
	}
}

// TestForeignMessages: messages that are no scores, or of a sweep or trial that there is not, are acknowledged and
// leave nothing behind.
func TestForeignMessages(t *testing.T) {
	w := newWorld(t, options{skip: func(int) bool { return true }})
	a := w.aggregator()
	for _, m := range []string{"", "{}", "not json", `{"format":1,"sweep":"../x"}`,
		`{"format":1,"sweep":"nobody","trial":1}`, fmt.Sprintf(`{"format":1,"sweep":%q,"trial":3}`, w.plan.Sweep)} {
		if err := a.Handle(t.Context(), []byte(m)); err != nil {
			t.Errorf("the message %q was handled with the error %v; want it acknowledged", m, err)
		}
	}
	if len(a.known) != 1 {
		t.Errorf("it remembers %d sweeps, want only the one that exists", len(a.known))
	}
}

// TestADamagedPlanIsNobodysMessage: a message about a sweep whose plan is damaged is acknowledged, since redelivering
// it would not help. Reconciling succeeds, too, and concludes the other sweep.
func TestADamagedPlanIsNobodysMessage(t *testing.T) {
	w := newWorld(t, options{})
	must.Get(blob.Create(t.Context(), w.sweeps, sweep.Names("aaa").Plan(), []byte("{")))(t)
	a := w.aggregator()
	if err := a.Handle(t.Context(), []byte(`{"format":1,"sweep":"aaa","trial":1}`)); err != nil {
		t.Errorf("handled a message about the damaged plan: error %v, want none", err)
	}
	if err := a.Reconcile(t.Context()); err != nil {
		t.Errorf("reconciled beside a damaged plan: error %v, want none", err)
	}
	if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Conclusion()); err != nil {
		t.Errorf("the other sweep was not concluded, want it to be: %v", err)
	}
}

// TestTrialsThatLeftTheFinalTrainingItsTime: a trial that was stopped before its first tree, so that time was left
// for the final training, does not count against the quorum. The conclusion says how many there were.
func TestTrialsThatLeftTheFinalTrainingItsTime(t *testing.T) {
	w := newWorld(t, options{change: withFinal, skip: func(i int) bool { return i == 3 },
		table: datasettest.Options{Encodings: "{final: true}"},
		store: func(r *sweep.Result, _ map[string][]byte) {
			if r.Trial == 1 {
				r.Status, r.Reason, r.TreesGrown = sweep.StatusStopped, "the rest of the sweep's", 0
			}
		}})
	w.trainFinal(t, 2, nil, nil)
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Done != 2 || c.Failed != 0 || c.Final == nil || !c.Final.Registered {
		t.Fatalf("the end: %+v, final %+v; expected a winner of two, and the final model", c, c.Final)
	}
	contains(t, c.Reason, "1 of 3 trials not trained: the rest of the sweep's")
}
