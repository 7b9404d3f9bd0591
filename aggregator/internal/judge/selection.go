package judge

import (
	"fmt"
	"slices"
	"strings"

	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// selection compares on tonight's rows, where the new model has to be better, and on those of earlier nights, where it
// must not be worse: with drift a new model fits old rows somewhat less well, with broken labels far worse. If the
// champion cannot score tonight's rows, the new model has to be better on the earlier ones instead. It reports whether
// the models could be compared at all.
func (d *decision) selection(g sweep.Gate, m metric.Metric, e Evidence) (compared bool) {
	confidence := metric.Confidence{Level: g.Confidence, Seed: e.Seed}

	// On rows where the metric is undefined (labels all alike, for instance) there is no comparison.
	compare := func(r *Judged, not string) (metric.Comparison, string) {
		if not != "" {
			return metric.Comparison{}, not
		}
		if len(r.New) == 0 {
			return metric.Comparison{}, "there are no rows"
		}
		c, err := m.Compare(r.input(r.New), r.Old, confidence)
		if err != nil {
			return c, err.Error()
		}
		return c, ""
	}
	tonight, notTonight := compare(&e.Tonight, e.NotTonight)
	reference, notReference := compare(&e.Reference, e.NotReference)

	if notTonight == "" {
		d.Old, d.New, d.Rows = tonight.Old, tonight.New, len(e.Tonight.New)
		d.add(d.better(g, m, tonight, checkTonight, fmt.Sprintf("%d sampled test rows", d.Rows), &e.Tonight))
		if notReference == "" {
			d.add(d.notWorse(g, m, reference, e))
		} else if *g.Reference.Nights > 0 {
			d.add(sweep.GateCheck{Name: checkReference, Passed: true,
				Reason: "not compared on rows of earlier nights: " + notReference})
		}
		return true
	}

	// The earlier rows stand in when the schema has changed, but not when tonight has no rows: then nothing is new.
	if notReference == "" && len(e.Tonight.New) > 0 {
		d.Old, d.New, d.Rows = reference.Old, reference.New, len(e.Reference.New)
		check := d.better(g, m, reference, checkReference, d.earlier(e), &e.Reference)
		check.Reason += fmt.Sprintf("; not compared with version %d on tonight's test rows: %s", d.Champion, notTonight)
		d.add(check)
		return true
	}

	why := "on tonight's test rows, " + notTonight
	switch {
	case notReference == notTonight:
		why = notTonight
	case notReference != "":
		why += "; on rows of earlier nights, " + notReference
	}
	d.add(sweep.GateCheck{Name: checkTonight,
		Reason: fmt.Sprintf("version %d cannot be compared: %s; fix that, or promote by hand", d.Champion, why)})
	return false
}

// earlier describes the rows of earlier nights.
func (d *decision) earlier(e Evidence) string {
	names := make([]string, len(e.Nights))
	for i, v := range slices.Sorted(slices.Values(e.Nights)) {
		names[i] = fmt.Sprint(v)
	}
	word := "version"
	if len(names) > 1 {
		word = "versions"
	}
	return fmt.Sprintf("%d rows of earlier nights (those of %s %s)", len(e.Reference.New), word, strings.Join(names,
		", "))
}

// better requires a gain above MinGain, or above -Margin, beyond chance.
func (d *decision) better(g sweep.Gate, m metric.Metric, c metric.Comparison, name, rows string,
	r *Judged) sweep.GateCheck {
	required := g.MinGain - g.Margin
	check := sweep.GateCheck{Name: name, Passed: c.Better(required), Value: c.Gain, Low: c.Low, High: c.High,
		Rows: len(r.New), New: c.New, Old: c.Old}

	verdict := "not shown to be better than"
	switch {
	case slices.Equal(r.New, r.Old):
		check.Passed, verdict = false, "from the same predictions as" // nothing to promote, whatever the margin
	case check.Passed && required < 0:
		verdict = "within the gate's margin of"
	case check.Passed:
		verdict = "better than"
	case c.Worse():
		verdict = "worse than"
	case c.Better(0):
		verdict = "better, but by less than required, than"
	}
	check.Reason = fmt.Sprintf("%s %.6g on %s is %s %.6g of version %d (%s, required above %.3g)", m.Name, c.New, rows,
		verdict, c.Old, d.Champion, gain(g, c), required)
	return check
}

// notWorse requires that the new model is not shown to be worse or, with a margin, that it is shown to be no worse than
// the margin.
func (d *decision) notWorse(g sweep.Gate, m metric.Metric, c metric.Comparison, e Evidence) sweep.GateCheck {
	check := sweep.GateCheck{Name: checkReference, Passed: !c.Worse(), Value: c.Gain, Low: c.Low, High: c.High,
		Rows: len(e.Reference.New), New: c.New, Old: c.Old}
	verdict, required := "not worse than", ""
	if margin := g.Reference.Margin; margin != nil {
		check.Passed = c.Better(-*margin)
		required = fmt.Sprintf(", required above %.3g", -*margin)
	}

	if !check.Passed {
		verdict = "worse than"
		if !c.Worse() {
			verdict = "not shown to be as good as the gate demands, against"
		}
	}

	check.Reason = fmt.Sprintf("%s %.6g on %s is %s %.6g of version %d (%s%s)", m.Name, c.New, d.earlier(e), verdict,
		c.Old, d.Champion, gain(g, c), required)
	return check
}

// gain formats a gain with its interval.
func gain(g sweep.Gate, c metric.Comparison) string {
	return fmt.Sprintf("gain %.3g, %.4g %% interval %.3g to %.3g", c.Gain, 100*g.Confidence, c.Low, c.High)
}
