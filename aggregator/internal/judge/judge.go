// Package judge decides whether a model may become the champion, from predictions alone: it reads nothing, and the same evidence
// has the same verdict. Three parts speak, each in a sentence: selection (is it better than the champion, beyond chance), calibration
// (do its probabilities mean what they say) and balance (does no column carry the model by itself).
package judge

import (
	"strings"

	"coppice/metric"
	"coppice/sweep"
)

// Rows are predictions of both models on the same rows.
type Rows struct {
	Label, Weight []float32 // Weight may be nil
	Group         []uint64  // may be nil
	New, Old      []float64 // Old is nil where there is nobody to compare with
	Segment       []string  // of each row, what the segment is called; nil without segments
}

// Share is what part of a model's gain the features of a column carry.
type Share struct {
	Column string
	Share  float64
}

// Evidence is all that the verdict goes by.
type Evidence struct {
	Binary    bool // whether predictions are probabilities
	Seed      uint64
	Champion  int   // 0 when there is none
	Tonight   Rows  // rows of tonight's test part
	Reference Rows  // rows of earlier nights, as they were labelled then
	Nights    []int // the versions that they come from

	// Why the two models cannot be compared on these rows; empty when they can.
	NotTonight, NotReference string

	Shares  []Share  // the largest first
	Blocked []string // what was found wrong with tonight's data, in sentences
}

// input is the rows as metrics take them.
func (r *Rows) input(pred []float64) metric.Input {
	return metric.Input{Label: r.Label, Weight: r.Weight, Group: r.Group, Pred: pred}
}

// Judge decides.
func Judge(g sweep.Gate, m metric.Metric, e Evidence) *sweep.GateDecision {
	d := &decision{&sweep.GateDecision{Metric: m.Name, Champion: e.Champion}}
	if len(e.Blocked) > 0 {
		d.Verdict, d.Reason = sweep.VerdictBlocked, "blocked: "+strings.Join(e.Blocked, "; ")
		return d.GateDecision
	}
	if g.Against == sweep.AgainstNone {
		return &sweep.GateDecision{Passed: true, Reason: "the sweep has no gate", Verdict: sweep.VerdictPromoted}
	}

	// Neither comparison nor calibration means anything by labels that are wrong.
	if wrong := labels(e); len(wrong) > 0 {
		d.Verdict, d.Reason = sweep.VerdictBlocked, "blocked: "+strings.Join(wrong, "; ")
		return d.GateDecision
	}

	compared := true
	if e.Champion != 0 {
		compared = d.selection(g, m, e)
	}
	if e.Binary {
		d.calibration(g, e)
	}
	d.balance(g, e.Shares)
	d.conclude(compared)
	return d.GateDecision
}

// decision is a decision in the making.
type decision struct{ *sweep.GateDecision }

// The checks by name.
const (
	checkTonight     = "tonight"
	checkReference   = "reference"
	checkCalibration = "calibration"
	checkSegments    = "segments"
	checkECE         = "ece"
	checkEntropy     = "entropy"
	checkShare       = "share"
)

func (d *decision) add(c sweep.GateCheck) { d.Checks = append(d.Checks, c) }

// conclude makes one sentence of the checks: what refuses is said alone, what lets pass with what it was let pass by.
func (d *decision) conclude(compared bool) {
	var refusals, gains []string
	for _, c := range d.Checks {
		switch {
		case !c.Passed:
			refusals = append(refusals, c.Reason)
		case c.Name == checkTonight || c.Name == checkReference:
			gains = append(gains, c.Reason)
		}
	}

	d.Passed = len(refusals) == 0
	switch {
	case d.Passed && d.Champion == 0:
		d.Verdict, d.Reason = sweep.VerdictPromoted, "there was no champion"
	case d.Passed:
		d.Verdict, d.Reason = sweep.VerdictPromoted, strings.Join(gains, "; ")
	case !compared:
		d.Verdict, d.Reason = sweep.VerdictNotComparable, strings.Join(refusals, "; ")
	default:
		d.Verdict, d.Reason = sweep.VerdictNotPromoted, strings.Join(refusals, "; ")
	}
}
