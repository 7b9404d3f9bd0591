package conclude

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// tested returns what version 1 tells of its test rows, from its file tested.json.
func (w *world) tested(t *testing.T) *metric.Tested {
	t.Helper()
	reg := registry.New(w.models)
	v := must.Get(reg.Get(t.Context(), "ctr", "1"))(t)
	text := must.Get(reg.ReadFile(t.Context(), v, scorer.FileTested))(t)
	if len(text) > 20_000 {
		t.Errorf("it has %d bytes, expected a few thousand", len(text))
	}
	return must.Get(scorer.DecodeTested(text))(t)
}

// sumOf adds up bins.
func sumOf(bins []metric.Bin) (sum metric.Bin) {
	for _, b := range bins {
		sum.Rows, sum.Weight, sum.Positive, sum.Before, sum.After = sum.Rows+b.Rows, sum.Weight+b.Weight, sum.Positive+
			b.Positive, sum.Before+b.Before, sum.After+b.After
	}
	return sum
}

// TestTestedRows: the bins hold every test row once, in ascending order of predictions, and their calibrated
// predictions add up to about the labels. Twelve small trees give few different predictions, of which none is divided,
// so there may be fewer bins than testBins. The runner-up is another trial, over which the winner's gain lies in an
// interval, and the conclusion's lead is the same gain as a share.
func TestTestedRows(t *testing.T) {
	w := newWorld(t, options{})
	c := w.mustConclude(t)
	d := w.tested(t)

	s := w.ds.Split("test")
	positive := 0.0
	for _, y := range s.Label {
		positive += float64(y)
	}
	sum := sumOf(d.Bins)
	if !d.Calibrated || len(d.Bins) < 5 || len(d.Bins) > testBins || sum.Rows != s.Rows ||
		sum.Weight != float64(s.Rows) || sum.Positive != positive {
		t.Errorf("%d bins sum up to %+v, calibrated %t; expected %d rows with %v positive", len(d.Bins), sum,
			d.Calibrated, s.Rows, positive)
	}
	if off := sum.After/positive - 1; math.Abs(off) > 0.3 {
		t.Errorf("calibrated predictions sum up to %v, labels to %v; want them to differ by 30 %% at most", sum.After,
			positive)
	}
	for i := 1; i < len(d.Bins); i++ {
		if a, b := d.Bins[i-1], d.Bins[i]; !(a.Before/a.Weight < b.Before/b.Weight) ||
			a.After/a.Weight > b.After/b.Weight+1e-12 {
			t.Errorf("bin %d follows on bin %d: %+v, %+v; want predictions that ascend, calibrated or "+
				"not", i, i-1, a, b)
		}
	}

	r := d.RunnerUp
	if r == nil || r.Trial == c.Trial || r.Metric != "auc" || r.Rows == 0 || !(r.Low < r.Gain && r.Gain < r.High) ||
		math.Abs(r.New-r.Old-r.Gain) > 1e-9 {
		t.Fatalf("the runner-up is %+v; want another trial, by AUC, with its gain in an interval", r)
	}
	if l := c.Lead; l == nil || l.Trial != r.Trial || l.Metric != "auc" || math.Abs(l.Gain*r.Old-r.Gain) > 1e-9 ||
		math.Abs(l.Low*r.Old-r.Low) > 1e-9 || math.Abs(l.High*r.Old-r.High) > 1e-9 {
		t.Errorf("the conclusion's lead is %+v; want the gain of %+v as a share", l, r)
	}
}

// TestTestedIsCalibrated: in the comparison with the runner-up, the winner's value is that of its calibrated
// predictions, as in the conclusion, by a metric that calibration changes. Sixty trees of 40 leaves or more are too
// many for the table's 3,000 rows, so that there is something to calibrate.
func TestTestedIsCalibrated(t *testing.T) {
	w := newWorld(t, options{leaves: []int{40, 60}, trees: 60,
		change: func(p *sweep.Plan) { p.Spec.Metric, p.Maximize = "log_loss", false }})
	c := w.mustConclude(t)
	r := w.tested(t).RunnerUp
	if r == nil || !r.Calibrated || r.Rows != w.ds.Split("test").Rows || math.Abs(r.New-c.Test["log_loss"]) > 1e-12 ||
		c.Calibration.Before["log_loss"] == c.Calibration.After["log_loss"] {
		t.Errorf("compared is %+v, calibration %+v; want the winner's %v on test", r, c.Calibration, c.Test["log_loss"])
	}
}

