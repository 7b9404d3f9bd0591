package search

import (
	"fmt"
	"math"
	"strings"

	"coppice/internal/sweep"
)

// PickRequest asks for the winner of a sweep.
type PickRequest struct {
	Board    sweep.Board // best first, in the order of sweep.Fold
	Metric   string      // the name of Score, for the reasons
	Maximize bool
	Require  []*Condition // the winner has to meet all of them
	// trials that may not win after all, and why: for example, their model could not be verified
	Exclude map[int]string
	Rule    *PickRule // for several objectives; nil takes the best score
}

// Selection is the order in which trials may win, with reasons.
type Selection struct {
	Candidates []int // numbers of the trials that may win, best first; the first is the winner
	// trials at least as good as the winner that may not win, best first; all if there is no winner
	Rejected []sweep.Rejected
	Reason   string // why the winner wins, or why there is none, for people
}

// Winner returns the trial that wins; ok is false if there is none.
func (s Selection) Winner() (trial int, ok bool) {
	if len(s.Candidates) == 0 {
		return 0, false
	}
	return s.Candidates[0], true
}

// Pick decides which trial wins. It knows nothing but the request: a caller that finds that the winner cannot be used
// excludes it and calls Pick again.
func Pick(r PickRequest) Selection {
	var s Selection
	var eligible []*sweep.Result
	for _, row := range r.Board.Rows {
		// a fold's model is discarded
		if row.Result == nil || row.Result.Status != sweep.StatusDone || row.Trial.Fold > 0 {
			continue
		}

		why := r.objection(row.Result)
		switch {
		case why == "":
			eligible = append(eligible, row.Result)
		case len(eligible) == 0 || r.Rule != nil: // by a rule, the winner may be further down
			s.Rejected = append(s.Rejected, sweep.Rejected{Trial: row.Trial.Number, Reason: why})
		}
	}

	s.Reason = r.reason(eligible, s.Rejected)
	for _, e := range eligible {
		s.Candidates = append(s.Candidates, e.Trial)
	}
	return s
}

// objection says why a finished trial may not win, or "".
func (r PickRequest) objection(result *sweep.Result) string {
	if why, excluded := r.Exclude[result.Trial]; excluded {
		return why
	}

	if r.Rule != nil && r.Rule.Spec.Values(result) == nil {
		return "one of its objectives is not known"
	}
	facts := Facts(result)
	for _, c := range r.Require {
		holds, err := c.Eval(facts)
		if err != nil {
			return fmt.Sprintf("whether it meets a requirement is not known: %v", err)
		}
		if !holds {
			return fmt.Sprintf("does not meet the requirement %s:%s", c, valuesOf(c, facts))
		}
	}
	return ""
}

func valuesOf(c *Condition, facts map[string]float64) string {
	var text strings.Builder
	for _, name := range c.Names() {
		fmt.Fprintf(&text, " %s is %.6g", name, facts[name])
	}
	return text.String()
}

// reason compares the winner with the next trial that could have won. A rule first sorts them.
func (r PickRequest) reason(eligible []*sweep.Result, rejected []sweep.Rejected) string {
	if len(eligible) == 0 {
		return fmt.Sprintf("no trial can win: %d done, of which %d passed over; %d ended without a model; %d have "+
			"not ended",
			r.Board.Done, len(rejected), r.Board.Failed, r.Board.Waiting)
	}

	if r.Rule != nil {
		text := r.Rule.order(eligible)
		if n := len(rejected); n > 0 {
			text += fmt.Sprintf("; of the others, %d may not win", n)
		}
		return text
	}

	best := eligible[0]
	direction := map[bool]string{true: "highest", false: "lowest"}[r.Maximize]
	text := fmt.Sprintf("trial %d has the %s %s on valid, %.6g", best.Trial, direction, r.Metric, best.Score)

	switch {
	case len(eligible) == 1 && r.Board.Done == 1:
		text += "; it is the only one that is done"
	case len(eligible) == 1:
		text += "; it is the only one that may win"
	default:
		text += "; " + compareWith(best, eligible[1])
	}

	if n := len(rejected); n > 0 {
		text += fmt.Sprintf("; %d that ranked higher may not win", n)
	}
	return text
}

func compareWith(best, next *sweep.Result) string {
	margin := math.Abs(best.Score - next.Score)
	behind := fmt.Sprintf("the runner-up is trial %d with %.6g, behind by %.3g", next.Trial, next.Score, margin)
	switch {
	case margin > 0 && best.Score != 0:
		return fmt.Sprintf("%s (%.2g %%)", behind, 100*margin/math.Abs(best.Score))
	case margin > 0:
		return behind
	case best.Trees != next.Trees:
		return fmt.Sprintf("trial %d has the same, and %d trees instead of %d", next.Trial, next.Trees, best.Trees)
	}
	return fmt.Sprintf("trial %d has the same with as many trees; the lower number wins", next.Trial)
}
