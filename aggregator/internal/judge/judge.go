// Package judge decides whether a new model may become the champion, the version in production, from predictions alone:
// it reads nothing, and the same evidence gives the same verdict. It has three parts, each of which gives a reason in a
// sentence: selection (is it no worse than the champion, beyond chance), calibration (are its probabilities right) and
// balance (does no column carry the model by itself). Labels that the latest sound version predicts far worse than
// those of earlier nights block the new one before that. A version is sound if nothing was found to be wrong with it.
package judge

import (
	"fmt"
	"slices"
	"strings"

	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// Judged holds predictions of several models on the same rows, those of one night.
type Judged struct {
	Night         int       // the version that keeps the rows; 0 for tonight's
	Label, Weight []float32 // Weight may be nil
	Group         []uint64  // may be nil
	Values        map[string][]float32
	New, Old      []float64 // predictions of the new model and of the champion; Old may be nil
	Last          []float64 // of Evidence.Latest; nil if that is the champion
}

// Share is a column's share of a model's gain.
type Share struct {
	Column string
	Share  float64
}

// Evidence is all that the verdict depends on.
type Evidence struct {
	Binary   bool     // whether predictions are probabilities
	Classes  []string // of which a row has a probability each; nil unless there are several
	Seed     uint64
	Champion int // 0 when there is none
	// Latest is the newest version that nothing was found to be wrong with, if it is not the champion; else 0.
	Latest  int
	Tonight Judged
	// Earlier are rows of earlier nights, with the labels of that night, that none of the models was trained on.
	Earlier []Judged
	Gains   []float64 // on rows of earlier nights, of the versions before, newest first: see Gains

	// Why the two models cannot be compared on these rows; empty if they can.
	NotTonight, NotReference string

	Shares  []Share  // in descending order
	Blocked []string // what is wrong with tonight's data, in sentences
	Copied  string   // why tonight's rows prove nothing about a first version; else empty
	Leak    string   // which column alone ranks the label all but perfectly; empty if none does
}

// input converts the rows to a metric's input.
func (r *Judged) input(pred []float64) metric.Input {
	return metric.Input{Label: r.Label, Weight: r.Weight, Group: r.Group, Pred: pred, Values: r.Values}
}

// Judge decides whether a new version may be promoted, and says why. Data or labels that are known to be wrong block it
// at once, and no other check is made. Otherwise it is compared with the champion by metric m, its probabilities and
// columns are checked, and it passes if all checks do.
func Judge(g sweep.Gate, m metric.Metric, e Evidence) *sweep.GateDecision {
	d := &decision{&sweep.GateDecision{Metric: m.Name, Champion: e.Champion}}
	if len(e.Blocked) > 0 {
		d.Verdict, d.Reason = sweep.VerdictBlocked, "blocked: "+strings.Join(e.Blocked, "; ")
		return d.GateDecision
	}
	if g.Against == sweep.AgainstNone {
		d.pass(g.Promote, "the sweep has no gate")
		return d.GateDecision
	}

	// With wrong labels, neither comparison nor calibration means anything.
	if wrong := WrongLabels(e); len(wrong) > 0 {
		for _, reason := range wrong {
			d.add(sweep.GateCheck{Name: checkLabels, Reason: reason})
		}
		d.Verdict, d.Reason = sweep.VerdictBlocked, "blocked: "+strings.Join(wrong, "; ")
		return d.GateDecision
	}

	// Compared with the champion. A first version needs rows of which it is not a copy.
	compared := true
	switch {
	case e.Champion != 0:
		compared = d.selection(g, m, e)
	case e.NotTonight != "":
		d.add(sweep.GateCheck{Name: checkTonight, Reason: fmt.Sprintf("a first version cannot be judged on tonight's "+
			"test rows: %s; fix that, or promote by hand", e.NotTonight)})
	case e.Copied != "":
		d.add(sweep.GateCheck{Name: checkCopies, Reason: e.Copied})
	}

	// By itself, if it has predicted tonight's rows, and by its columns.
	switch {
	case len(e.Tonight.New) == 0:
	case e.Binary:
		d.calibration(g, e)
	case e.Classes != nil:
		d.checkClassShares(g, e)
	case e.Champion == 0:
		d.checkConstant(m, &e.Tonight)
	}
	d.balance(g, e)
	d.conclude(compared, g.Promote)
	return d.GateDecision
}

// decision is a decision being made.
type decision struct{ *sweep.GateDecision }

// Names of the checks.
const (
	checkLabels      = "labels"
	checkCopies      = "copies"
	checkTonight     = "tonight"
	checkReference   = "reference"
	checkGain        = "gain"
	checkCalibration = "calibration"
	checkECE         = "ece"
	checkEntropy     = "entropy"
	checkConstant    = "constant"
	checkShare       = "share"
)

// add adds a check to the decision.
func (d *decision) add(c sweep.GateCheck) { d.Checks = append(d.Checks, c) }

// conclude sets the verdict and its reason: those of the failed checks or, if all passed, of the comparisons. compared
// says whether the new model could be compared with the champion. promote is the gate's: whether passing is enough. A
// version that fails only because it gains too little is still sound.
func (d *decision) conclude(compared bool, promote string) {
	var refusals, gains []string
	d.Sound = compared
	for _, c := range d.Checks {
		switch {
		case !c.Passed:
			refusals = append(refusals, c.Reason)
			d.Sound = d.Sound && c.Name == checkGain
		case slices.Contains([]string{checkTonight, checkReference, checkGain}, c.Name):
			gains = append(gains, c.Reason)
		}
	}

	switch {
	case !compared:
		d.Verdict, d.Reason = sweep.VerdictNotComparable, strings.Join(refusals, "; ")
	case len(refusals) > 0:
		d.Verdict, d.Reason = sweep.VerdictNotPromoted, strings.Join(refusals, "; ")
	case d.Champion == 0:
		d.pass(promote, "first version of this model")
	default:
		d.pass(promote, strings.Join(gains, "; "))
	}
}

// pass decides that the version passes. It is promoted unless gate.promote, in promote, leaves that to a person.
func (d *decision) pass(promote, reason string) {
	d.Passed, d.Sound, d.Verdict, d.Reason = true, true, sweep.VerdictPromoted, reason
	if promote != sweep.PromoteAuto {
		d.Verdict, d.Promotes = sweep.VerdictNotPromoted, promote
		d.Reason = fmt.Sprintf("it passes, but is not promoted because gate.promote is %s: %s", promote, reason)
	}
}