// TestTestedDefault: the winner, trial 2, is compared with the default configuration if that is another trial, and
// not if it is trial 2 itself.
func TestTestedDefault(t *testing.T) {
	for usual, want := range map[int]bool{1: true, 2: false} {
		w := newWorld(t, options{change: func(p *sweep.Plan) { p.Trials[usual].Source = search.SourceDefault }})
		if c := w.mustConclude(t); c.Trial != 2 {
			t.Fatalf("trial %d won, want 2", c.Trial)
		}
		r := w.tested(t).Default
		if (r != nil) != want || want && (r.Trial != usual || r.Rows == 0 || math.Abs(r.New-r.Old-r.Gain) > 1e-9) {
			t.Errorf("trial %d is the default, and compared is %+v; want a comparison: %t", usual, r, want)
		}
	}
}

// TestTestedWithoutRunnerUp: a runner-up whose files cannot be read leaves the winner as it is, without a comparison.
func TestTestedWithoutRunnerUp(t *testing.T) {
	w := newWorld(t, options{store: func(r *sweep.Result, files map[string][]byte) {
		if r.Trial == 0 { // the second best
			files["test.scores"] = files["test.scores"][:10]
		}
	}})
	if c := w.mustConclude(t); c.Outcome != sweep.OutcomeWinner || c.Trial != 2 {
		t.Fatalf("concluded with %+v; want trial 2 as the winner", c)
	}
	if r := w.tested(t).RunnerUp; r != nil {
		t.Errorf("the runner-up is %+v, expected none", r)
	}
}

// TestTestedRegression: a regression's test rows are in bins, but nothing is calibrated; what the mean alone would
// score is told, too.
func TestTestedRegression(t *testing.T) {
	w := newWorld(t, options{regression: true})
	w.mustConclude(t)
	d := w.tested(t)
	if sum := sumOf(d.Bins); d.Calibrated || sum.Rows != w.ds.Split("test").Rows || sum.After != 0 {
		t.Errorf("calibrated %t, %+v; want all test rows, and nothing calibrated", d.Calibrated, sum)
	}
	if by := w.plan.Spec.Metric; !(d.Alone[by] > 0) {
		t.Errorf("the mean alone scores %v; want a %s of more than 0", d.Alone, by)
	}
}

// TestAValueDecides: with a metric that is a formula of prediction, label and a column (value(...)), the trial with the
// highest value wins, which is not the one with the lowest log loss. The gate compares by it, on tonight's rows and on
// those of the earlier night, of which the version keeps the column.
func TestAValueDecides(t *testing.T) {
	const value = "value(prediction > 0.3 ? 3 * label - price / 2 : 0)"
	table := func(seed uint64) datasettest.Options {
		return datasettest.Options{Rows: 3000, Seed: seed, Encodings: dataset.EncodeNone,
			Split: "{by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\nvalues: [price]"}
	}
	judged := func(metric string, maximize bool) func(*sweep.Plan) {
		return func(p *sweep.Plan) { p.Spec.Metric, p.Spec.Gate.Metric, p.Maximize = metric, metric, maximize }
	}
	by := func(metric string, maximize bool) *world {
		return newWorld(t, options{leaves: []int{2, 15, 6, 31, 9}, trees: 30, table: table(1),
			change: judged(metric, maximize)})
	}
	loss := by("log_loss", false).mustConclude(t)
	w := by(value, true)
	own := w.mustConclude(t)
	if own.Trial == loss.Trial {
		t.Errorf("trial %d wins by a value and by log loss; want two winners", own.Trial)
	}
	for i := range w.plan.Trials {
		if score(t, w, i) > score(t, w, own.Trial) {
			t.Errorf("trial %d is worth more than %d, which won; want the winner to be worth most", i, own.Trial)
		}
	}
	if v, ok := own.Test[value]; !ok || own.Within == nil || !(own.Within.Low < v && v < own.Within.High) ||
		!own.Gate.Promoted {
		t.Errorf("on test it is %v with %+v, gate %+v; want its value, in an interval, and "+
			"promoted", own.Test, own.Within, own.Gate)
	}
	checkVersion(t, w, own)
	if v, ok := w.tested(t).OfConstant(value); !ok || v > own.Test[value] {
		t.Errorf("the base rate alone is worth %v (known: %t); want less than the winner's %v", v, ok, own.Test[value])
	}

	again := newWorld(t, options{into: w, sweep: "night-2", leaves: []int{2}, table: table(2),
		change: judged(value, true)}).mustConclude(t)
	compared := map[string]bool{}
	for _, c := range again.Gate.Checks {
		compared[c.Name] = c.Old != 0 && strings.Contains(c.Reason, value)
	}
	if again.Gate.Champion != 1 || !compared["tonight"] || !compared["reference"] {
		t.Errorf("the second night compared by the value: %v, gate %+v; want tonight's and earlier rows, against "+
			"version 1", compared, again.Gate)
	}
}

