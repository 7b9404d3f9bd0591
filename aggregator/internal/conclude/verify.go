package conclude

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/dmitryikh/leaves"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// winner is the trial to be registered, with all that is derived from it.
type winner struct {
	result         *sweep.Result
	model          []byte
	calib, testRaw []float64 // raw scores of the calib and test rows, [rows x outputs], as the trainer computed them
	trees          *gbt.Model

	verified    *sweep.Verified
	calibrator  *calibrate.Calibrator // nil for regression
	calibration *sweep.Calibration
	test        map[string]float64
	within      *sweep.Within // of the sweep's metric on test
	tested      *metric.Tested
}

// files reads the files that trials write in addition to their results.
type files interface {
	// File reads one. lost says that it is missing or not what the trial wrote; err is one of the store.
	File(ctx context.Context, o sweep.Object) (data []byte, lost, err error)
}

// readWinner reads a trial's files. r must name a model and scores, as the result of a trial that is done does. unfit
// says why the trial cannot win: its files are missing, damaged or not a model, or do not fit h. err is a storage
// error, which says nothing about the trial.
func readWinner(ctx context.Context, trials files, r *sweep.Result, h *holdout) (w *winner, unfit, err error) {
	w = &winner{result: r}

	var contents [3][]byte
	for i, o := range []sweep.Object{*r.Model, r.Scores.Calib, r.Scores.Test} {
		data, lost, err := trials.File(ctx, o)
		if lost != nil || err != nil {
			return nil, lost, err
		}
		contents[i] = data
	}

	// A file that cannot be decoded is the trial's fault, not storage's.
	w.model = contents[0]
	if w.trees, unfit = gbt.ReadModel(bytes.NewReader(w.model)); unfit != nil {
		return nil, unfit, nil
	}
	if w.calib, unfit = sweep.DecodeScores(contents[1]); unfit != nil {
		return nil, unfit, nil
	}
	if w.testRaw, unfit = sweep.DecodeScores(contents[2]); unfit != nil {
		return nil, unfit, nil
	}

	// From here on, rows and features are matched by position only. Of several classes, a row has a score for each.
	n := w.trees.Outputs()
	if n != max(1, len(h.manifest.Label.Classes)) {
		return nil, fmt.Errorf("the model has %d outputs, the dataset %d classes", n,
			len(h.manifest.Label.Classes)), nil
	}
	if len(w.calib) != n*len(h.calib.Label) || len(w.testRaw) != n*len(h.test.Label) {
		return nil, fmt.Errorf("it scored %d calib and %d test rows, the dataset has %d and %d", len(w.calib)/n,
			len(w.testRaw)/n, len(h.calib.Label), len(h.test.Label)), nil
	}
	if w.trees.Features() != len(h.manifest.Features) {
		return nil, fmt.Errorf("the model has %d features, the dataset %d", w.trees.Features(),
			len(h.manifest.Features)), nil
	}

	return w, nil, nil
}

// tolerance bounds the difference of two raw scores: absolute for scores up to 1, and relative above.
const tolerance = 1e-9

// maxVisits bounds the trees that leaves visits, over all rows: a visit takes 50 to 200 ns, all of them 3 s at most.
const maxVisits = 15_000_000

// everyNth returns n such that leaves, scoring every n-th of the rows, visits about maxVisits trees at most.
func everyNth(rows, trees int) int { return 1 + rows*trees/maxVisits }

// verify scores the sample's calib and test rows from their raw values, twice: with the library leaves, which shares
// nothing with the trainer but the model's text format, and with our own predictor. It returns an error if one of them
// differs from the scores that the trainer computed from bins. It sets w.verified.
func (w *winner) verify(h *holdout) (err error) {
	defer func() {
		if v := recover(); v != nil { // leaves panics on some texts
			err = fmt.Errorf("leaves cannot score the model: %v", v)
		}
	}()

	scorer, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(w.model)), false)
	if err != nil {
		return fmt.Errorf("leaves cannot read the model: %w", err)
	}

	w.verified = &sweep.Verified{Scorer: "leaves"}
	every := everyNth(len(h.testRows)+len(h.calibRows), len(w.trees.Trees))
	if err := w.verifyScores(scorer, h, h.testRows, w.testRaw, every); err != nil {
		return err
	}
	return w.verifyScores(scorer, h, h.calibRows, w.calib, every)
}

// verifyScores compares the trainer's scores of one part of the rows with those of our own predictor in all rows, and
// of leaves in every n-th row, n being every. places are the sample's rows of that part; trained are the trainer's
// scores, [rows of the part x outputs].
func (w *winner) verifyScores(scorer *leaves.Ensemble, h *holdout, places []place, trained []float64, every int) error {
	n := w.trees.Outputs()
	const together = 4096 // rows in one call, which makes our predictor ten times as fast as one row each
	most := min(together, len(places))
	theirs, ours, seen := make([]float64, n), make([]float64, most*n), 0
	x := make([]float64, 0, most*w.trees.Features())
	for block := range slices.Chunk(places, together) {
		x, ours = x[:0], ours[:len(block)*n]
		for _, p := range block {
			x = append(x, h.row(p.sample)...)
		}
		if err := w.trees.PredictAll(x, ours, runtime.GOMAXPROCS(0)); err != nil {
			return err
		}

		for i, p := range block {
			want := trained[p.part*n : (p.part+1)*n]
			if err := w.compareRow(h, p, "the predictor", ours[i*n:(i+1)*n], want); err != nil {
				return err
			}
			seen++
			if (seen-1)%every != 0 { // the first row of the part, and every n-th after it
				continue
			}
			if err := scorer.Predict(h.row(p.sample), 0, theirs); err != nil {
				return fmt.Errorf("leaves cannot score the model: %w", err)
			}
			if err := w.compareRow(h, p, "leaves", theirs, want); err != nil {
				return err
			}
			w.verified.Rows++
		}
	}
	return nil
}

