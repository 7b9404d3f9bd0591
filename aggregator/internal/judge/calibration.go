package judge

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coppice/internal/metric"
	"coppice/internal/sweep"
)

const (
	// segmentClicks is the minimum of positive rows that a segment has, or is predicted to have; fewer are not
	// significant.
	segmentClicks = 25
	// maxECE bounds the rows on which the calibration error is measured, since each resample ranks them again.
	maxECE = 200_000
	draws  = 20
)

// calibration requires that probabilities are right: in total, by segment, over their range, and better than the base
// rate.
func (d *decision) calibration(g sweep.Gate, e Evidence) {
	c := g.Calibration
	t := &e.Tonight
	if len(t.New) == 0 {
		return
	}
	d.ratio(checkCalibration, "of tonight's test rows", c.Ratio, g.Confidence, t)
	if reference := joined(e.Earlier); e.Champion != 0 && len(reference.New) > 0 {
		d.ratio(checkCalibration, "rows of earlier nights", c.Reference, g.Confidence, &reference)
		last := &d.Checks[len(d.Checks)-1]
		r := total(reference.New) / total(reference.Old)
		if !last.Passed && r >= c.Reference[0] && r <= c.Reference[1] {
			last.Passed = true // the rate has changed since, as the latest version knows
			last.Reason += fmt.Sprintf(", like version %d", e.measure())
		}
	}
	d.segments(c, g.Confidence, t)
	d.ece(c, e.Seed, t)
	d.entropy(c, g.Confidence, t)
}

func total(predictions []float64) (sum float64) {
	for _, p := range predictions {
		sum += p
	}
	return sum
}

// ratio compares the sum of the predictions with that of the labels.
func (d *decision) ratio(name, rows string, bounds []float64, confidence float64, r *Judged) {
	m := named("calibration_ratio")
	i, err := m.Interval(r.input(r.New), metric.Confidence{Level: confidence})
	if err != nil {
		return // no positive row: left to the comparison and the entropy check
	}

	check := sweep.GateCheck{Name: name, Passed: i.High >= bounds[0] && i.Low <= bounds[1], Value: i.Value, Low: i.Low,
		High: i.High, Rows: len(r.New)}
	check.Reason = fmt.Sprintf("predicted %s on %d %s (%.4g %% interval: %s to %s; allowed: %s to %s)",
		positives(i.Value), len(r.New), rows, 100*confidence, deviation(i.Low), deviation(i.High), deviation(bounds[0]),
		deviation(bounds[1]))
	d.add(check)
}

// deviation describes the ratio of what was predicted to what was observed.
func deviation(ratio float64) string {
	switch percent := 100 * (ratio - 1); {
	case math.Abs(percent) < 0.05:
		return "as many"
	case percent < 0:
		return fmt.Sprintf("%.3g %% fewer", -percent)
	default:
		return fmt.Sprintf("%.3g %% more", percent)
	}
}

// positives is deviation as part of a sentence.
func positives(ratio float64) string {
	if d := deviation(ratio); d != "as many" {
		return d + " positives than observed"
	}
	return "as many positives as observed"
}

// segments applies the same check to every segment with enough rows. The confidence level grows with their number, so
// that all of them together err as rarely as one.
func (d *decision) segments(c *sweep.GateCalibration, confidence float64, r *Judged) {
	if r.Segment == nil {
		return
	}
	type segment struct {
		name                string
		rows                Judged
		positive, predicted float64
	}
	found := map[string]*segment{}
	for i, name := range r.Segment {
		s := found[name]
		if s == nil {
			s = &segment{name: name}
			found[name] = s
		}
		s.rows.Label, s.rows.New = append(s.rows.Label, r.Label[i]), append(s.rows.New, r.New[i])
		if r.Weight != nil {
			s.rows.Weight = append(s.rows.Weight, r.Weight[i])
		}
		s.positive += float64(r.Label[i])
		s.predicted += r.New[i]
	}
	var large []*segment
	for _, s := range found {
		if s.positive >= segmentClicks || s.predicted >= segmentClicks {
			large = append(large, s)
		}
	}
	slices.SortFunc(large, func(a, b *segment) int { return cmp.Compare(a.name, b.name) })

	m := named("calibration_ratio")
	level := 1 - (1-confidence)/float64(max(len(large), 1))
	worst := sweep.GateCheck{Name: checkSegments, Passed: true,
		Reason: fmt.Sprintf("calibrated in every segment that has %d positive rows (%d of %d segments)", segmentClicks,
			len(large), len(found))}
	wrong := 0
	for _, s := range large {
		i, err := m.Interval(s.rows.input(s.rows.New), metric.Confidence{Level: level})
		if err != nil { // no positive row where many were predicted
			i = metric.Interval{Value: math.MaxFloat32, Low: math.MaxFloat32, High: math.MaxFloat32}
		}
		if i.High >= c.Segment[0] && i.Low <= c.Segment[1] {
			continue
		}
		if wrong++; worst.Passed || m.Score(i.Value) > m.Score(worst.Value) {
			worst = sweep.GateCheck{Name: checkSegments, Value: i.Value, Low: i.Low, High: i.High,
				Rows: len(s.rows.New),
				Reason: fmt.Sprintf("segment %.80q: %.4g positives predicted, %.4g observed (allowed: %s to %s)",
					s.name,
					s.predicted, s.positive, deviation(c.Segment[0]), deviation(c.Segment[1]))}
		}
	}
	if wrong > 1 {
		worst.Reason += fmt.Sprintf("; %d of %d segments are outside", wrong, len(large))
	}
	d.add(worst)
}

