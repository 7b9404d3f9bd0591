package judge

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// Tonight's labels are not trusted if the champion, which cannot have been influenced by them, predicts them far worse
// than those of earlier nights: they were shuffled, inverted, lost or made up. Nights differ naturally, so the evidence
// must be far beyond chance.
const (
	labelsLevel = 0.999 // confidence of the intervals
	labelsKept  = 0.6   // least remaining share of the champion's ranking quality above chance
	labelsRatio = 1.6   // largest factor by which its calibration ratio may have changed
	fewestRows  = 25    // of a class that is judged; fewer are not significant
)

// WrongLabels says, in sentences, what the latest sound version's predictions show to be wrong with tonight's labels,
// compared with those of earlier nights. It is nil if nothing is, for labels that are neither binary nor classes, and
// if that version's predictions are missing on either.
func WrongLabels(e Evidence) []string {
	reference := joinNights(e.Earlier)
	witness := latestPredictions(&e.Tonight)
	if !e.Binary && e.Classes == nil || e.NotTonight != "" || e.NotReference != "" || witness == nil ||
		reference.Old == nil {
		return nil
	}
	if e.Classes != nil {
		return wrongClasses(e, e.Tonight.input(witness), reference.input(reference.Old))
	}

	var found []string
	for _, look := range []struct {
		name  string
		wrong func(tonight metric.Interval, before float64) string
	}{{"auc", describeRankingLoss}, {"calibration_ratio", describeRatioChange}} {
		m := mustLookUp(look.name)
		tonight, err := m.Interval(e.Tonight.input(witness), metric.Confidence{Level: labelsLevel, Seed: e.Seed})
		// Labels of a single class say nothing. A sample of few positives may have them by chance; a plan refuses a
		// table of which all test rows have them.
		if err != nil {
			continue
		}
		before, err := m.Eval(reference.input(reference.Old))
		if err != nil {
			continue // those of earlier nights, too: nothing to compare with
		}
		if text := look.wrong(tonight, before); text != "" {
			found = append(found, fmt.Sprintf("version %d %s", e.measure(), text))
		}
	}
	return found
}

// describeRankingLoss says that tonight's AUC, an interval, is far below that of earlier nights; empty if it is not.
func describeRankingLoss(tonight metric.Interval, before float64) string {
	if tonight.High >= 0.5+labelsKept*(before-0.5) {
		return ""
	}
	return fmt.Sprintf("ranks tonight's labels with an AUC of %.4f (%.4f to %.4f), and those of earlier nights with "+
		"%.4f: tonight's labels are not like theirs", tonight.Value, tonight.Low, tonight.High, before)
}

// describeRatioChange says that tonight's ratio of predictions to labels, an interval, differs from that of earlier
// nights by a factor of more than labelsRatio. It is empty if it does not, or if tonight's ratio may be near 1.
func describeRatioChange(tonight metric.Interval, before float64) string {
	nearest := max(tonight.Low, min(tonight.High, before)) // the point of the interval closest to the earlier value
	if !(before > 0) || !(nearest > 0) || math.Abs(math.Log(nearest/before)) <= math.Log(labelsRatio) {
		return ""
	}

	// After a change that lasts, the latest version is right tonight, and wrong on nights before the change.
	if right := max(tonight.Low, min(tonight.High, 1)); math.Abs(math.Log(right)) <= math.Log(labelsRatio) {
		return ""
	}
	return fmt.Sprintf("predicts %.3g times tonight's mean label (%.3g to %.3g), and %.3g times that of earlier "+
		"nights: tonight's label rate is not like theirs",
		tonight.Value, tonight.Low, tonight.High, before)
}

// listedClasses is how many classes a reason names.
const listedClasses = 3