// climbed returns a sweep of six trials at its time limit, with a stopping rule. Trials 0 and 1 are done. The others
// were paused at the rung of three trees with the given scores; there, the first two had 0.9.
func climbed(t *testing.T, rule string, paused [4]float64, store func(*sweep.Result, map[string][]byte)) *world {
	t.Helper()
	w := newWorld(t, options{leaves: []int{2, 3, 4, 5, 6, 7}, skip: func(i int) bool { return i >= 2 }, store: store,
		change: func(p *sweep.Plan) {
			p.Spec.Limits.Quorum = 1
			p.Spec.Search.Stop = &sweep.Stop{Rule: rule, By: sweep.ByTrees, Eta: 3, MinTrees: 3, Rungs: []int{3}}
		}})
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	for trial, score := range append([]float64{0.9, 0.9}, paused[:]...) {
		r := sweep.Rung{Format: 1, Sweep: w.plan.Sweep, Trial: trial, Step: 3, Score: score, Pause: trial >= 2,
			Seen: []sweep.Reached{}}
		must.Get(trials.CreateRung(t.Context(), r))(t)
		if trial >= 2 {
			must.Do(t, trials.CreatePause(t.Context(), trial, 0, 3))
		}
	}
	w.now = created.Add(7 * time.Hour)
	return w
}

// verdict writes what was decided of a paused trial: that it continues (promoted), or ends.
func (w *world) verdict(t *testing.T, trial int, promoted bool) {
	t.Helper()
	r := sweep.Promotion{Format: 1, Sweep: w.plan.Sweep, Trial: trial, Step: 3, Promoted: promoted,
		Seen: []sweep.Reached{}}
	must.Get(sweepstore.NewTrials(w.sweeps, w.plan).CreatePromotion(t.Context(), r))(t)
}

