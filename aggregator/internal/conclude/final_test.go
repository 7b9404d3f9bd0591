package conclude

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/table"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// finally returns a sweep of three trials, of which trial 2 wins, with a final training, trial 3, that has not run yet.
func finally(t *testing.T) *world {
	t.Helper()
	return newWorld(t, options{table: datasettest.Options{Encodings: "{final: true}"},
		skip: func(i int) bool { return i == 3 }, change: withFinal})
}

// withFinal adds a final training, trial 3, to a plan.
func withFinal(p *sweep.Plan) {
	p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
	p.Trials = append(p.Trials, sweep.Trial{Number: 3, Source: sweep.SourceFinal, Refit: true})
}

// trainFinal does the work of the final training of the winner's configuration, on train alone. relabel, which may be
// nil, changes train's labels for it, and edit its result.
func (w *world) trainFinal(t *testing.T, winner int, relabel func([]float32), edit func(*sweep.Result)) {
	t.Helper()
	w.plan.Trials[3].Params = w.plan.Trials[winner].Params
	s := w.ds.Split(sweep.Train)
	was := s.Label
	if relabel != nil {
		s.Label = slices.Clone(was)
		relabel(s.Label)
	}
	w.train(t, 3, func(r *sweep.Result, _ map[string][]byte) {
		r.Refits, r.TrainRows = &winner, 3000
		if edit != nil {
			edit(r)
		}
	})
	s.Label = was
}

// TestTheFinalModelIsRegistered: the version has the final model, with the encoding whose statistics are over all
// rows, and beside it the winner as it was judged, with the encoding by train, for later nights to compare with.
// Calibrator and usual inputs are the winner's.
func TestTheFinalModelIsRegistered(t *testing.T) {
	w := finally(t)
	w.trainFinal(t, 2, nil, nil)
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Trial != 2 || c.Final == nil || !c.Final.Registered || c.Final.Trial != 3 {
		t.Fatalf("the sweep's end: %+v, final %+v; expected trial 2 to win and trial 3 to be registered", c, c.Final)
	}

	reg := registry.New(w.models)
	v := must.Get(reg.Get(t.Context(), "ctr", "1"))(t)
	read := func(name string) []byte {
		return must.Get(reg.ReadFile(t.Context(), v, name))(t)
	}
	trial := func(n int) []byte {
		data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Attempt(n,
			0)+"model.txt", 1<<24))(t)
		return data
	}
	if !bytes.Equal(read(scorer.FileModel), trial(3)) || !bytes.Equal(read(scorer.FileJudgedModel), trial(2)) {
		t.Error("model.txt is not the final model, or judged.txt not the winner's; want both")
	}

	s := must.Get(scorer.Open(t.Context(), reg, v))(t)
	judged := must.Get(scorer.OpenJudged(t.Context(), reg, v))(t)
	final, _ := w.ds.Manifest.FinalEncoding()
	for what, prior := range map[string][2]float64{
		"the version": {s.Encoding.Tables[0].Prior, final.Tables[0].Prior},
		"the judged":  {judged.Encoding.Tables[0].Prior, w.ds.Manifest.Tables[0].Prior},
	} {
		if prior[0] != prior[1] {
			t.Errorf("%s model has a prior of %v, expected %v", what, prior[0], prior[1])
		}
	}
	if final.Tables[0].Prior == w.ds.Manifest.Tables[0].Prior {
		t.Error("the statistics over all rows are those of train: the test shows nothing")
	}

	// The calibrator that goes live is the judged model's: rows that the final model has seen say nothing of its level,
	// unless they are the newest (TestTheLevelOfTheNewestRows).
	if !bytes.Equal(read(scorer.FileCalibrator), read(scorer.FileJudgedCalibrator)) {
		t.Error("the final model's calibrator is not the judged model's, want the same")
	}

	// The final training has seen the sample, so that to its own tables no value there is new.
	unseen := int64(0)
	for _, c := range s.Usual.Columns {
		unseen += c.Unseen
	}
	if unseen == 0 {
		t.Errorf("usually no value is unseen, of %+v; want what the judged model has not seen", s.Usual)
	}
}

