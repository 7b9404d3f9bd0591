package judge

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dustin/go-humanize"

	"coppice/internal/metric"
	"coppice/internal/sweep"
)

const (
	// maxECE bounds the calibration error beyond what chance explains, as a share of the base rate.
	maxECE = 0.25
	// draws is how many times labels are drawn to find out what chance explains.
	draws = 20
	// chanceErrors is how many standard errors of the calibration error are put down to chance: 1 % of good models
	// exceed them.
	chanceErrors = 2.33
)

// earlierRatio bounds the sum of predictions over the sum of labels on rows of earlier nights: 3/4 and its inverse,
// rounded up.
var earlierRatio = [2]float64{0.75, 1.3334}

// calibration adds the checks of probabilities: that they add up to the labels, that they are right all over their
// range (the calibration error), and that they beat the base rate. There must be predictions for tonight's rows.
func (d *decision) calibration(g sweep.Gate, e Evidence) {
	t := &e.Tonight
	d.checkRatio(e, "of tonight's test rows", [2]float64(g.Calibration.Ratio), g.Confidence, t, latestPredictions(t))
	if reference := joinNights(e.Earlier); e.Champion != 0 && len(reference.New) > 0 {
		d.checkRatio(e, "rows of earlier nights", earlierRatio, g.Confidence, &reference, reference.Old)
	}
	d.checkCalibrationError(e.Seed, t)
	d.checkBaseRate(g.Confidence, t)
}

// weightedSum adds up predictions, each times the weight of its row. If weight is nil, every row weighs 1.
func weightedSum(predictions []float64, weight []float32) (sum float64) {
	for i, p := range predictions {
		if weight != nil {
			p *= float64(weight[i])
		}
		sum += p
	}
	return sum
}

// checkRatio adds the check that the sum of the new model's predictions, over that of the labels, is not shown to be
// outside bounds. A model that fails passes all the same if its predictions add up to those of the latest sound
// version, old, within the same bounds: then the rate has changed, or these rows are special. rows names them for
// people.
func (d *decision) checkRatio(e Evidence, rows string, bounds [2]float64, confidence float64, r *Judged,
	old []float64) {
	m := mustLookUp("calibration_ratio")
	i, err := m.Interval(r.input(r.New), metric.Confidence{Level: confidence})
	if err != nil {
		return // no positive row: a first version fails checkBaseRate for that, a later one was compared
	}

	check := sweep.GateCheck{Name: checkCalibration, Passed: i.High >= bounds[0] && i.Low <= bounds[1], Value: i.Value,
		Low: i.Low, High: i.High, Rows: len(r.New)}
	// Each end of the interval, and the bound that it has to reach, has enough digits to differ from the other.
	check.Reason = fmt.Sprintf("predicted %s on %s %s (%.4g %% interval: %s to %s; allowed: %s to %s)",
		positives(i.Value), humanize.Comma(int64(len(r.New))), rows, 100*confidence,
		describeDeviation(i.Low, bounds[1]), describeDeviation(i.High, bounds[0]),
		describeDeviation(bounds[0], i.High), describeDeviation(bounds[1], i.Low))

	// With weights, as the ratio itself. Without old predictions it is infinite, and so not within bounds.
	like := weightedSum(r.New, r.Weight) / weightedSum(old, r.Weight)
	if !check.Passed && e.Champion != 0 && old != nil && like >= bounds[0] && like <= bounds[1] {
		check.Passed = true
		check.Reason += fmt.Sprintf(", like version %d", e.measure())
	}
	d.add(check)
}

// describeDeviation says by how much more or fewer were predicted than observed, given the ratio of the two. It has
// enough digits to differ from the ratio other, which stands beside it in a sentence.
func describeDeviation(ratio, other float64) string {
	switch {
	case math.Abs(ratio-1) < 0.0005:
		return "as many"
	case ratio < 1:
		text, _ := sweep.PercentBeside(1-ratio, 1-other)
		return text + " fewer"
	}
	text, _ := sweep.PercentBeside(ratio-1, other-1)
	return text + " more"
}

// positives returns describeDeviation as part of a sentence about positive labels.
func positives(ratio float64) string {
	if d := describeDeviation(ratio, 1); d != "as many" {
		return d + " positives than observed"
	}
	return "as many positives as observed"
}

// checkCalibrationError adds the check that the calibration error (ECE) is not larger than chance explains by more than
// maxECE of the base rate. What chance explains is the error of predictions that are right: labels are drawn by them,
// several times. A model that fails passes all the same if the latest sound version's error is as large, within chance.
// It adds nothing if the error is not defined or no label is positive, of which checkBaseRate tells.
func (d *decision) checkCalibrationError(seed uint64, r *Judged) {
	m, in := mustLookUp("ece"), r.input(r.New)
	value, err := m.Eval(in)
	if err != nil {
		return
	}

	// The mean error over the draws, and the mean of its square.
	chance, squares := 0.0, 0.0
	drawn := in
	drawn.Label = make([]float32, len(in.Label))
	random := rand.New(rand.NewPCG(seed, draws)) // draws also serves as the number of the stream
	for range draws {
		for i, p := range in.Pred {
			drawn.Label[i] = 0
			if random.Float64() < p {
				drawn.Label[i] = 1
			}
		}
		v, err := m.Eval(drawn)
		if err != nil {
			return
		}
		chance, squares = chance+v/draws, squares+v*v/draws
	}

	// The base rate.
	base, weights := 0.0, 0.0
	for i, l := range in.Label {
		w := 1.0
		if in.Weight != nil {
			w = float64(in.Weight[i])
		}
		base += w * float64(l)
		weights += w
	}
	base /= weights
	if base == 0 {
		return
	}

	spread := math.Sqrt(max(0, squares-chance*chance))
	excess := max(value-chance-chanceErrors*spread, 0) / base
	check := sweep.GateCheck{Name: checkECE, Passed: excess <= maxECE, Value: excess, Rows: len(in.Pred)}
	is, limit := sweep.PercentBeside(excess, maxECE)
	check.Reason = fmt.Sprintf("calibration error beyond chance is %s of the base rate on %s test rows (limit %s)", is,
		humanize.Comma(int64(len(in.Pred))), limit)
	if last := latestPredictions(r); !check.Passed && d.Champion != 0 && last != nil {
		in.Pred = last
		if was, err := m.Eval(in); err == nil && value <= was+chanceErrors*spread {
			check.Passed = true
			check.Reason += ", like the version before"
		}
	}
	d.add(check)
}

