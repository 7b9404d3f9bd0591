// Package judge decides whether a model may become the champion, from predictions alone: it reads nothing, and the same
// evidence gives the same verdict. It has three parts, each of which gives a reason in a sentence: selection (is it
// better than the champion, beyond chance), calibration (are its probabilities right) and balance (does no column carry
// the model by itself).
package judge

import (
	"strings"

	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// Judged holds predictions of both models on the same rows.
type Judged struct {
	Label, Weight []float32 // Weight may be nil
	Group         []uint64  // may be nil
	New, Old      []float64 // Old is nil when there is no champion's prediction
	Segment       []string  // each row's segment; nil without segments
}

// Share is a column's share of a model's gain.
type Share struct {
	Column string
	Share  float64
}

// Evidence is all that the verdict depends on.
type Evidence struct {
	Binary    bool // whether predictions are probabilities
	Seed      uint64
	Champion  int    // 0 when there is none
	Tonight   Judged // rows of tonight's test part
	Reference Judged // rows of earlier nights, with the labels of that night
	Nights    []int  // the versions that the reference rows come from

	// Why the two models cannot be compared on these rows; empty if they can.
	NotTonight, NotReference string

	Shares  []Share  // in descending order
	Blocked []string // what is wrong with tonight's data, in sentences
}

// input converts the rows to a metric's input.
func (r *Judged) input(pred []float64) metric.Input {
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

	// With wrong labels, neither comparison nor calibration means anything.
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

// decision is a decision being made.
type decision struct{ *sweep.GateDecision }

// Names of the checks.
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

// conclude summarises the checks in one sentence: if any fails, only the failing ones; otherwise all that passed.
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
		d.Verdict, d.Reason = sweep.VerdictPromoted, "first version of this model"
	case d.Passed:
		d.Verdict, d.Reason = sweep.VerdictPromoted, strings.Join(gains, "; ")
	case !compared:
		d.Verdict, d.Reason = sweep.VerdictNotComparable, strings.Join(refusals, "; ")
	default:
		d.Verdict, d.Reason = sweep.VerdictNotPromoted, strings.Join(refusals, "; ")
	}
}