// TestTheFinalModelMayPredictOtherSums: a final model whose predictions add up to more than 1.25 times the winner's, as
// those of a good one may where days drift, is still registered.
func TestTheFinalModelMayPredictOtherSums(t *testing.T) {
	w := finally(t)
	w.trainFinal(t, 2, func(y []float32) {
		for i := 0; i < len(y); i += 13 {
			y[i] = 1
		}
	}, nil)
	c := w.mustConclude(t)
	if c.Final == nil || !c.Final.Registered || c.Final.Ratio < 1.25 {
		t.Errorf("%+v, final %+v; expected it to be registered with a ratio above 1.25", c, c.Final)
	}
}

// TestTheFinalModelsEncodingIsChecked: the scores that the final training has left are of bins, so that they do not
// show a wrong encoding of raw values. Comparing predictions for raw test rows does: with the features in another
// order, the final model is not accepted.
func TestTheFinalModelsEncodingIsChecked(t *testing.T) {
	w := finally(t)
	w.trainFinal(t, 2, nil, nil)
	a := w.aggregator()
	h := must.Get(a.readHoldout(t.Context(), w.plan))(t)
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	read := func(trial int) *winner {
		r, damage, err := trials.Result(t.Context(), trial)
		if damage != nil || err != nil {
			t.Fatal(damage, err)
		}
		model, unfit, err := readWinner(t.Context(), trials, r, h)
		if unfit != nil || err != nil {
			t.Fatal(unfit, err)
		}
		return model
	}
	judged, f := read(2), &final{winner: read(3)}
	must.Do(t, judged.calibrate(w.plan, h))
	f.calibrator = judged.calibrator
	f.encoding, f.levels = must.Get2(a.finalEncoding(t.Context(), w.plan, h))(t)
	if err := f.compareWithWinner(judged, h, &sweep.FinalModel{}); err != nil {
		t.Fatalf("as they should be: got error %v, want none", err)
	}

	f.encoding.Features = slices.Clone(f.encoding.Features)
	slices.Reverse(f.encoding.Features)
	err := f.compareWithWinner(judged, h, &sweep.FinalModel{})
	must.Say(t, "with columns in another order", err, "on raw test rows with statistics over all rows")
}

// TestTheFinalModelOfARegression: the final model of a regression is registered if its squared error on test is no
// worse than the winner's. With labels twenty times as large it is not.
func TestTheFinalModelOfARegression(t *testing.T) {
	for name, tc := range map[string]struct {
		relabel    func([]float32)
		registered bool
		want       string
	}{
		"as it should be": {nil, true, "trained on all"},
		"twenty times as much": {func(y []float32) {
			for i := range y {
				y[i] *= 20
			}
		}, false, "its l2 on test"},
	} {
		w := newWorld(t, options{regression: true, table: datasettest.Options{Encodings: "{final: true}"},
			skip: func(i int) bool { return i == 3 }, change: withFinal})
		w.trainFinal(t, 1, tc.relabel, nil)
		c := w.mustConclude(t)
		if c.Final == nil || c.Final.Registered != tc.registered {
			t.Errorf("%s: %+v, final %+v; expected registered %t", name, c, c.Final, tc.registered)
			continue
		}
		contains(t, c.Final.Reason, tc.want)
	}
}

// TestTheFinalModelsFilesAreLost: if a file that only the final model needs is damaged, or cannot be read until
// filePatience is over, the sweep is concluded, and the winner is registered without the final model.
func TestTheFinalModelsFilesAreLost(t *testing.T) {
	for name, break_ := range map[string]func(*world){
		"the statistics over all rows are damaged": func(w *world) {
			name := sweep.DatasetDir(w.plan.Dataset.Name, w.plan.Dataset.Version) + dataset.FinalLevelsFile
			must.Get(w.datasets.Put(t.Context(), name, blob.Any, strings.NewReader("x")))(t)
		},
		"the store does not give the model": func(w *world) {
			model := sweep.Names(w.plan.Sweep).Attempt(3, 0) + "model.txt"
			faulty, err := blobtest.NewFaulty(t.Context(), w.sweeps, blobtest.Refused,
				func(name string) bool { return name == model })
			if err != nil || faulty.Struck() != 1 {
				t.Fatalf("%d objects are struck, %v; expected 1", faulty.Struck(), err)
			}
			w.sweeps = faulty
			if c, err := w.aggregator().Consider(t.Context(), w.plan.Sweep); !errors.Is(err, blobtest.ErrRefused) {
				t.Fatalf("at first: %+v, %v; expected to be told that the store refuses", c, err)
			}
			w.now = w.now.Add(filePatience)
		},
	} {
		w := finally(t)
		w.trainFinal(t, 2, nil, nil)
		break_(w)
		c := w.mustConclude(t)
		if c.Outcome != sweep.OutcomeWinner || c.Version != 1 || c.Final == nil || c.Final.Registered {
			t.Errorf("%s: %+v, final %+v; expected the winner to be registered", name, c, c.Final)
		}
	}
}