// compareRow returns an error if a row's scores, which the program called name computed, differ from the trainer's,
// want, by more than tolerance. It keeps the largest difference in w.verified.
func (w *winner) compareRow(h *holdout, p place, name string, scores, want []float64) error {
	for k, s := range scores {
		diff := math.Abs(s - want[k])
		// Written this way round so that NaN fails, too.
		if !(diff <= tolerance*max(1, math.Abs(want[k]))) {
			return fmt.Errorf("on row %d of the %s sample %s predicts %v, the trainer %v",
				h.sample.Row[p.sample], h.sample.Split, name, s, want[k])
		}
		w.verified.MaxDiff = max(w.verified.MaxDiff, diff)
	}
	return nil
}

// calibrate chooses a calibrator by the calib rows, for binary labels, and measures the winner on test, which no
// earlier step has used. It sets calibrator, calibration, test and within.
func (w *winner) calibrate(p *sweep.Plan, h *holdout) error {
	// Compute before setting w.calibrator, which predictions applies as soon as it is set.
	before := w.predictions(w.testRaw)

	if p.Spec.Objective == "binary" {
		if err := w.choose(h); err != nil {
			return err
		}
		w.calibration.Before = measure(h, before, "ece", "brier", "log_loss")
		w.calibration.After = measure(h, w.predictions(w.testRaw), "ece", "brier", "log_loss")
	}
	w.test = measure(h, w.predictions(w.testRaw), append([]string{p.Spec.Metric}, p.Metrics...)...)
	w.within = intervalOnTest(p.Spec.Metric, h, w.predictions(w.testRaw))
	return nil
}

// choose sets the calibrator that does best on the calib rows, which may be none, and says why in w.calibration. Rows
// on which none can be fitted are a *dataError.
func (w *winner) choose(h *holdout) error {
	choice, err := calibrate.Choose(w.calib, h.calib.Label, h.calib.Weight, h.manifest.ByTime())
	if err != nil {
		return &dataError{fmt.Errorf("trial %d: %w", w.result.Trial, err)}
	}
	w.calibrator = choice.Calibrator
	w.calibration = &sweep.Calibration{Method: string(choice.Method), Reason: choice.Reason}
	return nil
}

// intervalOnTest returns the confidence interval of a metric on test. It is nil if the metric is not defined there, or
// has no formula for its interval, so that it would have to be resampled.
func intervalOnTest(name string, h *holdout, pred []float64) *sweep.Within {
	m, err := metric.Lookup(name)
	if err != nil || !m.Analytic() {
		return nil
	}
	i, err := m.Interval(input(&h.test, pred), metric.Confidence{})
	if err != nil || math.IsNaN(i.Low+i.High) || math.IsInf(i.Low+i.High, 0) {
		return nil
	}
	return &sweep.Within{Low: i.Low, High: i.High, Metric: name}
}

// predictions returns the predictions for raw scores, which it leaves as they are: calibrated probabilities if there is
// a calibrator, else what the objective makes of the scores (gbt.Model.Transform).
func (w *winner) predictions(raw []float64) []float64 {
	return predictions(w.trees, w.calibrator, slices.Clone(raw))
}

// predictions turns raw scores into predictions, in place.
func predictions(m *gbt.Model, c *calibrate.Calibrator, raw []float64) []float64 {
	if c != nil {
		return c.PredictAll(raw[:0], raw)
	}
	m.Transform(raw)
	return raw
}

// input is what metrics of the rows' predictions take.
func input(t *dataset.Targets, pred []float64) metric.Input {
	return metric.Input{Label: t.Label, Weight: t.Weight, Pred: pred, Group: t.Group, Values: t.Values}
}

// measure evaluates metrics of predictions on test.
func measure(h *holdout, pred []float64, names ...string) map[string]float64 {
	return evaluate(input(&h.test, pred), names...)
}

// evaluate returns the values of metrics, by their canonical names. One that is undefined on these rows, such as an AUC
// on labels of a single class, is left out. So is one that this build does not know: the plan may be of another build.
func evaluate(in metric.Input, names ...string) map[string]float64 {
	var e metric.Evaluator
	e.Reset(in)
	out := map[string]float64{}
	for _, name := range names {
		m, err := metric.Lookup(name)
		if err != nil {
			continue
		}
		if v, err := e.Eval(m); err == nil {
			out[m.Name] = v
		}
	}
	return out
}
