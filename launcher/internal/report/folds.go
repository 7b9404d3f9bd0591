package report

import (
	"fmt"
	"math"

	"coppice/internal/page"
	"coppice/internal/sweep"
)

// configurations returns the configurations of a cross-validated sweep. In a page's charts each appears once, as its
// first trial with the mean as its score: scores of different folds are not comparable, and the refit's is a mean that
// is shown already.
func configurations(trials []page.Trial, b sweep.Board, params *params) []page.Configuration {
	if b.Configurations == nil {
		return nil
	}
	for i := range trials {
		trials[i].Score = math.NaN()
	}

	var out []page.Configuration
	for i, c := range b.Configurations {
		q := page.Configuration{Number: c.Configuration, State: c.State, Reason: c.Reason, Folds: c.Folds, Of: c.Of,
			Trees: c.Trees, Trials: c.Trials,
			Mean: math.NaN(), SE: math.NaN(), Values: params.values(c.Shown())}
		if c.Mean != nil {
			q.Mean = *c.Mean
		}
		if c.SE != nil {
			q.SE = *c.SE
		}
		if c.State == sweep.ConfigurationDone {
			q.Rank = i + 1
			trials[c.Trials[0]].Score = q.Mean
		}

		for f, n := range c.Trials {
			if one := &trials[c.Trials[0]]; trials[n].Ended.After(one.Known) {
				one.Known = trials[n].Ended // the mean takes all folds
			}
			text := fmt.Sprintf("configuration %d, fold %d", c.Configuration, f+1)
			if s := c.Scores[f]; s != nil {
				text += fmt.Sprintf(": %.6g", *s)
			}
			trials[n].Reason = text + "; " + trials[n].Reason
		}
		out = append(out, q)
	}
	return out
}
