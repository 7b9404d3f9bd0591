package metric

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// takes says which argument may follow the @ of a metric's name.
type takes int

const (
	nothing takes = iota
	top           // required: a number of rows or a share of all rows
	bins          // optional: the number of bins
	place         // optional: the number of places
	number        // optional: another number; definition.usual if it is left out
)

// cutoff is the argument after the @: a count, a share of all rows, or another number. What is not given is 0.
type cutoff struct {
	count  int
	share  float64
	number float64
}

// definition is a metric. To add one, add a row to definitions with its functions, its value for a constant prediction
// to constant.go if it has one, and its description to the table of docs/sweep.md. The lines of code that it takes are
// added to the ceilings of internal/arch.
type definition struct {
	name      string
	kind      Kind
	maximize  bool
	aim       float64 // see Metric
	low, high float64 // the least and the greatest value that it can have
	rankOnly  bool    // see Metric
	takes     takes
	usual     float64 // if it takes a number: the one to use if it is left out
	above     float64 // ... which must be above this
	below     float64 // ... and below this
	aliases   string  // names used by LightGBM or scikit-learn, separated by blanks
	eval      func(*Evaluator, Metric) (float64, error)
	influence influence // how much each row moves the value; nil if only resampling gives an interval

	// group is for eval meanOfGroups: the value of one group, of which the first places count.
	group func(g *groups, places int) float64

	// loss is for metrics that are a mean over rows: it returns the loss of a row with prediction p and label l, which
	// may depend on the argument after the @. labels and preds are the numbers for which it is defined.
	loss          func(argument float64) func(p, l float64) float64
	labels, preds domain
}

var inf = math.Inf(1)

// definitions returns all metrics, in the order in which they are listed.
func definitions() []definition { return slices.Concat(ofProbabilities(), ofClasses(), ofNumbers()) }

// ofProbabilities are the metrics of labels 0 and 1, and of rankings.
func ofProbabilities() []definition {
	return []definition{
		{name: "auc", maximize: true, high: 1, rankOnly: true, eval: auc, influence: delong,
			aliases: "roc_auc auroc roc_auc_score"},
		{name: "average_precision", maximize: true, high: 1, rankOnly: true, eval: averagePrecision,
			aliases: "ap pr_auc auprc aucpr average_precision_score"},

		{name: "log_loss", high: inf, eval: logLoss, influence: byRow(meanRow), loss: plain(logLossOf),
			aliases: "logloss binary_logloss binary binary_crossentropy binary_cross_entropy cross_entropy xentropy " +
				"neg_log_likelihood"},
		{name: "normalized_entropy", high: inf, eval: normalizedEntropy, influence: byRow(normalizedEntropyRow),
			aliases: "ne normalized_cross_entropy"},
		{name: "relative_information_gain", maximize: true, low: -inf, high: 1, eval: informationGain,
			influence: byRow(informationGainRow),
			aliases:   "rig information_gain"},
		{name: "calibration_ratio", aim: 1, high: inf, eval: calibrationRatio, influence: byRow(calibrationRatioRow),
			aliases: "calibration predicted_over_actual"},
		{name: "brier", high: 1, eval: brier, influence: byRow(meanRow), loss: plain(squaredLoss),
			aliases: "brier_score brier_score_loss"},
		{name: "ece", high: 1, takes: bins, eval: calibrationError,
			aliases: "expected_calibration_error calibration_error"},

		{name: "accuracy", maximize: true, high: 1, eval: accuracy, influence: byRow(meanRow),
			loss:    plain(func(p, l float64) float64 { return indicator((p > 0.5) == (l == 1)) }),
			aliases: "acc accuracy_score binary_accuracy"},
		{name: "error_rate", high: 1, eval: errorRate, influence: byRow(meanRow),
			loss:    plain(func(p, l float64) float64 { return indicator((p > 0.5) != (l == 1)) }),
			aliases: "binary_error error"},
		{name: "f1", maximize: true, high: 1, eval: f1, influence: byRow(f1Row),
			aliases: "f1_score"},

		{name: "precision", maximize: true, high: 1, rankOnly: true, takes: top, eval: precisionAt,
			aliases: "p precision_score"},
		{name: "recall", maximize: true, high: 1, rankOnly: true, takes: top, eval: recallAt,
			aliases: "r recall_score"},
		{name: "lift", maximize: true, high: inf, rankOnly: true, takes: top, eval: liftAt},

		{name: "ndcg", kind: Ranking, maximize: true, high: 1, rankOnly: true, takes: place, eval: meanOfGroups,
			influence: byGroup, group: (*groups).ndcg,
			aliases: "lambdarank rank_xendcg xendcg xe_ndcg xe_ndcg_mart xendcg_mart ndcg_score"},
		{name: "map", kind: Ranking, maximize: true, high: 1, rankOnly: true, takes: place, eval: meanOfGroups,
			influence: byGroup, group: (*groups).averagePrecision,
			aliases: "mean_average_precision"},
	}
}