// TestPausedTrialsThatAreBehindCountAsStopped: if a sweep ends early, paused trials that others have beaten count as
// stopped, not against the quorum. Those that would have continued count as missing, so that there is no winner. The
// quorum is all six trials, less those that are stopped; two are done, so four have to be. With eta 3, a third of the
// trials at a rung continue: of six the best two.
func TestPausedTrialsThatAreBehindCountAsStopped(t *testing.T) {
	behind := [4]float64{0.5, 0.6, 0.7, 0.8}
	for name, tc := range map[string]struct {
		rule   string
		paused [4]float64
		store  func(*sweep.Result, map[string][]byte)
		more   func(*world) // what else happens before the end
		behind []int        // trials that the ending counts as stopped
		says   string       // part of the reason; with "the quorum is" there is no winner
	}{
		"all are behind": {sweep.StopASHA, behind, nil, nil, []int{2, 3, 4, 5},
			"4 of 6 trials had not ended after 6h0m0s, the sweep's time limit; 4 of them were paused by the " +
				"stopping rule and count as stopped"},
		"with halving": {sweep.StopHalving, behind, nil, nil, []int{2, 3, 4, 5}, "count as stopped"},
		"one is to be promoted": {sweep.StopASHA, [4]float64{0.5, 0.6, 0.7, 0.95}, nil, nil, []int{2, 3, 4},
			"3 of them were paused by the stopping rule and count as stopped; 2 trials are done, and the quorum is 3"},
		"one was promoted": {sweep.StopASHA, behind, nil, func(w *world) { w.verdict(t, 2, true) }, []int{3, 4, 5},
			"2 trials are done, and the quorum is 3"},
		"one is about to end": {sweep.StopASHA, behind, nil, func(w *world) { w.verdict(t, 2, false) },
			[]int{2, 3, 4, 5}, "count as stopped"},
		"the score of one cannot be read": {sweep.StopASHA, behind, nil, func(w *world) {
			overwrite(t, w.sweeps, sweep.Names(w.plan.Sweep).Rung(2, 3), "{")
		}, []int{3, 4, 5}, "2 trials are done, and the quorum is 3"},
		"one of the two that are done has failed": {sweep.StopASHA, behind, func(r *sweep.Result, _ map[string][]byte) {
			if r.Trial == 0 {
				r.Status, r.Reason = sweep.StatusFailed, "no luck"
			}
		}, nil, []int{2, 3, 4, 5}, "1 trial is done, and the quorum is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := climbed(t, tc.rule, tc.paused, tc.store)
			if tc.more != nil {
				tc.more(w)
			}
			c := w.mustConclude(t)
			contains(t, c.Reason, tc.says)
			if lacks := strings.Contains(tc.says, "the quorum is"); (c.Outcome == sweep.OutcomeNoWinner) != lacks {
				t.Errorf("at the time limit the sweep is concluded with %s: %s; want a winner %t", c.Outcome, c.Reason,
					!lacks)
			}
			e, err := sweepstore.New(w.sweeps, w.plan.Sweep).Ending(t.Context(), 6)
			if err != nil || !slices.Equal(e.Behind, tc.behind) || !slices.Equal(e.Trials, []int{0, 1}) {
				t.Errorf("the ending is %+v, error %v; want it to count trials 0 and 1, with %v behind", e, err,
					tc.behind)
			}
		})
	}
}

// TestTrialsBehindAreOneEnding: an aggregator dies after writing the ending, which counts paused trials as stopped.
// Then it is decided that these continue. The next aggregator still concludes as the ending says.
func TestTrialsBehindAreOneEnding(t *testing.T) {
	want := climbed(t, sweep.StopASHA, [4]float64{0.5, 0.6, 0.7, 0.8}, nil).mustConclude(t)
	w := climbed(t, sweep.StopASHA, [4]float64{0.5, 0.6, 0.7, 0.8}, nil)
	a := w.aggregator()
	a.Sweeps = dying(w.sweeps, new(atomic.Int64), 1, true) // after the ending
	if _, err := a.Consider(t.Context(), w.plan.Sweep); !errors.Is(err, errDied) {
		t.Fatalf("the first write was to be the aggregator's last: got %v; want its death", err)
	}
	for trial := 2; trial < 6; trial++ {
		w.verdict(t, trial, true)
	}
	if got := w.mustConclude(t); got.Outcome != sweep.OutcomeWinner || got.Trial != want.Trial ||
		got.Reason != want.Reason {
		t.Errorf("concluded by another aggregator, with trial %d (%s): %s; want what the first would have written, "+
			"trial %d: %s", got.Trial, got.Outcome, got.Reason, want.Trial, want.Reason)
	}
}

