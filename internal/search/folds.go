package search

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"coppice/internal/sweep"
)

// dropLevel is the significance level at which a configuration is dropped after its first folds: the probability with
// which one that is as good as the best is dropped by chance.
const dropLevel = 0.05

// Choose returns the configuration that the refit of a cross-validated sweep trains on all rows: the best one that has
// all of its folds and meets the requirements, as far as those can be checked before. Its Params are those that the
// refit trains: with the folds' number of trees, and without early stopping, for which no rows are left. Its Reason
// says why it was chosen. If there is no such configuration, chosen is nil and none says why.
//
// It is a pure function of the plan and of results that never change, so the answer is the same whichever task asks.
func Choose(p *sweep.Plan, b sweep.Board, require []*Condition) (chosen *sweep.Rated, none string) {
	// The board has the configurations in the order of their means, best first.
	var eligible []sweep.Rated
	var passed string // says why the best of all is not eligible
	for _, c := range b.Configurations {
		if c.State != sweep.ConfigurationDone {
			continue
		}
		if why := findUnmet(&c, require); why == "" {
			eligible = append(eligible, c)
		} else if passed == "" && len(eligible) == 0 {
			passed = fmt.Sprintf("; configuration %d ranked higher and may not win: it %s", c.Configuration, why)
		}
	}
	if len(eligible) == 0 {
		return nil, explainNoChoice(b) + passed
	}

	best := eligible[0]
	best.Reason = fmt.Sprintf("configuration %d has the %s mean %s over %d folds, %s", best.Configuration,
		extreme(p.Maximize), p.Spec.Metric, best.Of, best.ScoreText())
	switch {
	case len(eligible) > 1:
		best.Reason += fmt.Sprintf("; next is configuration %d with %s", eligible[1].Configuration,
			eligible[1].ScoreText())
	case len(b.Configurations) > 1:
		best.Reason += "; it is the only one that may win"
	}
	best.Reason += passed
	best.Params = maps.Clone(best.Params)
	best.Params["num_iterations"], best.Params["early_stopping_round"] = float64(best.Trees), 0.0
	return &best, ""
}

// findUnmet says which requirement a configuration does not meet, or may not; "" if it meets all. The configuration has
// all of its folds, and so a mean. Requirements that name facts of the refit, such as its bytes or its time, are left
// out, since they can only be checked later.
func findUnmet(c *sweep.Rated, require []*Condition) string {
	facts := maps.Clone(c.Metrics)
	facts["score"] = *c.Mean
	for _, name := range []string{"trees", "trees_grown", "best_iteration"} {
		facts[name] = float64(c.Trees)
	}

	for _, q := range require {
		later := slices.ContainsFunc(q.Names(), func(name string) bool {
			_, known := facts[name]
			return !known && slices.Contains(FactNames(), name)
		})
		if later {
			continue
		}
		holds, err := q.Eval(facts)
		if err != nil {
			return fmt.Sprintf("may not meet a requirement: %v", err)
		}
		if !holds {
			return fmt.Sprintf("does not meet the requirement %s: %s", q, valuesOf(q, facts))
		}
	}
	return ""
}

// explainNoChoice says for people that no configuration can win, and how many configurations are in each state.
func explainNoChoice(b sweep.Board) string {
	count := map[string]int{}
	for _, c := range b.Configurations {
		count[c.State]++
	}
	return fmt.Sprintf("no configuration can win: %d have all of their folds, %d were dropped, %d have failed, %d "+
		"have not ended",
		count[sweep.ConfigurationDone], count[sweep.ConfigurationDropped], count[sweep.ConfigurationFailed],
		count[sweep.ConfigurationOpen])
}

// Drop says why the later folds of a configuration are not to be trained; "" if they are. A configuration is dropped if
// one of its first folds has no score, or if it is significantly worse than the best over the first folds. It has to be
// one of b's. The caller has waited until the first folds of all configurations have ended, so the answer does not
// depend on the caller or the time.
func Drop(p *sweep.Plan, b sweep.Board, configuration int) string {
	// Find the configuration, and the best of those that have all their first folds.
	first := p.Folds.First
	var own, best *sweep.Rated
	for i := range b.Configurations {
		c := &b.Configurations[i]
		if c.Configuration == configuration {
			own = c
		}
		if slices.Contains(c.Scores[:first], nil) {
			continue
		}
		if best == nil || isAhead(p, c, best, first) {
			best = c
		}
	}

	for f, score := range own.Scores[:first] {
		if score == nil {
			return fmt.Sprintf("configuration %d has no score in fold %d (trial %d), and a mean over the others "+
				"would not compare", configuration, f+1, own.Trials[f])
		}
	}
	return compareWithBest(p, own, best)
}