// ofNumbers are the metrics of labels that are numbers.
func ofNumbers() []definition {
	return []definition{
		{name: "rmse", kind: Regression, high: inf, eval: rmse, influence: byRow(rmseRow), loss: plain(squaredLoss),
			aliases: "root_mean_squared_error l2_root"},
		{name: "l2", kind: Regression, high: inf, eval: meanLoss, influence: byRow(meanRow), loss: plain(squaredLoss),
			aliases: "mse mean_squared_error regression regression_l2 squared_error"},
		{name: "mae", kind: Regression, high: inf, eval: meanLoss, influence: byRow(meanRow), loss: plain(absoluteLoss),
			aliases: "l1 mean_absolute_error regression_l1 absolute_error"},
		{name: "r2", kind: Regression, maximize: true, low: -inf, high: 1, eval: r2, influence: byRow(r2Row),
			aliases: "r2_score r_squared"},
		{name: "mape", kind: Regression, high: inf, eval: meanLoss, influence: byRow(meanRow), loss: plain(mapeLoss),
			aliases: "mean_absolute_percentage_error"},
		{name: "quantile", kind: Regression, high: inf, takes: number, usual: 0.9, below: 1, eval: meanLoss,
			influence: byRow(meanRow), loss: pinballLoss,
			aliases: "pinball mean_pinball_loss"},
		{name: "huber", kind: Regression, high: inf, takes: number, usual: 0.9, below: inf, eval: meanLoss,
			influence: byRow(meanRow), loss: huberLoss},
		{name: "poisson", kind: Regression, low: -inf, high: inf, eval: meanLoss, influence: byRow(meanRow),
			loss: plain(poissonLoss), labels: atLeastZero, preds: aboveZero},
		{name: "gamma", kind: Regression, low: -inf, high: inf, eval: meanLoss, influence: byRow(meanRow),
			loss: plain(gammaLoss), labels: aboveZero, preds: aboveZero},
		{name: "gamma_deviance", kind: Regression, high: inf, eval: meanLoss, influence: byRow(meanRow),
			loss: plain(gammaDeviance), labels: aboveZero, preds: aboveZero,
			aliases: "mean_gamma_deviance"},
		{name: "tweedie", kind: Regression, high: inf, takes: number, usual: 1.5, above: 1, below: 2, eval: meanLoss,
			influence: byRow(meanRow), loss: tweedieLoss, labels: atLeastZero, preds: aboveZero},
		{name: "soft_log_loss", kind: Regression, high: inf, eval: meanLoss, influence: byRow(meanRow),
			loss: plain(softLogLoss), labels: fromZeroToOne, preds: fromZeroToOne},
	}
}

// Names returns the canonical names of all metrics but value, those that take an argument with an example of one.
func Names() []string {
	var names []string
	for _, d := range definitions() {
		switch d.takes {
		case top:
			d.name += "@1%"
		case number:
			d.name += fmt.Sprintf("@%v", d.usual)
		}
		names = append(names, d.name)
	}
	return names
}

// Lookup returns the metric with this name. It takes canonical names, the names of LightGBM and scikit-learn, names as
// identifiers (precision_at_1pct), and value(EXPRESSION), the mean of an expression over the rows. Blanks around a name
// do not count, and of all but value(EXPRESSION) neither does upper or lower case, and - is _. An unknown name and an
// argument that does not fit are errors of kind Input. For an unknown name the error suggests a similar one, if there
// is one.
func Lookup(name string) (Metric, error) {
	if text, ok := strings.CutPrefix(strings.TrimSpace(name), "value("); ok && strings.HasSuffix(text, ")") {
		return lookupValue(text[:len(text)-1])
	}
	word := strings.ToLower(strings.TrimSpace(name))
	base, arg, has := strings.Cut(fromIdentifier(word), "@")
	base = strings.ReplaceAll(base, "-", "_")

	for _, d := range definitions() {
		names := append(strings.Fields(d.aliases), d.name)
		switch {
		case slices.Contains(names, word): // the whole word is a name, even if it contains _at_
			arg, has = "", false
		case !slices.Contains(names, base):
			continue
		}

		k, suffix, err := d.argument(arg, has)
		if err != nil {
			return Metric{}, err
		}
		m := Metric{Name: d.name + suffix, Maximize: d.maximize, Aim: d.aim, Kind: d.kind, RankOnly: d.rankOnly,
			k: k, low: d.low, high: d.high, eval: d.eval, influence: d.influence,
			labels: d.labels, preds: d.preds, group: d.group}
		if d.loss != nil {
			m.loss = d.loss(k.number)
		}
		return m, nil
	}
	return Metric{}, unknownMetric(name)
}