// crossed returns a cross-validated sweep of three configurations in two folds: trials 0 to 5, and trial 6, the
// refit. Of these, the first so many have ended. scores are those of the folds, by configuration; a score of 0 is a
// failed trial.
func crossed(t *testing.T, ended int, change func(*sweep.Plan), scores ...[2]float64) *world {
	t.Helper()
	var rounds []sweep.Round
	for f := range uint8(2) {
		rounds = append(rounds, sweep.Round{Train: sweep.Rows{Split: "train", Folds: []uint8{1 - f}},
			Rated: sweep.Rows{Split: "train", Folds: []uint8{f}}})
	}
	w := newWorld(t, options{skip: func(int) bool { return true }, change: func(p *sweep.Plan) {
		p.Spec.Validate = &sweep.Validate{KFold: 2}
		p.Folds = sweep.NewFolds("kfold", rounds, true)
		p.Trials = p.Folds.Expand(p.Trials)
		if change != nil {
			change(p)
		}
	}})

	for i, trial := range w.plan.Trials[:min(ended, 6)] {
		score := scores[trial.Configuration][trial.Fold-1]
		r := sweep.Result{Format: 1, Sweep: w.plan.Sweep, Trial: i, Status: sweep.StatusDone, Params: trial.Params,
			Configuration: trial.Configuration, Fold: trial.Fold,
			Score: score, Metrics: map[string]float64{"auc": score}, BestIteration: 7, Trees: 7, TrainRows: 900}
		if score == 0 {
			r.Status, r.Reason = sweep.StatusFailed, "out of memory"
		}
		w.write(t, sweep.Names(w.plan.Sweep).Result(i), r)
	}
	if ended > 6 {
		w.train(t, 6, func(r *sweep.Result, _ map[string][]byte) { r.Score = 0.75 })
	}
	return w
}

// TestASweepOfFolds: in a cross-validated sweep the refit of the best configuration wins, and the reason gives that
// configuration's mean over the folds. The default configuration, whose folds have no scores on test, is not compared.
func TestASweepOfFolds(t *testing.T) {
	usual := func(p *sweep.Plan) {
		for i := range p.Trials {
			p.Trials[i].Source = search.SourceDefault
		}
	}
	w := crossed(t, 7, usual, [2]float64{0.6, 0.62}, [2]float64{0.7, 0.8}, [2]float64{0.9, 0})
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Trial != 6 || c.Version != 1 {
		t.Fatalf("the sweep's end: %+v; want trial 6, the refit, to win", c)
	}
	contains(t, c.Reason,
		"configuration 1 has the highest mean auc over 2 folds, 0.750 ± 0.050; next is configuration 0 with 0.61")
	contains(t, c.Reason, "trial 6 trains it on all rows of train and valid, with 7 trees")
}

// TestASweepOfFoldsWithoutAWinner: a cross-validated sweep has no winner if the refit or too many folds have not ended
// well by the time limit, and the reason says which. Of the trials, 0 to 5 are the folds of three configurations, of
// which half, two, have to have both, and 6 is the refit; ended is how many have a result.
func TestASweepOfFoldsWithoutAWinner(t *testing.T) {
	good := [][2]float64{{0.6, 0.62}, {0.7, 0.8}, {0.9, 0.1}}
	for name, tc := range map[string]struct {
		ended  int
		scores [][2]float64
		want   string
	}{
		"no time for the refit": {6, good, "the refit, trial 6, had not ended"},
		"folds are missing":     {4, good, "had not ended after 6h0m0s, the sweep's time limit"},
		"folds have failed": {7, [][2]float64{{0, 0.6}, {0.7, 0}, {0.8, 0.8}},
			"1 of 3 configurations has all its folds, and the quorum is 2"},
	} {
		w := crossed(t, tc.ended, nil, tc.scores...)
		w.now = created.Add(7 * time.Hour)
		if c := w.mustConclude(t); c.Outcome != sweep.OutcomeNoWinner || !strings.Contains(c.Reason, tc.want) {
			t.Errorf("%s: %+v; want no winner, because %q", name, c, tc.want)
		}
	}
}

// TestAResultOfAnotherFold: a result that names another fold than its trial's is damaged, and its configuration cannot
// win. Here it is that of trial 2, the first fold of configuration 1 (trials 0 and 1 are those of configuration 0).
// Configuration 1 has the best scores, and would win otherwise; so the next best, 0, does.
func TestAResultOfAnotherFold(t *testing.T) {
	w := crossed(t, 7, nil, [2]float64{0.6, 0.62}, [2]float64{0.7, 0.8}, [2]float64{0.5, 0.5})
	name := sweep.Names(w.plan.Sweep).Result(2)
	data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, name, 1<<20))(t)
	overwrite(t, w.sweeps, name, strings.Replace(string(data), `"fold":1`, `"fold":2`, 1))
	contains(t, w.mustConclude(t).Reason, "configuration 0 has the highest mean auc")
}
