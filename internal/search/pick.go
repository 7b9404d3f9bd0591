package search

import (
	"fmt"
	"math"
	"strings"

	"coppice/internal/sweep"
)

// Selection is the order in which trials may win, with reasons.
type Selection struct {
	Candidates []int // numbers of the trials that may win, best first; the first is the winner
	// Trials that may not win although they are done, best first: those that rank before the winner. With several
	// objectives, or without a winner, it has all that may not win.
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

// Pick decides which trial wins: the first on the board that may or, with several objectives, the best by Spec.Pick.
// The winner has to meet all requirements. metric is the name of the score, for the reasons. exclude has trials that
// may not win, and why: a caller that finds that the winner cannot be used adds it and calls Pick again.
func Pick(p *sweep.Plan, b sweep.Board, metric string, require []*Condition, exclude map[int]string) Selection {
	var s Selection
	var eligible []*sweep.Result
	several := len(p.Spec.Goals) > 0
	for _, row := range b.Rows {
		// A fold's model is discarded, and the final training's has seen the rows that select. The refit of a
		// cross-validated sweep may win: it is judged by the configuration's folds.
		if row.Result == nil || row.Result.Status != sweep.StatusDone || row.Trial.Fold > 0 ||
			row.Trial.Refit && p.Folds == nil {
			continue
		}

		why, excluded := exclude[row.Trial.Number]
		if !excluded {
			why = objection(&p.Spec, row.Result, require)
		}
		switch {
		case why == "":
			eligible = append(eligible, row.Result)
		case len(eligible) == 0 || several: // of several objectives the winner may be further down
			s.Rejected = append(s.Rejected, sweep.Rejected{Trial: row.Trial.Number, Reason: why})
		}
	}

	// Say why the winner wins, or why there is none.
	switch passed := len(s.Rejected); {
	case len(eligible) == 0:
		n := b.Tally(p)
		s.Reason = fmt.Sprintf("no trial can win: %d done, of which %d passed over; %d ended without a model; %d have "+
			"not ended", n.Done, passed, n.Ended()-n.Done, n.Waiting)
	case several:
		s.Reason = sortByGoals(&p.Spec, eligible)
		if passed > 0 {
			s.Reason += fmt.Sprintf("; of the others, %d may not win", passed)
		}
	default:
		s.Reason = explainByScore(p, b, metric, eligible)
		if passed > 0 {
			s.Reason += fmt.Sprintf("; %d that ranked higher may not win", passed)
		}
	}
	if len(eligible) > 0 && eligible[0].AtLimit {
		s.Reason += "; it " + eligible[0].Reason
	}
	for _, e := range eligible {
		s.Candidates = append(s.Candidates, e.Trial)
	}
	return s
}

// objection says why a finished trial may not win; "" if it may. A requirement on a value that is not known counts as
// not met.
func objection(spec *sweep.Spec, result *sweep.Result, require []*Condition) string {
	if len(spec.Goals) > 0 && spec.Values(result) == nil {
		return "one of its objectives is not known"
	}
	facts := result.Facts()
	for _, c := range require {
		holds, err := c.Eval(facts)
		if err != nil {
			return fmt.Sprintf("whether it meets a requirement is not known: %v", err)
		}
		if !holds {
			return fmt.Sprintf("does not meet the requirement %s: %s", c, valuesOf(c, facts))
		}
	}
	return ""
}

// valuesOf returns the facts that a condition refers to, as text such as "log_loss is 0.1, trees is 20".
func valuesOf(c *Condition, facts map[string]float64) string {
	var values []string
	for _, name := range c.Names() {
		values = append(values, fmt.Sprintf("%s is %.6g", name, facts[name]))
	}
	return strings.Join(values, ", ")
}

// explainByScore says for people why the trial with the best score won, and by how much it leads the next one that may
// win. eligible has the trials that may, best first, and at least one.
func explainByScore(p *sweep.Plan, b sweep.Board, metric string, eligible []*sweep.Result) string {
	best := eligible[0]
	text := fmt.Sprintf("trial %d has the %s %s on valid, %s; ", best.Trial, extreme(p.Maximize), metric,
		best.ScoreText())
	if best.Trial < len(p.Trials) && p.Trials[best.Trial].Source == SourceDefault && len(eligible) > 1 {
		text += "it is the default configuration, and nothing else that may win is better; "
	}
	switch {
	case len(eligible) > 1:
		return text + compareWith(best, eligible[1])
	case b.Tally(p).Done == 1:
		return text + "it is the only one that is done"
	}
	return text + "it is the only one that may win"
}

func extreme(maximize bool) string {
	if maximize {
		return "highest"
	}
	return "lowest"
}

// compareWith says for people by how much the best trial leads the next one. On a tie it says what decided: fewer
// trees, or else the lower number.
func compareWith(best, next *sweep.Result) string {
	margin := math.Abs(best.Score - next.Score)
	behind := fmt.Sprintf("the runner-up is trial %d with %s, behind by %s", next.Trial, next.ScoreText(),
		sweep.Digits(margin, 2))
	switch {
	case margin > 0 && best.Score != 0:
		return fmt.Sprintf("%s (%s)", behind, sweep.Percent(margin/math.Abs(best.Score)))
	case margin > 0:
		return behind
	case best.Trees != next.Trees:
		return fmt.Sprintf("trial %d has the same, and %d trees instead of %d", next.Trial, next.Trees, best.Trees)
	}
	return fmt.Sprintf("trial %d has the same with as many trees; the lower number wins", next.Trial)
}
