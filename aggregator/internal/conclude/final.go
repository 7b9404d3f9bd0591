package conclude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// final is the model of the final training, which trains the winner's configuration again on the rows of all splits,
// with the encoding that belongs to it.
type final struct {
	*winner
	encoding *dataset.Encoding
	levels   *dataset.Levels
}

// Bounds within which the final model has to agree with the winner, which has been judged. They are wide: training on
// other rows changes a model, and what they are there for (damage on the way, labels of another table) changes it
// beyond recognition. Where days drift, it is the winner whose sum is off (docs/LAB.md).
const (
	finalRatio       = 2.0  // of the sums of predictions for test rows, either way
	finalCorrelation = 0.5  // of the log odds (or predictions) of test rows
	finalLoss        = 1.02 // of its loss on test, which it has seen, to the winner's, which has not
)

// judgeFinal returns the final model if it may be registered, and a report on it. Otherwise the model is nil, and the
// report says why. Both are nil for a plan without a final training. An error is one of the store, and leads to a
// retry.
//
// It checks, in this order: the training has ended well, and was of the winner's configuration; its files pass
// verification; it has a calibrator exactly if the plan has it make one; the statistics over all rows can be read; and
// the model agrees with the winner on test. Then it fits the level of its calibrator.
func (a *Aggregator) judgeFinal(ctx context.Context, k *known, b sweep.Board, e *sweep.Ending, w *winner,
	h *holdout) (*final, *sweep.FinalModel, error) {
	trial, ok := k.plan.Final()
	if !ok {
		return nil, nil, nil
	}
	report := &sweep.FinalModel{Trial: trial}
	refuse := func(format string, args ...any) (*final, *sweep.FinalModel, error) {
		report.Reason = fmt.Sprintf(format, args...) + "; the winner is registered as it was judged"
		a.Log.Warn("the final model is not used", "sweep", k.plan.Sweep, "trial", trial, "reason", report.Reason)
		return nil, report, nil
	}

	// The training.
	r := resultOf(b, trial)
	switch {
	case r == nil:
		late := k.plan.LateFinal(w.result)
		// More time would not help if a task is held up, as by a full disk. A trouble that cannot be read is left out.
		if t, err := a.sweep(k.plan.Sweep).Trouble(ctx, k.listing); err == nil && t != nil {
			late = fmt.Sprintf(": task %d was held up: %s", t.Task, t.Text)
		}
		return refuse("the final training had not ended%s", late)
	case r.Status != sweep.StatusDone:
		return refuse("the final training ended without a model (%s): %s", r.Status, r.Reason)
	case r.AtLimit: // it was stopped before it had all trees
		return refuse("the final training %s", r.Reason)
	case r.Refits == nil || *r.Refits != w.result.Trial:
		return refuse("the final training was of another trial's configuration")
	}
	// A dataset may have each row of train several times, as copies with other statistics; people count rows.
	report.Trees, report.Rows = r.Trees, r.TrainRows/max(1, h.manifest.Copies())

	// The model's files.
	own, unfit, err := a.readVerified(ctx, k, r, e, h)
	if err != nil {
		return nil, nil, err
	}
	if unfit != nil {
		return refuse("the final model, trial %d: %v", trial, unfit)
	}

	// The calibrator. A single final model has seen all rows, and takes over the winner's. A bag, the mean of several
	// models each trained without some rows, fits its own by these rows, if the winner is calibrated at all.
	f := &final{winner: own}
	own.calibrator = w.calibrator
	if (r.Calibrator != nil) != (w.calibrator != nil && k.plan.Spec.BagOf(w.result.Trees, 0) > 1) {
		return refuse("the final training has a calibrator, or none, where its plan says otherwise")
	}
	if r.Calibrator != nil {
		if own.calibrator, err = calibrate.Decode(r.Calibrator); err != nil {
			return refuse("the calibrator of the final training: %v", err)
		}
	}

	if f.encoding, f.levels, err = a.finalEncoding(ctx, k.plan, h); err != nil {
		// Contents that are wrong stay so. What the store does not give now may come until filePatience is over.
		if !errors.As(err, new(*dataError)) && a.shouldWait(ctx, e, err) {
			return nil, nil, err
		}
		return refuse("the statistics over all rows: %v", err)
	}
	if err := f.compareWithWinner(w, h, report); err != nil {
		return refuse("the final model, trial %d, is unlike the winner: %v", trial, err)
	}
	if err := f.fitLevel(w, h); err != nil {
		return refuse("the final model, trial %d, cannot be calibrated: %v", trial, err)
	}
	report.Registered = true
	trained := fmt.Sprintf("trained on all %s rows", humanize.Comma(int64(report.Rows)))
	if n := k.plan.Spec.BagOf(w.result.Trees, 0); n > 1 {
		trained = fmt.Sprintf("the mean of %d models, each trained without one fold of all %s rows,", n,
			humanize.Comma(int64(report.Rows)))
	}
	report.Reason = fmt.Sprintf("%s with %s trees; %s", trained, humanize.Comma(int64(r.Trees)),
		describeAgreement(report))
	return f, report, nil
}

