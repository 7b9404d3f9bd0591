package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// selection adds the checks that the new model is not worse than the champion on tonight's rows, and not worse than
// the latest sound version, which is usually the champion, on rows of earlier nights. Tonight's labels cannot have
// influenced earlier rows. An old champion that newer versions have not replaced would be too low a bar there. If the
// champion cannot score tonight's rows, the earlier ones decide. It reports whether the models could be compared at
// all.
func (d *decision) selection(g sweep.Gate, m metric.Metric, e Evidence) (compared bool) {
	// compare pools nights' rows; not says why they cannot be used, if it is known already.
	c := metric.Confidence{Level: g.Confidence, Seed: e.Seed}
	compare := func(rows []Judged, not string, old func(*Judged) []float64) (pool, string) {
		if not != "" {
			return pool{}, not
		}
		return poolNights(m, c, rows, old)
	}

	// Tonight's rows; earlier nights that neither model has seen, or else the one that the older model was trained on.
	tonight, notTonight := compare([]Judged{e.Tonight}, e.NotTonight, championPredictions)
	away, home := e.divideNights()
	reference, notReference := compare(away, e.NotReference, latestPredictions)
	if len(away) == 0 {
		reference, notReference = compare(home, e.NotReference, latestPredictions)
	}

	// Which of the two gives the decision's numbers.
	decides := tonight
	switch {
	case notTonight == "":
	// The earlier rows stand in when the schema has changed, but not when tonight has no rows: then nothing is new.
	case notReference == "" && len(e.Tonight.New) > 0:
		decides = reference
	default:
		d.refuseComparison(notTonight, notReference)
		return false
	}
	d.Old, d.New, d.Rows = decides.Old, decides.New, decides.rows
	margin := marginOf(g, decides.Old)

	// On tonight's rows the model fails if its whole interval is below the margin. While few earlier nights say how
	// much models usually differ, a weaker sign is enough: it is worse beyond chance, and by most of twice the margin
	// (WorseBy).
	if notTonight == "" {
		worse := tonight.High < -margin
		if len(e.Gains) < fewGains {
			worse = tonight.WorseBy(cmp.Or(g.Margin, 2*margin))
		}
		d.add(checkNotWorse(m, tonight, checkTonight, d.Champion, margin, worse))
		if slices.Equal(e.Tonight.New, e.Tonight.Old) {
			last := &d.Checks[len(d.Checks)-1]
			last.Passed, last.Reason = false,
				fmt.Sprintf("version %d makes the same predictions: there is nothing to promote", d.Champion)
		}
	}

	// On rows of earlier nights it may be worse by as much as models usually differ. The older model's own night,
	// home, is judged by the margin alone, and only if the other nights have not failed the model already.
	switch {
	case notReference == "":
		// As much as models usually differ, unless the gate sets a margin; at least the default margin.
		allowed := cmp.Or(g.Margin, max(margin, e.usualDifference()*math.Abs(decides.Old)))
		worse := reference.WorseBy(allowed)
		if own, not := compare(home, "", latestPredictions); not == "" && (!worse || len(away) == 0) {
			if worse = own.High < -margin; worse {
				reference, allowed = own, margin
			}
		}
		check := checkNotWorse(m, reference, checkReference, e.measure(), allowed, worse)
		if notTonight != "" {
			check.Reason += fmt.Sprintf("; not compared on tonight's test rows: %s", notTonight)
		}
		d.add(check)
	case *g.Reference > 0:
		d.add(sweep.GateCheck{Name: checkReference, Passed: true,
			Reason: "not compared on rows of earlier nights: " + notReference})
	}

	if g.MinGain != nil {
		d.requireGain(*g.MinGain, m, c, e, notTonight, notReference)
	}
	return true
}

// measure returns the version with which the new model is compared on rows of earlier nights: the latest sound one.
func (e *Evidence) measure() int { return cmp.Or(e.Latest, e.Champion) }

// fewGains is the number of earlier gains below which they do not tell by how much models usually differ.
const fewGains = 5

// usualDifference returns by how much models of good nights differ, as a share of the metric's value: five times the
// median of the absolute gains of up to 14 versions before, on rows of earlier nights. A model fails from three
// quarters of it on, which is about two and a half standard deviations of such gains. With fewer than fewGains, it is
// twice the default margin.
func (e *Evidence) usualDifference() float64 {
	if len(e.Gains) < fewGains {
		return 2 * sweep.DefaultMargin
	}
	sizes := slices.Clone(e.Gains[:min(len(e.Gains), 14)]) // those of the newest versions come first
	slices.Sort(sizes)
	return 5 * sizes[len(sizes)/2]
}

// Gains returns the absolute gains of a decision's reference checks, which are on rows of earlier nights, each as a
// share of the old model's metric. A check that compared nothing, or whose old metric is 0, gives none.
func Gains(d *sweep.GateDecision) (out []float64) {
	for _, c := range d.Checks {
		if c.Name == checkReference && c.Old != 0 {
			out = append(out, math.Abs(c.Value/c.Old))
		}
	}
	return out
}

// divideNights divides the earlier nights into home, the night of the older model itself (measure), and away, all
// others. On the home night the older model was trained on rows of the same day and the new one was not. So the new
// model fails there only if it is surely worse by more than the margin.
func (e *Evidence) divideNights() (away, home []Judged) {
	for _, n := range e.Earlier {
		if n.Night == e.measure() {
			home = append(home, n)
		} else {
			away = append(away, n)
		}
	}
	return away, home
}

