package search

import (
	"fmt"

	"coppice/internal/sweep"
)

// Enough says whether a sweep has found what it was to find, by which of its rules, and why; with an empty rule the
// sweep continues. It is a pure function of the plan and of the sweep's own trials that are done or were stopped at a
// rung, in the order in which they ended.
func Enough(p *sweep.Plan, seen []sweep.Seen) (rule, reason string) {
	if target := p.Spec.Limits.Target; target != nil {
		for _, s := range seen {
			if s.Status == sweep.StatusDone && (*s.Score == *target || ahead(p, *s.Score, *target)) {
				return sweep.RuleTarget, fmt.Sprintf("trial %d has %s %.6g on valid, and limits.target is %.6g",
					s.Trial, p.Spec.Metric, *s.Score, *target)
			}
		}
	}

	patience := p.Spec.Limits.Patience
	if patience == nil {
		return "", ""
	}
	var best *sweep.Seen
	since := 0
	for i, s := range seen {
		if s.Status != sweep.StatusDone || best != nil && !ahead(p, *s.Score, *best.Score) {
			since++
			continue
		}
		best, since = &seen[i], 0
	}
	if best == nil || since < patience.Trials {
		return "", ""
	}
	return sweep.RulePatience,
		fmt.Sprintf("the last %d trials that ended have not improved on the %s %.6g of trial %d by more than 0",
			since, p.Spec.Metric, *best.Score, best.Trial)
}

// ahead reports whether a score is better than another.
func ahead(p *sweep.Plan, score, other float64) bool {
	if p.Maximize {
		return score > other
	}
	return score < other
}

// ReplayEnough repeats a recorded decision, from what it has seen. It returns nil if the outcome is the same.
func ReplayEnough(p *sweep.Plan, e *sweep.Enough) error {
	rule, reason := Enough(p, e.Seen)
	if rule != e.Rule || reason != e.Reason {
		return fmt.Errorf("search: the sweep was ended by %s (%s); from what had been seen comes %q (%s)", e.Rule,
			e.Reason, rule, reason)
	}
	return nil
}