// describeAgreement says how far a final model that is registered agrees with the winner.
func describeAgreement(r *sweep.FinalModel) string {
	switch {
	case !(r.Correlation >= finalCorrelation): // registered although it disagrees, as losesToBaseRate allows
		return "its loss on test is no higher than the winner's, which predicts no better than a constant there"
	case r.Ratio > 0: // a calibrated model; others have no ratio
		return fmt.Sprintf("agrees with the winner on test (sum ratio %.3g, correlation %.3g)", r.Ratio, r.Correlation)
	}
	return fmt.Sprintf("agrees with the winner on test (correlation %.3g)", r.Correlation)
}

// finalEncoding returns the encoding with the statistics of ids over all rows, and the levels that these are of. The
// levels are nil if no feature has such statistics. Contents that cannot be used are a *dataError.
func (a *Aggregator) finalEncoding(ctx context.Context, p *sweep.Plan, h *holdout) (*dataset.Encoding, *dataset.Levels,
	error) {
	e, file := h.manifest.FinalEncoding()
	// The tables' levels are numbered one table after the other, so that where the last one ends is the number of all.
	if len(e.Tables) == 0 || e.Tables[len(e.Tables)-1].First+e.Tables[len(e.Tables)-1].Levels == 0 {
		return e, nil, nil
	}
	data, err := a.readFile(ctx, sweep.DatasetDir(p.Dataset.Name, p.Dataset.Version), h.manifest, file, maxLevels)
	if err != nil {
		return nil, nil, err
	}
	levels, err := dataset.ReadLevels(data, e.Tables)
	if err != nil {
		return nil, nil, &dataError{fmt.Errorf("dataset %s: %w", file, err)}
	}
	return e, levels, nil
}

// compareWithWinner returns an error if the final model disagrees with the winner on the test rows, by the bounds
// above. It compares the scores that the trainer computed from bins, in which ids have their statistics of train
// alone. Of a calibrated model, agreeRaw then compares predictions for raw values, with the statistics over all rows
// that the model is going to use. It sets the report's Correlation and, of a calibrated model, Ratio.
func (f *final) compareWithWinner(w *winner, h *holdout, report *sweep.FinalModel) error {
	// The correlation of raw scores.
	fresh, old, weight := f.testRaw, w.testRaw, h.test.Weight
	ranks := gbt.Ranks(w.trees.Objective)
	if ranks { // only differences within a group mean something
		fresh, old = withinGroups(fresh, h.test.Group), withinGroups(old, h.test.Group)
	}
	if n := w.trees.Outputs(); n > 1 { // a row has a score for each class
		fresh, old, weight = keepLearnt(n, fresh, old, weight)
	}
	report.Correlation = correlation(fresh, old, weight)

	// The loss, by a metric that fits the objective. A winner that is worse than a constant need not be agreed with.
	// Conditions here and below are written as !(x >= y), so that NaN is refused, too.
	name := "l2"
	switch {
	case ranks:
		name = "ndcg"
	case w.calibrator != nil:
		name = "log_loss"
	case w.trees.Outputs() > 1:
		name = "multi_logloss"
	}
	own, judged := f.predictions(f.testRaw), w.predictions(w.testRaw)
	if !(report.Correlation >= finalCorrelation) && !losesToBaseRate(h, name, w.trees.Outputs(), judged) {
		return fmt.Errorf("the correlation of their scores on test is %.3g (at least %v is expected)",
			report.Correlation, finalCorrelation)
	}
	if err := noWorse(h, name, own, judged, "test, which it was trained on,"); err != nil {
		return err
	}
	if w.calibrator == nil {
		return nil
	}

	// The sums of probabilities.
	sum, want := 0.0, 0.0
	for i := range own {
		sum, want = sum+own[i], want+judged[i]
	}
	report.Ratio = sum / want
	if !(report.Ratio >= 1/finalRatio && report.Ratio <= finalRatio) {
		return fmt.Errorf("its predictions for test rows add up to %.3g times the winner's, where %.2g to %.3g is "+
			"expected", report.Ratio, 1/finalRatio, finalRatio)
	}
	return f.agreeRaw(w, h, name)
}