// championPredictions returns the champion's predictions; nil if there are none.
func championPredictions(r *Judged) []float64 { return r.Old }

// latestPredictions returns the predictions of the latest sound version, which may be the champion.
func latestPredictions(r *Judged) []float64 {
	if r.Last != nil {
		return r.Last
	}
	return r.Old
}

// Worse reports whether the model that made r.New is shown to be worse, by more than the gate's margin, than the one
// that made r.Old, which is version number. why says by how much. It is false if the two cannot be compared.
func Worse(g sweep.Gate, m metric.Metric, r Judged, number int) (worse bool, why string) {
	p, not := poolNights(m, metric.Confidence{Level: g.Confidence}, []Judged{r}, championPredictions)
	margin := marginOf(g, p.Old)
	if not != "" || !p.WorseBy(margin) {
		return false, ""
	}
	return true, checkNotWorse(m, p, checkTonight, number, margin, true).Reason
}

// Doubt says why a decision gives reason to doubt the night's rows: the first check that the model trained on them has
// failed, on rows of earlier nights or by itself. It is empty if there is none.
func Doubt(d *sweep.GateDecision) string {
	for _, c := range d.Checks {
		if !c.Passed && c.Name != checkTonight && c.Name != checkGain {
			return "the model trained on them is " + c.Reason
		}
	}
	return ""
}

// marginOf returns the gate's margin in the metric's units. The default is a share of the older model's value, old.
func marginOf(g sweep.Gate, old float64) float64 {
	return cmp.Or(g.Margin, sweep.DefaultMargin*math.Abs(old))
}

// Better reports whether the model that made r.New is shown to be better than the one that made r.Old, by however
// little. It is false if the two cannot be compared.
func Better(g sweep.Gate, m metric.Metric, r Judged) bool {
	p, not := poolNights(m, metric.Confidence{Level: g.Confidence}, []Judged{r}, championPredictions)
	return not == "" && p.Better(0)
}

// refuseComparison adds the failed check of a version that cannot be compared with the champion. notTonight says why
// not on tonight's rows. notReference says why not on rows of earlier nights; it is empty if they can be compared there
// but may not stand in, since tonight has no rows.
func (d *decision) refuseComparison(notTonight, notReference string) {
	why := "on tonight's test rows, " + notTonight
	switch {
	case notReference == notTonight:
		why = notTonight
	case notReference != "":
		why += "; on rows of earlier nights, " + notReference
	}
	d.add(sweep.GateCheck{Name: checkTonight,
		Reason: fmt.Sprintf("version %d cannot be compared: %s; fix that, or promote by hand", d.Champion, why)})
}

// checkNotWorse returns the check called name that compares the new model with a version, by comparison p. It fails if
// worse, which the caller has decided. margin is only named in the reason.
func checkNotWorse(m metric.Metric, p pool, name string, version int, margin float64, worse bool) sweep.GateCheck {
	check := p.check(name, !worse)
	check.Version = version
	verdict := "not shown to be worse than"
	switch {
	case worse:
		verdict = "worse than"
	case p.Low > 0:
		verdict = "better than"
	case p.Low >= -margin:
		verdict = "no worse than"
	}
	check.Reason = fmt.Sprintf("%s version %d on %s: %s %s against %s, %s", verdict, version, p.describeRows(version),
		m.Name, sweep.Score(p.New, 0), sweep.Score(p.Old, 0), p.interval())
	if margin > 0 {
		check.Reason += ", margin " + sweep.Digits(margin, 2)
	}
	return check
}

// requireGain adds the check that the new model is shown to be better than the champion by more than least, on the rows
// of tonight and of earlier nights together: those of a single night seldom show a small gain. notTonight and
// notReference are empty if the respective rows can be used; of one at least they can. If the champion has predictions
// for none of these, the check fails.
func (d *decision) requireGain(least float64, m metric.Metric, c metric.Confidence, e Evidence,
	notTonight, notReference string) {
	var rows []Judged
	if notTonight == "" {
		rows = append(rows, e.Tonight)
	}
	if notReference == "" {
		rows = append(rows, e.Earlier...)
	}
	p, why := poolNights(m, c, rows, championPredictions)
	if why != "" {
		// Only the latest sound version could be compared, on earlier nights' rows that the champion cannot score or
		// may have been trained on.
		d.add(sweep.GateCheck{Name: checkGain, Reason: fmt.Sprintf("not shown to be better by enough: version %d "+
			"cannot be compared: %s", d.Champion, why)})
		return
	}
	check := p.check(checkGain, p.Better(least))
	verdict := "not shown to be better by enough"
	if check.Passed {
		verdict = "better by enough"
	}
	check.Reason = fmt.Sprintf("%s on %s: %s, required above %s", verdict, p.describeRows(0), p.interval(),
		sweep.Digits(least, 2))
	d.add(check)
}

// check returns a check with the comparison's numbers, without a reason.
func (p *pool) check(name string, passed bool) sweep.GateCheck {
	return sweep.GateCheck{Name: name, Passed: passed, Value: p.Gain, Low: p.Low, High: p.High, Rows: p.rows,
		New: p.New, Old: p.Old}
}

// interval returns the gain and its interval for people.
func (p *pool) interval() string {
	return fmt.Sprintf("gain %s (%s to %s)", sweep.Digits(p.Gain, 2), sweep.Digits(p.Low, 2), sweep.Digits(p.High, 2))
}