// checkBaseRate adds the check that the model beats the base rate, by its normalized entropy: below 1. A first version
// needs a value below 1, not an interval: on a table with a weak signal and few rows it could never show more. A later
// version is also compared with the champion, and fails only if its whole interval is at 1 or above. If all labels are
// the same, as in a sample without any of few positives, the base rate has no entropy: see refuseUnjudged.
func (d *decision) checkBaseRate(confidence float64, r *Judged) {
	i, err := mustLookUp("normalized_entropy").Interval(r.input(r.New), metric.Confidence{Level: confidence})
	if err != nil {
		d.refuseUnjudged(checkEntropy, "the base rate", len(r.Label), err)
		return
	}
	check := sweep.GateCheck{Name: checkEntropy, Passed: i.Value < 1 || d.Champion != 0 && i.Low < 1,
		Value: i.Value, Low: i.Low, High: i.High, Rows: len(r.New)}
	check.Reason = fmt.Sprintf("normalized entropy is %.4g on %s test rows (%.4g %% interval: %.4g to %.4g; required: "+
		"below 1)", i.Value, humanize.Comma(int64(len(r.New))), 100*confidence, i.Low, i.High)
	if !check.Passed {
		check.Reason += ": no better than the base rate"
	}
	d.add(check)
}

// refuseUnjudged adds the failed check called name of a first version that cannot be compared with what it has to beat,
// because of err, on so many rows. Without it nothing would judge that version. A later version gets none: it is
// compared with the champion, and fails if that is not possible either.
func (d *decision) refuseUnjudged(name, beat string, rows int, err error) {
	if d.Champion == 0 {
		d.add(sweep.GateCheck{Name: name, Rows: rows, Reason: fmt.Sprintf("a first version has to beat %s, which %s "+
			"test rows cannot show: %v; stage again with a larger sample or other rows, or promote by hand", beat,
			humanize.Comma(int64(rows)), err)})
	}
}

// checkConstant adds the check that a first version of a regression or a ranking scores better by metric m than one
// prediction for all rows does, as checkBaseRate does for probabilities. If the metric is not defined for either, see
// refuseUnjudged. m is best at its highest or lowest value: those that are best at another (Aim) are for probabilities.
func (d *decision) checkConstant(m metric.Metric, r *Judged) {
	in := r.input(r.New)
	value, err := m.Eval(in)
	alone, known := metric.OfOne(in, m.Name)[m.Name]
	if m.Name == "r2" { // which OfOne leaves out: it is 0 by its definition
		alone, known = 0, true
	}
	if err != nil || !known {
		d.refuseUnjudged(checkConstant, "one prediction for all rows", len(in.Label),
			cmp.Or(err, fmt.Errorf("%s is not defined for one prediction", m.Name)))
		return
	}
	check := sweep.GateCheck{Name: checkConstant, Passed: value < alone, Value: value, Rows: len(in.Label)}
	if m.Maximize {
		check.Passed = value > alone
	}
	check.Reason = fmt.Sprintf("%s is %s on %s test rows (required: better than %s, which one prediction for all "+
		"rows scores)", m.Name, sweep.Score(value, 0), humanize.Comma(int64(len(in.Label))), sweep.Score(alone, 0))
	d.add(check)
}

// balance adds the check that no column has more than gate.max_share of the gain of the first trees: such a column
// usually gives away the label. If trees draw their columns at random, some of the first do without that column and
// spread the gain. So a first version also fails if one column alone ranks the label all but perfectly (Evidence.Leak).
func (d *decision) balance(g sweep.Gate, e Evidence) {
	if len(e.Shares) < 2 { // a single column cannot be out of balance
		return
	}
	top := e.Shares[0]
	check := sweep.GateCheck{Name: checkShare, Passed: top.Share <= g.MaxShare, Value: top.Share}
	is, limit := sweep.PercentBeside(top.Share, g.MaxShare)
	check.Reason = fmt.Sprintf("column %.60q has %s of the gain of the first trees (limit %s)", top.Column, is, limit)
	if e.Leak != "" && e.Binary && e.Champion == 0 && g.MaxShare < 1 {
		check.Passed, check.Reason = false, e.Leak+": does it know the label? Drop it, or set gate.max_share to 1"
	} else if !check.Passed {
		check.Reason += ": does it know the label? Drop it, or raise gate.max_share"
	}
	d.add(check)
}

// mustLookUp returns a metric that is known to exist; it panics if it does not.
func mustLookUp(name string) metric.Metric {
	m, err := metric.Lookup(name)
	if err != nil {
		panic(err) // a name above is wrong
	}
	return m
}