// keepLearnt keeps the scores of the classes that the old model has learnt, of two models of n classes. A class that
// had no rows in train has the same score in all rows, with which nothing correlates. fresh and old are [rows x n], and
// weight is [rows] or nil. The results have the rows of one class after those of another, and a weight for each score.
func keepLearnt(n int, fresh, old []float64, weight []float32) (f, o []float64, w []float32) {
	for k := range n {
		from := len(o)
		for i := k; i < len(old); i += n {
			f, o = append(f, fresh[i]), append(o, old[i])
		}
		if constant(o[from:], weight) {
			f, o = f[:from], o[:from]
		} else if weight != nil {
			w = append(w, weight...)
		}
	}
	return f, o, w
}

// losesToBaseRate reports whether the winner's predictions, judged, are no better on test than one constant prediction,
// by the metric called name. Then test is so unlike train that nobody has to agree with them. The constant is the mean
// label of the test rows or, of several classes, the classes' shares there. It is false if either value is not defined.
// outputs is the number of classes, or 1.
func losesToBaseRate(h *holdout, name string, outputs int, judged []float64) bool {
	in := input(&h.test, judged)
	alone, known := metric.OfOne(in, name)[name]
	if outputs > 1 {
		alone, known = metric.OfConstant(name, in.Shares(outputs))
	}
	value, ok := evaluate(in, name)[name]
	m, err := metric.Lookup(name)
	if err != nil || !known || !ok {
		return false
	}
	if m.Maximize {
		return value <= alone
	}
	return value >= alone
}

// fitLevel gives the final model the winner's calibrator with a level of its own (calibrate.Calibrator.Level), if
// rows are split by time. The winner's calibrator also corrects for the base rate of calib, which differs from
// train's. The final model has been trained on the rows of calib, so that it would be corrected twice (docs/LAB.md).
// The level is fitted to the rows of calib and test.
func (f *final) fitLevel(w *winner, h *holdout) (err error) {
	if w.calibrator == nil || !h.manifest.ByTime() {
		return nil
	}
	var weight []float32
	if h.calib.Weight != nil { // a dataset has weights in all of its parts or in none
		weight = slices.Concat(h.calib.Weight, h.test.Weight)
	}
	params, err := gbt.ParseParams(f.result.Params)
	if err != nil {
		return err
	}
	f.calibrator, err = w.calibrator.Level(slices.Concat(f.calib, f.testRaw),
		slices.Concat(h.calib.Label, h.test.Label), weight, params.ShiftsLevel())
	return err
}

// agreeRaw returns an error if the final model's loss on the sampled test rows, from their raw values, is more than
// finalLoss times the winner's (noWorse). If no test row is in the sample, there is nothing to compare. It compares
// nothing but losses. The statistics over all rows contain the rows' own labels, which lowers the loss. With rare ids
// they also more than halve the sum of the predictions, which says nothing about other rows.
func (f *final) agreeRaw(w *winner, h *holdout, name string) error {
	if len(h.testRows) == 0 {
		return nil
	}
	s, err := scorer.New(f.trees, f.calibrator, f.encoding, f.levels)
	if err != nil {
		return err
	}
	raw, err := s.Sample(h.sample, 1)
	if err != nil {
		return err
	}

	// The predictions of both for the same rows: those of the part test that are in the sample.
	own, rows := make([]float64, len(h.testRows)), make([]uint32, len(h.testRows))
	for i, at := range h.testRows {
		own[i], rows[i] = raw[at.sample], uint32(at.part)
	}
	sampled, judged := &holdout{test: h.test.Pick(rows)}, w.predictions(dataset.Pick(w.testRaw, rows))
	return noWorse(sampled, name, own, judged, "raw test rows with statistics over all rows")
}