// wrongClasses says which classes the latest sound version no longer tells from all others, by the same rule as
// describeRankingLoss. tonight and before are its predictions for tonight's rows and for those of earlier nights.
//
// That alone may also mean that the version has fallen behind in a class, such as one that depends on a column of which
// it has not seen tonight's values. So one of two things must be true, too: tonight's own model does not know the class
// either, or the version finds another class in its rows. How frequent classes are is not judged here: more of one
// product is no wrong label.
func wrongClasses(e Evidence, tonight, before metric.Input) (found []string) {
	// A level at which all classes together err as often as one comparison (Bonferroni).
	c := metric.Confidence{Level: 1 - (1-labelsLevel)/float64(len(e.Classes)), Seed: e.Seed}
	m := mustLookUp("auc")
	for k, name := range e.Classes {
		// Class k against all others, rated by the probability of class k.
		now, then := ofClass(tonight, k, k), ofClass(before, k, k)
		if min(countPositives(now), countPositives(then)) < fewestRows {
			continue
		}
		i, err := m.Interval(now, c)
		old, undefined := m.Eval(then)
		least := 0.5 + labelsKept*(old-0.5)
		if err != nil || undefined != nil || i.High >= least {
			continue
		}
		text := fmt.Sprintf("version %d tells class %.60q from all others with an AUC of %.4f (%.4f to %.4f) tonight, "+
			"and of %.4f on earlier nights", e.measure(), name, i.Value, i.Low, i.High, old)
		if own, err := m.Interval(ofClass(e.Tonight.input(e.Tonight.New), k, k), c); err == nil && own.High < least {
			found = append(found, text+": tonight's labels are not like theirs")
			continue
		}
		// Does the probability of another class find the rows that tonight are labelled k?
		for other, otherName := range e.Classes {
			if a, err := m.Interval(ofClass(tonight, k, other), c); err == nil && a.Low > least {
				found = append(found,
					fmt.Sprintf("%s: tonight's rows of this class look like those of class %.60q", text, otherName))
				break
			}
		}
	}
	if n := len(found) - listedClasses; n > 0 {
		found = append(found[:listedClasses], "the same of "+english.Plural(n, "more class", "more classes"))
	}
	return found
}

// ofClass returns the rows with binary labels: 1 for class k and 0 for all others. The prediction of a row is its
// probability of class by. in has a probability for each class in each row.
func ofClass(in metric.Input, k, by int) metric.Input {
	n := len(in.Pred) / max(1, len(in.Label))
	out := metric.Input{Weight: in.Weight, Label: make([]float32, len(in.Label)), Pred: make([]float64, len(in.Label))}
	for i, l := range in.Label {
		if int(l) == k {
			out.Label[i] = 1
		}
		out.Pred[i] = in.Pred[i*n+by]
	}
	return out
}

// countPositives counts the rows with the label 1; all other labels must be 0.
func countPositives(in metric.Input) (rows int) {
	for _, l := range in.Label {
		rows += int(l)
	}
	return rows
}

// checkClassShares adds the check that a model of several classes has a lower loss than one that always predicts the
// classes' shares. If all rows are of one class, see refuseUnjudged.
func (d *decision) checkClassShares(g sweep.Gate, e Evidence) {
	in := e.Tonight.input(e.Tonight.New)
	i, err := mustLookUp("multi_logloss").Interval(in, metric.Confidence{Level: g.Confidence})
	entropy, known := metric.OfConstant("multi_logloss", in.Shares(len(e.Classes)))
	if err != nil || !known {
		d.refuseUnjudged(checkEntropy, "the classes' shares", len(in.Label),
			cmp.Or(err, errors.New("all rows are of one class")))
		return
	}
	check := sweep.GateCheck{Name: checkEntropy, Passed: i.Value < entropy, Value: i.Value / entropy,
		Low: i.Low / entropy, High: i.High / entropy, Rows: len(in.Label)}
	check.Reason = fmt.Sprintf("multi_logloss is %.4g times that of always predicting the classes' shares on %d test "+
		"rows (%.4g %% interval: %.4g to %.4g; required: below 1)", check.Value, check.Rows, 100*g.Confidence,
		check.Low, check.High)
	d.add(check)
}