// TestCorrelationIsANumber: the correlation of scores is never NaN, also if a model gives all rows one score. It is
// written into a report as JSON, which cannot hold NaN: such a sweep was once never concluded.
func TestCorrelationIsANumber(t *testing.T) {
	for name, tc := range map[string]struct {
		x, y   []float64
		weight []float32
		want   float64
	}{
		"the same":                 {[]float64{1, 2, 4}, []float64{2, 4, 8}, nil, 1},
		"opposite":                 {[]float64{1, 2}, []float64{2, 1}, nil, -1},
		"both constant":            {[]float64{.1, .1, .1}, []float64{.7, .7, .7}, nil, 1},
		"one constant":             {[]float64{.1, .1, .1}, []float64{1, 2, 3}, nil, 0},
		"the other":                {[]float64{1, 2, 3}, []float64{.1, .1, .1}, nil, 0},
		"one row":                  {[]float64{1}, []float64{2}, nil, 1},
		"no row":                   {nil, nil, nil, 1},
		"no row of weight":         {[]float64{1, 2}, []float64{2, 1}, []float32{0, 0}, 1},
		"constant where it weighs": {[]float64{1, 1, 2}, []float64{3, 3, 1}, []float32{1, 1, 0}, 1},
		"huge":                     {[]float64{1e38, 2e38}, []float64{1, 2}, nil, 1},
	} {
		if got := correlation(tc.x, tc.y, tc.weight); !(math.Abs(got-tc.want) < 1e-12) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// TestTheFinalModelHasToAgree: if the final training has not ended, failed, ended at its limit or was of another
// trial's configuration, or if its model is unlike the winner, the winner alone is registered, and the report says why.
// Without a change of labels or result, trainFinal makes a model that agrees (TestTheFinalModelIsRegistered).
func TestTheFinalModelHasToAgree(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*world)
		want string
	}{
		"it has not ended": {func(w *world) { w.now = created.Add(7 * time.Hour) }, "the final training had not ended"},
		"a task was held up": {func(w *world) {
			trouble := sweep.Trouble{Format: 1, Sweep: w.plan.Sweep, Task: 3, Text: "no room", At: w.now}
			must.Do(t, w.aggregator().sweep(w.plan.Sweep).Tell(t.Context(), "j", 3, &trouble))
			w.now = created.Add(7 * time.Hour)
		}, "the final training had not ended: task 3 was held up: no room; the winner is registered"},
		"it failed": {func(w *world) {
			w.trainFinal(t, 2, nil, func(r *sweep.Result) { r.Status, r.Reason = sweep.StatusFailed, "out of memory" })
		}, "ended without a model (failed): out of memory"},
		"it ended at its limit": {func(w *world) {
			w.trainFinal(t, 2, nil, func(r *sweep.Result) { r.AtLimit, r.Reason = true, "stopped at its limit of 1h" })
		}, "the final training stopped at its limit of 1h; the winner is registered"},
		"of another trial": {func(w *world) {
			other := 0
			w.trainFinal(t, 2, nil, func(r *sweep.Result) { r.Refits = &other })
		}, "was of another trial's configuration"},
		"its labels were of other rows": {func(w *world) {
			w.trainFinal(t, 2, func(y []float32) { slices.Reverse(y) }, nil)
		}, "is unlike the winner: the correlation of their scores on test"},
		"its labels were inverted": {func(w *world) {
			w.trainFinal(t, 2, func(y []float32) {
				for i := range y {
					y[i] = 1 - y[i]
				}
			}, nil)
		}, "is unlike the winner: the correlation"},
		"a third of its positives were lost": {func(w *world) {
			w.trainFinal(t, 2, func(y []float32) {
				for i := range y {
					if i%3 > 0 {
						y[i] = 0
					}
				}
			}, nil)
		}, "is unlike the winner"},
	} {
		w := finally(t)
		tc.do(w)
		c := w.mustConclude(t)
		if c.Outcome != sweep.OutcomeWinner || c.Trial != 2 || c.Version != 1 || c.Final == nil || c.Final.Registered {
			t.Errorf("%s: %+v, final %+v; expected trial 2 to be registered", name, c, c.Final)
			continue
		}
		contains(t, c.Final.Reason, tc.want)
		reg := registry.New(w.models)
		v := must.Get(reg.Get(t.Context(), "ctr", "1"))(t)
		if scorer.JudgedModel(v) != scorer.FileModel {
			t.Errorf("%s: the version has a judged model beside its own, want one model", name)
		}
	}
}