// noWorse returns an error if the final model's metric on test is not defined, or more than finalLoss times worse than
// the winner's, although it has seen these rows and the winner has not. own are the final model's predictions, judged
// the winner's. on names the rows in the error.
func noWorse(h *holdout, name string, own, judged []float64, on string) error {
	var loss [2]float64 // the final model's, and the winner's
	for i, pred := range [][]float64{own, judged} {
		value, ok := measure(h, pred, name)[name]
		if !ok {
			return fmt.Errorf("its %s on %s is not defined", name, on)
		}
		loss[i] = value
	}

	better := loss // of a metric that is maximized, exchanged
	if m, err := metric.Lookup(name); err == nil && m.Maximize {
		better = [2]float64{loss[1], loss[0]}
	}
	if !(better[0] <= finalLoss*better[1]) {
		return fmt.Errorf("its %s on %s is %s, and the winner's %s", name, on, sweep.Score(loss[0], 0),
			sweep.Score(loss[1], 0))
	}
	return nil
}

// withinGroups returns each score's difference from the mean of its row's group. x and group are [rows].
func withinGroups(x []float64, group []uint64) []float64 {
	sum, rows := map[uint64]float64{}, map[uint64]float64{}
	for i, g := range group {
		sum[g], rows[g] = sum[g]+x[i], rows[g]+1
	}
	out := make([]float64, len(x))
	for i, g := range group {
		out[i] = x[i] - sum[g]/rows[g]
	}
	return out
}

// correlation returns the weighted correlation coefficient of x and y. weight may be nil. It is part of the report, so
// every processor has to compute the same bits: the conversions to float64 keep products from being fused with sums.
// Scores that are all the same have no correlation: it is 1 if both are such, and 0 if one is.
func correlation(x, y []float64, weight []float32) float64 {
	switch flat := constant(x, weight); {
	case flat && constant(y, weight):
		return 1
	case flat, constant(y, weight):
		return 0
	}

	n, sx, sy := 0.0, 0.0, 0.0
	weightOf := func(i int) float64 {
		if weight == nil {
			return 1
		}
		return float64(weight[i])
	}
	for i := range x {
		w := weightOf(i)
		n, sx, sy = n+w, sx+float64(w*x[i]), sy+float64(w*y[i])
	}
	xx, yy, xy := 0.0, 0.0, 0.0
	for i := range x {
		w, a, b := weightOf(i), x[i]-sx/n, y[i]-sy/n
		xx, yy, xy = xx+float64(w*a*a), yy+float64(w*b*b), xy+float64(w*a*b)
	}
	if spread := float64(math.Sqrt(xx) * math.Sqrt(yy)); spread > 0 {
		return xy / spread
	}
	return 0 // no row has a weight
}

// constant reports whether all rows with a weight other than 0 have the same value. It is true if there are none.
func constant(x []float64, weight []float32) bool {
	first := -1
	for i, v := range x {
		switch {
		case weight != nil && weight[i] == 0:
		case first < 0:
			first = i
		case v != x[first]:
			return false
		}
	}
	return true
}

// fileNames are what the files of a model that predicts are called.
type fileNames struct{ model, features, levels, calibrator string }

var (
	liveFiles = fileNames{scorer.FileModel, scorer.FileFeatures, scorer.FileLevels, scorer.FileCalibrator}
	// beside those of a final model: later versions are compared with the winner, since the final model has seen the
	// rows of its own night
	judgedFiles = fileNames{scorer.FileJudgedModel, scorer.FileJudgedFeatures, scorer.FileJudgedLevels,
		scorer.FileJudgedCalibrator}
)

// addTo adds the files of model w, under the names n, to those of a version. It returns the encoding and the levels
// that they contain: the parts of e and l that the model uses.
func (n fileNames) addTo(files map[string][]byte, w *winner, e *dataset.Encoding,
	l *dataset.Levels) (*dataset.Encoding, *dataset.Levels, error) {
	encoding, levels := scorer.Compact(w.trees, e, l)
	text, err := json.MarshalIndent(encoding, "", "  ")
	if err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", n.features, err)
	}
	files[n.model], files[n.features] = w.model, append(text, '\n')
	if levels != nil {
		files[n.levels] = levels.Encode()
	}
	if w.calibrator != nil {
		text, err := json.Marshal(w.calibrator)
		if err != nil {
			return nil, nil, fmt.Errorf("write %s: %w", n.calibrator, err)
		}
		files[n.calibrator] = append(text, '\n')
	}
	return encoding, levels, nil
}
