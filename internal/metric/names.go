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
	top           // requires a number or a share of rows
	bins          // optional number of bins
	place         // optional number of places
)

// cutoff is the argument after the @: a number, or a share of all rows; both are 0 without one.
type cutoff struct {
	count int
	share float64
}

// definition is all there is to know of a metric: adding one is adding a row to definitions, with its function.
type definition struct {
	name      string
	kind      Kind
	maximize  bool
	aim       float64 // see Metric
	low, high float64 // the values that it can have
	rankOnly  bool
	takes     takes
	about     string // docs/sweep.md has it, too
	aliases   string // names used by LightGBM or scikit-learn, separated by blanks
	eval      func(*Evaluator, Metric) (float64, error)
	influence influence // how much each row moves the value; nil where only resampling gives an interval
}

var inf = math.Inf(1)

func definitions() []definition {
	return []definition{
		{name: "auc", maximize: true, high: 1, rankOnly: true, eval: auc, influence: delong,
			about:   "area under the ROC curve",
			aliases: "roc_auc auroc roc_auc_score"},
		{name: "average_precision", maximize: true, high: 1, rankOnly: true, eval: averagePrecision,
			about:   "area under the precision-recall steps",
			aliases: "ap pr_auc auprc aucpr average_precision_score"},

		{name: "log_loss", high: inf, eval: logLoss, influence: byRow(logLossRow),
			about: "mean negative log likelihood, probabilities clipped to 1e-15",
			aliases: "logloss binary_logloss binary binary_crossentropy binary_cross_entropy cross_entropy xentropy " +
				"neg_log_likelihood"},
		{name: "normalized_entropy", high: inf, eval: normalizedEntropy, influence: byRow(normalizedEntropyRow),
			about:   "log loss divided by that of always predicting the base rate",
			aliases: "ne normalized_cross_entropy"},
		{name: "relative_information_gain", maximize: true, low: -inf, high: 1, eval: informationGain,
			influence: byRow(informationGainRow),
			about:     "share of the base rate's entropy that the predictions take away: 1 - normalized_entropy",
			aliases:   "rig information_gain"},
		{name: "calibration_ratio", aim: 1, high: inf, eval: calibrationRatio, influence: byRow(calibrationRatioRow),
			about:   "sum of the predictions divided by that of the labels; ranked by its distance from 1",
			aliases: "calibration predicted_over_actual"},
		{name: "brier", high: 1, eval: brier, influence: byRow(squaredRow),
			about:   "mean squared difference of probability and label",
			aliases: "brier_score brier_score_loss"},
		{name: "ece", high: 1, takes: bins, eval: calibrationError,
			about:   "expected calibration error over bins of equal weight (15, or ece@20)",
			aliases: "expected_calibration_error calibration_error"},

		{name: "accuracy", maximize: true, high: 1, eval: accuracy, influence: byRow(accuracyRow),
			about:   "share of rows on the right side of 0.5",
			aliases: "acc accuracy_score binary_accuracy"},
		{name: "error_rate", high: 1, eval: errorRate, influence: byRow(errorRateRow),
			about:   "share of rows on the wrong side of 0.5",
			aliases: "binary_error error"},
		{name: "f1", maximize: true, high: 1, eval: f1, influence: byRow(f1Row),
			about:   "harmonic mean of precision and recall at 0.5",
			aliases: "f1_score"},

		{name: "precision", maximize: true, high: 1, rankOnly: true, takes: top, eval: precisionAt,
			about:   "share of positives among the top rows (precision@1%, precision@100)",
			aliases: "p precision_score"},
		{name: "recall", maximize: true, high: 1, rankOnly: true, takes: top, eval: recallAt,
			about:   "share of all positives that are among the top rows (recall@1%)",
			aliases: "r recall_score"},
		{name: "lift", maximize: true, high: inf, rankOnly: true, takes: top, eval: liftAt,
			about: "precision of the top rows divided by the base rate (lift@5%)"},

		{name: "ndcg", kind: Ranking, maximize: true, high: 1, rankOnly: true, takes: place, eval: ndcg,
			influence: byGroup,
			about:     "normalized discounted cumulative gain, mean over groups (ndcg, ndcg@10)",
			aliases:   "lambdarank rank_xendcg ndcg_score"},

		{name: "rmse", kind: Regression, high: inf, eval: rmse, influence: byRow(rmseRow),
			about:   "root of the mean squared error",
			aliases: "root_mean_squared_error l2_root"},
		{name: "l2", kind: Regression, high: inf, eval: l2, influence: byRow(squaredRow),
			about:   "mean squared error",
			aliases: "mse mean_squared_error regression regression_l2 squared_error"},
		{name: "mae", kind: Regression, high: inf, eval: mae, influence: byRow(absoluteRow),
			about:   "mean absolute error",
			aliases: "l1 mean_absolute_error regression_l1 absolute_error"},
		{name: "r2", kind: Regression, maximize: true, low: -inf, high: 1, eval: r2, influence: byRow(r2Row),
			about:   "share of the labels' variance that is explained",
			aliases: "r2_score r_squared"},
	}
}