// TestTheLevelOfTheNewestRows: if rows are split by time, a final model's calibrator is fitted so that its
// predictions for calib and test move half of the way to their labels, or all of it if one class weighs more
// (scale_pos_weight). With another split, it is the judged model's calibrator. Here the judged model is calibrated,
// and the final one's scores of calib are all 0, so that its predictions add up to .93 of the labels at first.
func TestTheLevelOfTheNewestRows(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	const rows = 40_000
	raw, label := make([]float64, rows), make([]float32, rows)
	for i := range raw {
		raw[i] = r.NormFloat64()
		if r.Float64() < 1/(1+math.Exp(-1-raw[i])) {
			label[i] = 1
		}
	}
	judged := must.Get(calibrate.Choose(raw, label, nil, false))(t)
	// fitted returns the calibrator for a split and a weight, and the sum of its predictions over that of the labels.
	fitted := func(by string, weight float64) (share float64, c *calibrate.Calibrator) {
		h := &holdout{manifest: &dataset.Manifest{Split: dataset.SplitRule{By: by}},
			calib: dataset.Targets{Label: label[:rows/2]}, test: dataset.Targets{Label: label[rows/2:]}}
		f := &final{winner: &winner{calibrator: judged.Calibrator,
			calib: make([]float64, rows/2), testRaw: raw[rows/2:],
			result: &sweep.Result{Params: sweep.Params{"objective": "binary", "scale_pos_weight": weight}}}}
		must.Do(t, f.fitLevel(&winner{calibrator: judged.Calibrator}, h))
		sum, labels := 0.0, 0.0
		for i, x := range append(slices.Clone(f.calib), f.testRaw...) {
			sum, labels = sum+f.calibrator.Predict(x), labels+float64(label[i])
		}
		return sum / labels, f.calibrator
	}
	if share, _ := fitted(dataset.SplitByTime, 2); math.Abs(share-1) > 5e-3 {
		t.Errorf("by time, with scale_pos_weight 2: predictions add up to %v of the labels, want all", share)
	}
	if half, _ := fitted(dataset.SplitByTime, 1); half > .99 || half < .8 {
		t.Errorf("by time: predictions add up to %v of the labels, want half of the way from .93", half)
	}
	if _, c := fitted(dataset.SplitByHash, 1); c != judged.Calibrator {
		t.Errorf("by hash it is %v, expected the judged model's %v", c, judged.Calibrator)
	}
}

