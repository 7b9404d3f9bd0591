package search

import (
	"slices"

	"coppice/internal/sweep"
)

// setting is a parameter of boosted trees that the portfolio has a value for.
type setting int

const (
	learningRate setting = iota
	trees
	maxDepth
	leaves
	minWeight
	minRows
	rowShare
	columnShare
	levelShare
	ridge
	lasso
	minGain
)

// settingNames are the names under which a setting is recognized: the trainer's own, and those of XGBoost, which the
// tasks of public benchmarks of searches use.
var settingNames = map[setting][]string{
	learningRate: {"learning_rate", "eta"},
	trees:        {"num_iterations", "nrounds"},
	maxDepth:     {"max_depth"},
	leaves:       {"num_leaves", "max_leaves"},
	minWeight:    {"min_sum_hessian_in_leaf", "min_child_weight"},
	minRows:      {"min_data_in_leaf"},
	rowShare:     {"bagging_fraction", "subsample"},
	columnShare:  {"feature_fraction", "colsample_bytree"},
	levelShare:   {"feature_fraction_bynode", "colsample_bylevel"},
	ridge:        {"lambda_l2", "lambda"},
	lasso:        {"lambda_l1", "alpha"},
	minGain:      {"min_gain_to_split", "gamma"},
}

// usual is the value that the portfolio takes for an unordered parameter that has it as a choice: plain boosting.
const usual = "gbdt"

// portfolio lists configurations that did well on many public tables: first the optimal defaults of Probst, Boulesteix
// and Bischl (2019), then variations of the libraries' defaults and of the advice in their documentation, from shallow
// and hardly regularized to deep and strongly regularized.
var portfolio = []struct {
	name   string
	values map[setting]float64
}{
	{"many deep trees, slowly", map[setting]float64{learningRate: 0.018, trees: 4168, maxDepth: 13, leaves: 255,
		minWeight: 2.06, minRows: 10, rowShare: 0.839, columnShare: 0.752, levelShare: 0.585, ridge: 0.982,
		lasso: 1.113, minGain: 1e-4}},
	{"the libraries' defaults, slower", map[setting]float64{learningRate: 0.1, trees: 400, maxDepth: 6, leaves: 31,
		minWeight: 1, minRows: 20,
		rowShare: 0.9, columnShare: 0.9, levelShare: 0.9, ridge: 1, lasso: 1e-3, minGain: 1e-4}},
	{"deep trees from few columns", map[setting]float64{learningRate: 0.05, trees: 1000, maxDepth: 10, leaves: 127,
		minWeight: 1, minRows: 10,
		rowShare: 0.8, columnShare: 0.5, levelShare: 0.6, ridge: 1, lasso: 1e-3, minGain: 1e-3}},
	{"many shallow trees", map[setting]float64{learningRate: 0.08, trees: 2000, maxDepth: 4, leaves: 15, minWeight: 2,
		minRows: 30, rowShare: 0.8, columnShare: 0.7, levelShare: 0.8, ridge: 1, lasso: 0.01, minGain: 1e-3}},
	{"strongly regularized", map[setting]float64{learningRate: 0.05, trees: 1500, maxDepth: 8, leaves: 63,
		minWeight: 10, minRows: 100,
		rowShare: 0.7, columnShare: 0.5, levelShare: 0.5, ridge: 20, lasso: 1, minGain: 0.1}},
}

// fewestSettings is how many parameters must be recognised for the portfolio to apply: one or two names, such as lambda
// and alpha, may belong to another kind of model.
const fewestSettings = 3

// settingsOf returns the settings by axis, for those axes whose name and ordered values are those of a parameter of
// boosted trees.
func (d *domain) settingsOf() map[int]setting {
	found := map[int]setting{}
	for j := range d.axes {
		for s, names := range settingNames {
			if slices.Contains(names, d.axes[j].name) && d.axes[j].ordered {
				found[j] = s
			}
		}
	}
	return found
}

// portfolioShare is the part of a search's trials, rounded, that the portfolio may have if there are earlier searches.
// These mostly tried what was good then, and cannot tell what would be better elsewhere now. The portfolio's
// configurations are far apart and the same in every search, so that the levels of searches can be compared by them.
const portfolioShare = 0.25

// fromPortfolio proposes the next configuration of the portfolio that has not been tried. A first search goes through
// all of them. A search that knows earlier ones gives them at most portfolioShare of its trials, which are total in
// number. It returns nil if none is left that may be proposed, if the search is past its beginning, or if the
// parameters' names do not suggest boosted trees.
func (a *asker) fromPortfolio(total int) *Suggestion {
	// The portfolio is for the beginning of a search: later it is not looked at again, even if entries are left.
	if a.next >= 3*len(portfolio) {
		return nil
	}

	// Boosted trees have a learning rate or a number of trees, and other parameters that are known.
	known := a.settingsOf()
	boosting := false
	for _, s := range known {
		if s == learningRate || s == trees {
			boosting = true
		}
	}
	if len(known) < fewestSettings || !boosting {
		return nil
	}

	var next *Suggestion
	taken := 0
	for i, entry := range portfolio {
		switch params := a.portfolioEntry(i, entry.values, known); {
		case a.isTried(params):
			taken++
		case next == nil && a.usable(params):
			next = suggest(SourcePortfolio, params, "boosted trees: %s", entry.name)
		}
	}

	// Adding 0.5 rounds the share to a whole number of trials.
	if len(a.history.earlier) > 0 && float64(taken+1) > portfolioShare*float64(total)+0.5 {
		return nil
	}
	return next
}

// portfolioEntry returns configuration i of the portfolio, clamped to the space. values are the entry's, and known are
// the settings by axis. An axis that is no setting gets its middle if it is ordered. Otherwise it gets the usual value
// or, without that, another of its levels in each entry.
func (a *asker) portfolioEntry(i int, values map[setting]float64, known map[int]setting) sweep.Params {
	at := make([]float64, len(a.axes))
	for j := range a.axes {
		axis := &a.axes[j]
		s, recognized := known[j]
		switch {
		case recognized:
			at[j] = axis.nearestPosition(values[s])
		case axis.ordered:
			at[j] = 0.5
		default:
			level := slices.Index(axis.levels, any(usual))
			if level < 0 {
				level = i % len(axis.levels)
			}
			at[j] = (float64(level) + 0.5) / float64(len(axis.levels))
		}
	}
	return a.config(at)
}

// nearestPosition returns the position of the value closest to x on an ordered axis.
func (a *axis) nearestPosition(x float64) float64 {
	if a.levels == nil {
		u, ok := a.positionOf(x)
		if !ok {
			return 0 // below a logarithmic range
		}
		return min(max(u, 0), below1)
	}

	closest := 0
	for l := range a.levels {
		if distance(a.levels[l], x) < distance(a.levels[closest], x) {
			closest = l
		}
	}
	return (float64(closest) + 0.5) / float64(len(a.levels))
}

func distance(level any, x float64) float64 {
	v, _ := level.(float64)
	return max(v-x, x-v)
}