// Names returns the canonical names; those that need an argument include an example.
func Names() []string {
	var names []string
	for _, d := range definitions() {
		if d.takes == top {
			d.name += "@1%"
		}
		names = append(names, d.name)
	}
	return names
}

// Lookup finds a metric by its name, by its name in LightGBM or scikit-learn, or by its name with only letters, digits
// and underscores.
func Lookup(name string) (Metric, error) {
	word := strings.ToLower(strings.TrimSpace(name))
	base, arg, has := strings.Cut(fromIdentifier(word), "@")
	base = strings.ReplaceAll(base, "-", "_")

	for _, d := range definitions() {
		names := append(strings.Fields(d.aliases), d.name)
		switch {
		case slices.Contains(names, word): // as written: an _at_ in it is no argument
			arg, has = "", false
		case !slices.Contains(names, base):
			continue
		}

		k, suffix, err := d.argument(arg, has)
		if err != nil {
			return Metric{}, err
		}
		return Metric{Name: d.name + suffix, Maximize: d.maximize, Aim: d.aim, Kind: d.kind, RankOnly: d.rankOnly,
			About: d.about, k: k, low: d.low, high: d.high, eval: d.eval, influence: d.influence}, nil
	}
	return Metric{}, unknown(name)
}

// fromIdentifier converts precision_at_1pct to precision@1%: the form of a metric's name with only letters, digits and
// underscores.
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

// argument parses the part after the @, and returns its canonical form.
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
		if d.takes == bins && n == defaultBins {
			return cutoff{}, "", nil
		}
		return cutoff{count: n}, "@" + strconv.Itoa(n), nil
	}

	if has {
		return wrong("this metric takes nothing after an @")
	}
	return cutoff{}, "", nil
}

// parseTop parses 100, 1% or 0.01. A share is stored as a percentage of at most six digits, so that all its spellings
// are one name and one number.
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

// unknown looks for a similar name among the canonical ones, then among those of other libraries.
func unknown(name string) error {
	hint := strictyaml.Suggest(name, Names())
	if !strings.Contains(hint, "did you mean") {
		var long []string
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

// Of returns the kind of metrics that apply to an objective's predictions.
func Of(objective string) (Kind, error) {
	switch objective {
	case "binary":
		return Binary, nil
	case "regression":
		return Regression, nil
	}
	return 0, fmt.Errorf("objective %.40q: use binary or regression", objective)
}

// Standard returns the metrics in every report, for predictions of a kind.
func Standard(k Kind) []Metric {
	names := []string{"rmse", "mae", "r2"}
	if k == Binary {
		names = []string{"log_loss", "auc", "average_precision", "brier", "ece"}
	}

	metrics := make([]Metric, len(names))
	for i, name := range names {
		m, err := Lookup(name)
		if err != nil {
			panic(err) // a bug in the list above
		}
		metrics[i] = m
	}
	return metrics
}

// CheckObjective rejects a metric that does not apply to an objective's predictions.
func (m Metric) CheckObjective(objective string) error {
	k, err := Of(objective)
	if err != nil {
		return err
	}

	if m.Kind == k || m.Kind == Ranking {
		return nil
	}

	var fitting []string
	for _, s := range Standard(k) {
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