// ece compares the calibration error with that of perfectly calibrated predictions, whose labels are drawn from them.
func (d *decision) ece(c *sweep.GateCalibration, seed uint64, r *Judged) {
	m, in := named("ece"), thinned(r)
	value, err := m.Eval(in)
	if err != nil {
		return
	}

	base, weights := 0.0, 0.0
	chance := 0.0
	drawn := in
	drawn.Label = make([]float32, len(in.Label))
	random := rand.New(rand.NewPCG(seed, draws))
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
		chance += v / draws
	}
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

	excess := max(value-chance, 0) / base
	check := sweep.GateCheck{Name: checkECE, Passed: excess <= c.ECE, Value: excess, Rows: len(in.Pred)}
	check.Reason = fmt.Sprintf("calibration error beyond chance is %.3g %% of the base rate on %d test rows (limit "+
		"%.3g %%)",
		100*excess, len(in.Pred), 100*c.ECE)
	d.add(check)
}

// thinned returns at most maxECE rows, evenly spread.
func thinned(r *Judged) metric.Input {
	in := r.input(r.New)
	n := len(in.Pred)
	if n <= maxECE {
		return in
	}
	var out metric.Input
	for k := range maxECE {
		i := k * n / maxECE
		out.Label, out.Pred = append(out.Label, in.Label[i]), append(out.Pred, in.Pred[i])
		if in.Weight != nil {
			out.Weight = append(out.Weight, in.Weight[i])
		}
	}

	return out
}

// entropy requires that the model beats the base rate. It tests the value, not its interval: on a table of weak signal
// and few rows a first night could never pass, and every later one is compared with the champion beyond chance anyway.
func (d *decision) entropy(c *sweep.GateCalibration, confidence float64, r *Judged) {
	i, err := named("normalized_entropy").Interval(r.input(r.New), metric.Confidence{Level: confidence})
	if err != nil {
		return
	}
	check := sweep.GateCheck{Name: checkEntropy, Passed: i.Value < c.NormalizedEntropy, Value: i.Value, Low: i.Low,
		High: i.High, Rows: len(r.New)}
	check.Reason = fmt.Sprintf("normalized entropy is %.4g on %d test rows (%.4g %% interval: %.4g to %.4g; required: "+
		"below %.4g)", i.Value, len(r.New), 100*confidence, i.Low, i.High, c.NormalizedEntropy)
	if !check.Passed && i.Value >= 1 {
		check.Reason += ": always predicting the base rate would be as good"
	}
	d.add(check)
}

// balance requires that no column carries the model by itself: such a column is usually a leak of the label.
func (d *decision) balance(g sweep.Gate, shares []Share) {
	if len(shares) < 2 { // a single column cannot be out of balance
		return
	}
	top := shares[0]
	check := sweep.GateCheck{Name: checkShare, Passed: top.Share <= g.MaxShare, Value: top.Share}
	check.Reason = fmt.Sprintf("column %.60q has %.3g %% of the gain of the first trees (limit %.3g %%)", top.Column,
		100*top.Share, 100*g.MaxShare)
	if !check.Passed {
		check.Reason += ": does it know the label? Drop it, or raise gate.max_share"
	}
	d.add(check)
}

// named looks up a metric that must exist.
func named(name string) metric.Metric {
	m, err := metric.Lookup(name)
	if err != nil {
		panic(err) // a name above is wrong
	}
	return m
}