// TestWhatAFinalModelNeedNotAgreeWith: a final model is not compared by classes that train lacks, to which the judged
// model gives the same score in all rows (keepLearnt). And it need not agree with a judged model that is no better on
// test than the base rate (losesToBaseRate). The report says in words whether it agrees (describeAgreement).
func TestWhatAFinalModelNeedNotAgreeWith(t *testing.T) {
	// Three rows with a score for each of three classes. The old model's third score is always 3.
	fresh := []float64{1, 2, 9, 3, 4, -5, 5, 6, 7}
	old := []float64{1, 2, 3, 2, 4, 3, 3, 6, 3}
	f, o, w := keepLearnt(3, fresh, old, []float32{1, 2, 3})
	if !slices.Equal(f, []float64{1, 3, 5, 2, 4, 6}) || !slices.Equal(o, []float64{1, 2, 3, 2, 4, 6}) ||
		!slices.Equal(w, []float32{1, 2, 3, 1, 2, 3}) {
		t.Errorf("of three classes, the last of which is not known: got %v, %v with the weights %v; want the scores "+
			"of the first class and then those of the second, with the weights of the rows for each", f, o, w)
	}

	two := &holdout{test: dataset.Targets{Label: []float32{0, 0, 0, 1}}}
	three := &holdout{test: dataset.Targets{Label: []float32{0, 1, 2, 2}, Weight: []float32{1, 1, 1, 1}}}
	sure := []float64{.98, .01, .01, .98, .01, .01, .98, .01, .01, .98, .01, .01}
	right := []float64{.8, .1, .1, .1, .8, .1, .1, .1, .8, .1, .1, .8}
	for name, tc := range map[string]struct {
		h       *holdout
		metric  string
		outputs int
		judged  []float64
		want    bool
	}{
		"better":                   {two, "log_loss", 1, []float64{.1, .1, .1, .7}, false},
		"worse":                    {two, "log_loss", 1, []float64{.7, .7, .7, .1}, true},
		"classes, better":          {three, "multi_logloss", 3, right, false},
		"classes, worse":           {three, "multi_logloss", 3, sure, true},
		"values, worse":            {two, "l2", 1, []float64{3, 3, 3, 3}, true},
		"a metric without a base":  {two, "r2", 1, []float64{3, 3, 3, 3}, false},
		"a metric that nobody has": {two, "x", 1, []float64{3, 3, 3, 3}, false},
	} {
		must.Equal(t, losesToBaseRate(tc.h, tc.metric, tc.outputs, tc.judged), tc.want, "%s: it loses to the base rate",
			name)
	}
	for says, r := range map[string]sweep.FinalModel{
		"predicts no better than a constant":     {Correlation: 0},
		"(correlation 0.9)":                      {Correlation: 0.9},
		"test (sum ratio 1.1, correlation 0.98)": {Correlation: 0.98, Ratio: 1.1},
	} {
		contains(t, describeAgreement(&r), says)
	}
}

// driftingDays returns the click table, as CSV, of the days first to last, of 400 rows each, and its labels. The effect
// of the number x on a click grows from day to day. A day's rows are always the same.
func driftingDays(first, last int) (text []byte, label []float32) {
	var b bytes.Buffer
	b.WriteString("day,campaign_id,x,is_click,revenue\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for day := range last + 1 {
		for range 400 {
			x, campaign, click := rng.NormFloat64(), rng.IntN(50), 0
			z := -1 + x*(1+float64(day)/10) + math.Sin(float64(campaign))
			if rng.Float64() < 1/(1+math.Exp(-z)) {
				click = 1
			}
			if day >= first {
				fmt.Fprintf(&b, "d%d,c%d,%.4f,%d,0\n", day, campaign, x, click)
				label = append(label, float32(click))
			}
		}
	}
	return b.Bytes(), label
}

// pastNight is how a sweep on six days ended, and the log loss of its version on the day after.
type pastNight struct {
	*sweep.Conclusion
	judged         []byte  // the text of the judged model
	live, ofJudged float64 // log loss of the version in use, and of its judged model
}

// pastNights concludes sweeps of four nights in a row, with or without a final training. Each has three days to train
// on, and one each for valid, calib and test.
func pastNights(t *testing.T, final bool) []pastNight {
	t.Helper()
	var nights []pastNight
	var before *world
	for n := range 4 {
		rows, _ := driftingDays(n, n+5)
		w := newWorld(t, options{into: before, sweep: sweep.ID(fmt.Sprint("night-", n)), leaves: []int{7},
			skip: func(i int) bool { return i > 0 }, change: func(p *sweep.Plan) {
				p.Trials[0].Params["num_iterations"] = 8
				if final {
					p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
					p.Trials = append(p.Trials, sweep.Trial{Number: 1, Source: sweep.SourceFinal, Refit: true})
				}
			}, table: datasettest.Options{Encodings: "{budget: 0, final: true}",
				Split: fmt.Sprintf("{by: column, column: day, train: [d%d, d%d, d%d], valid: d%d, calib: d%d, "+
					"test: d%d}",
					n, n+1, n+2, n+3, n+4, n+5), Edit: func([]byte) []byte { return rows }}})
		if final {
			w.trainOnAll(t)
		}
		before = w
		nights = append(nights, w.pastNight(t, n+6))
	}
	return nights
}