// fromIdentifier converts a metric's name as an identifier to its usual form: precision_at_1pct to precision@1%, and
// quantile_at_0_5 to quantile@0.5. A word without _at_ is returned unchanged.
func fromIdentifier(word string) string {
	base, arg, found := strings.Cut(word, "_at_")
	if !found {
		return word
	}
	if number, percent := strings.CutSuffix(arg, "pct"); percent {
		arg = number + "%"
	}
	return base + "@" + strings.ReplaceAll(arg, "_", ".")
}

const (
	defaultBins = 15
	maxBins     = 10_000
)

// argument parses arg, the part of a metric's name after the @; has says whether there is an @. It returns the argument
// and its canonical form, with the @. The form of no argument is empty, and so is that of the usual number of bins.
// Only a metric that takes a number always shows it: quantile is quantile@0.9. It is an error if the argument does not
// fit the metric, or if a metric of the top rows has none.
func (d definition) argument(arg string, has bool) (k cutoff, suffix string, err error) {
	wrong := func(want string) (cutoff, string, error) {
		return cutoff{}, "", problem.New(problem.Input, "metric %s@%.40s: %s", d.name, arg, want)
	}
	switch d.takes {
	case top:
		const such = "@1% and @0.01 are the top hundredth, @100 is a hundred rows"
		if arg == "" {
			return cutoff{}, "", problem.New(problem.Input, "metric %s needs @ and the top rows to look at: %s", d.name,
				such)
		}
		if k, suffix, ok := parseTop(arg); ok {
			return k, suffix, nil
		}
		return wrong("give the top rows as a share or a count: " + such)
	case bins, place:
		low, high := 2, maxBins
		want := "give the number of bins, 2 to 10000"
		if d.takes == place {
			low, high = 1, math.MaxInt32
			want = "give the number of places, 1 or more"
		}

		if !has {
			return cutoff{}, "", nil
		}
		n, err := strconv.Atoi(arg)
		if err != nil || n < low || n > high {
			return wrong(want)
		}
		if d.takes == bins && n == defaultBins { // as without an argument, so that both have one name
			return cutoff{}, "", nil
		}
		return cutoff{count: n}, "@" + strconv.Itoa(n), nil
	case number:
		x := d.usual
		if has {
			var err error
			if x, err = strconv.ParseFloat(arg, 64); err != nil || !(x > d.above && x < d.below) {
				return wrong(fmt.Sprintf("give a number above %v and below %v, such as %v", d.above, d.below, d.usual))
			}
		}
		return cutoff{number: x}, "@" + strconv.FormatFloat(x, 'g', -1, 64), nil
	}

	if has {
		return wrong("this metric takes nothing after an @")
	}
	return cutoff{}, "", nil
}

// parseTop parses the argument of a metric of the top rows: a count such as 100, or a share such as 1% or 0.01. Digits
// alone are a count: 1 is one row, 1.0 all rows. It returns the canonical form with the @. A share is rounded to a
// percentage of at most six digits, so that all its spellings give the same name and the same number. ok is false for
// anything else, for a count of 0 and for a share below 0.0001 % or above 100 %.
func parseTop(arg string) (k cutoff, suffix string, ok bool) {
	if n, err := strconv.ParseUint(arg, 10, 31); err == nil {
		return cutoff{count: int(n)}, "@" + strconv.FormatUint(n, 10), n > 0
	}

	number, isPercent := strings.CutSuffix(arg, "%")
	if strings.Trim(number, "0123456789.") != "" {
		return cutoff{}, "", false
	}
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return cutoff{}, "", false
	}
	if !isPercent {
		percent *= 100
	}

	// To six digits and back, so that 0.01 and 1% are one number.
	text := strconv.FormatFloat(percent, 'g', 6, 64)
	percent, err = strconv.ParseFloat(text, 64)
	if err != nil || !(percent >= 1e-4 && percent <= 100) {
		return cutoff{}, "", false
	}
	text = strconv.FormatFloat(percent, 'f', -1, 64)
	return cutoff{share: percent / 100}, "@" + text + "%", true
}