// isAhead reports whether x has the better mean over the first folds than y or, on a tie, the lower number. Both have
// scores in all of them.
func isAhead(p *sweep.Plan, x, y *sweep.Rated, first int) bool {
	a, b := meanOf(x.Scores[:first]), meanOf(y.Scores[:first])
	if a == b {
		return x.Configuration < y.Configuration
	}
	return p.Maximize == (a > b)
}

func meanOf(scores []*float64) float64 {
	sum := 0.0
	for _, s := range scores {
		sum += *s
	}
	return sum / float64(len(scores))
}

// compareWithBest says why a configuration is dropped, or "". It compares the configuration, own, with the best one by
// a one-sided paired t-test over the n first folds. Models of different folds share training rows, so their scores are
// correlated. That is corrected by the factor 1/n + rated/trained, instead of 1/n, in the variance of the mean (Nadeau
// and Bengio, 2003). A single fold, or being the best, gives nothing to compare.
func compareWithBest(p *sweep.Plan, own, best *sweep.Rated) string {
	first := p.Folds.First
	n := float64(first)
	if own.Configuration == best.Configuration || first < 2 {
		return ""
	}

	// gaps is by fold: by how much the configuration is worse. Drop has made sure that both have all these scores.
	gaps := make([]float64, first)
	mean, squares := 0.0, 0.0
	for f := range gaps {
		gaps[f] = *own.Scores[f] - *best.Scores[f]
		if p.Maximize {
			gaps[f] = -gaps[f]
		}
		mean += gaps[f] / n
	}
	if !(mean > 0) {
		return ""
	}
	for _, g := range gaps {
		squares += float64((g - mean) * (g - mean))
	}

	// se is the standard error of the mean gap.
	se := math.Sqrt(squares / (n - 1) * (1/n + sharedRows(p, first)))
	chance := 0.0 // of a gap that is the same in every fold
	if se > 0 {
		chance = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Survival(mean / se)
	}
	if chance >= dropLevel {
		return ""
	}
	return fmt.Sprintf("configuration %d is behind configuration %d by %.3g ± %.2g %s over the same %d folds "+
		"(paired t-test, p = %.2g); its other folds are not trained",
		own.Configuration, best.Configuration, mean, se, p.Spec.Metric, first, chance)
}

// sharedRows returns what is added to 1/n in the variance of a mean over the first n folds, because their models share
// training rows. It is the mean ratio of rated to trained rows, counted in folds, which are equally large.
func sharedRows(p *sweep.Plan, n int) float64 {
	share := 0.0
	for _, r := range p.Folds.Rounds[:n] {
		share += float64(len(r.Rated.Folds)) / float64(len(r.Train.Folds)) / float64(n)
	}
	return share
}

// WhyRefit says for people why the refit of a cross-validated sweep wins, or why nothing does. s is what Pick has
// selected.
func WhyRefit(p *sweep.Plan, b sweep.Board, require []*Condition, s Selection) string {
	refit := b.Rows[0].Result // a board with folds has the refit first
	number := len(p.Trials) - 1
	switch {
	case refit == nil:
		return fmt.Sprintf("the refit, trial %d, had not ended, and no other has a model that may win; give the "+
			"sweep a longer limits.sweep", number)
	case refit.Status != sweep.StatusDone:
		return fmt.Sprintf("the refit, trial %d, has ended without a model (%s): %s", number, refit.Status,
			refit.Reason)
	case len(s.Candidates) == 0 && len(s.Rejected) > 0:
		return fmt.Sprintf("the refit, trial %d, may not win: %s", number, s.Rejected[0].Reason)
	}

	chosen, none := Choose(p, b, require)
	if chosen == nil { // then the refit could not have been trained either
		return none
	}
	trains := "trains it on all rows of train and valid"
	if refit.AtLimit {
		return fmt.Sprintf("%s; trial %d %s and %s", chosen.Reason, number, trains, refit.Reason)
	}
	return fmt.Sprintf("%s; trial %d %s, with %d trees", chosen.Reason, number, trains, chosen.Trees)
}