// trainOnAll does the work of the final training of trial 0 on the rows of all splits, as a task does.
func (w *world) trainOnAll(t *testing.T) {
	t.Helper()
	p := must.Get(gbt.ParseParams(w.plan.Trials[0].Params))(t)
	loss := must.Get(metric.Lookup("log_loss"))(t)
	all := fit.NewTable(w.ds)
	o, err := all.Train(t.Context(), fit.Request{Params: p, Metric: loss, Threads: 1, Final: true, Rows: []sweep.Rows{
		{Split: sweep.Train}, {Split: sweep.Valid}, {Split: sweep.Calib}, {Split: sweep.Test}}})
	must.Do(t, err)
	w.plan.Trials[1].Params = w.plan.Trials[0].Params
	var text bytes.Buffer
	must.Get(o.Model.WriteTo(&text))(t)
	w.train(t, 1, func(r *sweep.Result, files map[string][]byte) {
		r.Refits, r.TrainRows, files["model.txt"] = new(int), o.TrainRows, text.Bytes()
		for name, part := range map[string]sweep.Rows{"calib.scores": w.plan.Holdout.Calib,
			"test.scores": w.plan.Holdout.Test} {
			rows := must.Get(all.Select(part))(t)
			raw := must.Get(o.Model.PredictBinned(&rows.Data, 1))(t)
			files[name] = sweep.EncodeScores(raw)
		}
	})
}

// pastNight concludes the sweep, and measures its version and its judged model on the day after.
func (w *world) pastNight(t *testing.T, after int) pastNight {
	t.Helper()
	n := pastNight{Conclusion: w.mustConclude(t)}
	reg := registry.New(w.models)
	v := must.Get(reg.Get(t.Context(), "ctr", fmt.Sprint(n.Version)))(t)
	n.judged = must.Get(reg.ReadFile(t.Context(), v, scorer.JudgedModel(v)))(t)
	live := must.Get(scorer.Open(t.Context(), reg, v))(t)
	judged := must.Get(scorer.OpenJudged(t.Context(), reg, v))(t)
	n.live, n.ofJudged = lossOn(t, live, after), lossOn(t, judged, after)
	return n
}

// lossOn returns the log loss of a model on the raw rows of a day.
func lossOn(t *testing.T, s *scorer.Scorer, day int) float64 {
	t.Helper()
	text, label := driftingDays(day, day)
	path := filepath.Join(t.TempDir(), "day.csv")
	must.Do(t, os.WriteFile(path, text, 0o600))
	rows := must.Get(table.Open([]table.File{{URI: path, Path: path}}, table.Options{}))(t)
	var pred []float64
	must.Do(t, rows.Read(t.Context(), s.Columns(), len(label), func(b *table.Batch) error {
		_, p, _, err := s.Batch(b, nil, 1, &cell.Inputs{})
		pred = append(pred, p...)
		return err
	}))
	loss := must.Get(metric.Lookup("log_loss"))(t)
	return must.Get(loss.Eval(metric.Input{Label: label, Pred: pred}))(t)
}

// TestFinalOnTheDayAfter: a final model has also seen the newest days, on which its judged model was only tested. Where
// days drift, it is better on the day after, over four nights together. The judged model, and the gate's decision, are
// the same as without a final training. A second run gives the same results.
func TestFinalOnTheDayAfter(t *testing.T) {
	without, with := pastNights(t, false), pastNights(t, true) // each night has 2,400 rows: six days of 400
	gain := 0.0
	for i, n := range with {
		old := without[i]
		if n.Final == nil || !n.Final.Registered || n.Final.Rows != 2400 || n.Final.Trees != 8 {
			t.Fatalf("night %d: the final training %+v, expected one of 8 trees on 2400 rows to be registered", i,
				n.Final)
		}
		if !bytes.Equal(n.judged, old.judged) || n.ofJudged != old.live || !reflect.DeepEqual(n.Test, old.Test) {
			t.Errorf("night %d: the judged model's loss is %v tomorrow, with %v on test; expected those of a night "+
				"without a final training, %v and %v", i, n.ofJudged, n.Test, old.live, old.Test)
		}
		if !reflect.DeepEqual(n.Gate, old.Gate) {
			t.Errorf("night %d: the gate has seen %+v; want %+v, as without a final training", i, n.Gate, old.Gate)
		}
		if n.live == old.live {
			t.Errorf("night %d: the final model's loss tomorrow is %v, that of the judged one; want another", i, n.live)
		}
		gain += old.live - n.live
	}
	if gain <= 0 {
		t.Errorf("the final models are worse by %v in all; want them better", -gain)
	}
	for i, n := range pastNights(t, true) {
		if !reflect.DeepEqual(n, with[i]) {
			t.Errorf("night %d again: got %+v, want the same as at first, %+v", i, n, with[i])
		}
	}
}