// unknownMetric returns the error for a name that no metric has. It suggests a similar name among the canonical ones
// or, if there is none, among those of other libraries.
func unknownMetric(name string) error {
	hint := strictyaml.Suggest(name, Names())
	if !strings.Contains(hint, "did you mean") {
		var long []string // aliases of more than three letters: almost any short word is similar to a short one
		for _, d := range definitions() {
			for alias := range strings.FieldsSeq(d.aliases) {
				if len(alias) > 3 {
					long = append(long, alias)
				}
			}
		}

		if other := strictyaml.Suggest(name, long); strings.Contains(other, "did you mean") {
			hint = other
		}
	}
	return problem.New(problem.Input, "unknown metric %.60q%s", name, hint)
}

// judged says which metrics an objective's predictions are judged by.
type judged struct {
	objective string
	kind      Kind
	by        string   // the metric by which trials are compared unless a spec says otherwise
	also      []string // the metrics in every report
}

// byObjective returns the metrics of each objective.
func byObjective() []judged {
	numbers := []string{"rmse", "mae", "r2"}
	orders := []string{"ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map@10"}
	return []judged{
		{"binary", Binary, "log_loss", []string{"log_loss", "auc", "average_precision", "brier", "ece"}},
		{"cross_entropy", Regression, "soft_log_loss", append([]string{"soft_log_loss"}, numbers...)},
		{"regression", Regression, "rmse", numbers},
		{"regression_l1", Regression, "mae", numbers},
		{"huber", Regression, "huber", numbers},
		{"quantile", Regression, "quantile", numbers},
		{"poisson", Regression, "poisson", append([]string{"poisson"}, numbers...)},
		{"gamma", Regression, "gamma_deviance", append([]string{"gamma_deviance"}, numbers...)},
		{"tweedie", Regression, "tweedie", numbers},
		{"lambdarank", Ranking, "ndcg@10", orders},
		{"rank_xendcg", Ranking, "ndcg@10", orders},
		{"multiclass", Classes, "multi_logloss", []string{"multi_logloss", "multi_error"}},
	}
}

// findObjective returns the metrics of an objective. For an unknown objective it returns an error that lists all.
func findObjective(objective string) (judged, error) {
	var names []string
	for _, j := range byObjective() {
		if j.objective == objective {
			return j, nil
		}
		names = append(names, j.objective)
	}
	return judged{}, problem.New(problem.Input, "objective %.40q: use one of %s", objective, strings.Join(names, ", "))
}

// Of returns the kind of an objective's labels and predictions.
func Of(objective string) (Kind, error) {
	j, err := findObjective(objective)
	return j.kind, err
}

// Usual returns the metric by which an objective's predictions are compared unless a spec says otherwise.
func Usual(objective string) (Metric, error) {
	j, err := findObjective(objective)
	if err != nil {
		return Metric{}, err
	}
	return Lookup(j.by)
}

// Standard returns the metrics that every report of an objective has; none for an unknown objective.
func Standard(objective string) []Metric {
	j, _ := findObjective(objective)
	metrics := make([]Metric, len(j.also))
	for i, name := range j.also {
		m, err := Lookup(name)
		if err != nil {
			panic(err) // a bug in the list above
		}
		metrics[i] = m
	}
	return metrics
}

// CheckObjective returns an error if the objective is unknown or the metric does not apply to its predictions. A metric
// applies to objectives of its own kind. Ranking metrics apply to all but several classes, since any single prediction
// orders rows, and expressions (OfRows) to Binary and Regression.
func (m Metric) CheckObjective(objective string) error {
	k, err := Of(objective)
	if err != nil {
		return err
	}

	if m.Kind == k || m.Kind == Ranking && k != Classes || m.Kind == OfRows && (k == Binary || k == Regression) {
		return nil
	}

	var fitting []string
	for _, s := range Standard(objective) {
		fitting = append(fitting, s.Name)
	}
	slices.Sort(fitting)
	return fmt.Errorf("metric %s is for %s, the objective is %s; use one of %s", m.Name, m.Kind, objective,
		strings.Join(fitting, ", "))
}

// Canonical returns the canonical name of a metric. Errors are Lookup's.
func Canonical(name string) (string, error) {
	m, err := Lookup(name)
	return m.Name, err
}
