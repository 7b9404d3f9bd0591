package metric

import (
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

type definition struct {
	name     string
	maximize bool
	kind     Kind
	rankOnly bool
	takes    takes
	about    string
	aliases  string // names used by LightGBM or scikit-learn, separated by blanks
	eval     func(*Evaluator, Metric) (float64, error)
}

func definitions() []definition {
	return []definition{
		{"auc", true, Binary, true, nothing, "area under the ROC curve",
			"roc_auc auroc roc_auc_score", auc},
		{"average_precision", true, Binary, true, nothing, "area under the precision-recall steps",
			"ap pr_auc auprc aucpr average_precision_score", averagePrecision},

		{"log_loss", false, Binary, false, nothing, "mean negative log likelihood, probabilities clipped to 1e-15",
			"logloss binary_logloss binary binary_crossentropy binary_cross_entropy cross_entropy xentropy " +
				"neg_log_likelihood", logLoss},
		{"normalized_entropy", false, Binary, false, nothing,
			"log loss divided by that of always predicting the base rate",
			"ne normalized_cross_entropy", normalizedEntropy},
		{"relative_information_gain", true, Binary, false, nothing,
			"share of the base rate's entropy that the predictions take away: 1 - normalized_entropy",
			"rig information_gain", informationGain},
		{"calibration_ratio", false, Binary, false, nothing,
			"sum of the predictions divided by that of the labels; ranked by its distance from 1",
			"calibration predicted_over_actual", calibrationRatio},
		{"brier", false, Binary, false, nothing, "mean squared difference of probability and label",
			"brier_score brier_score_loss", brier},
		{"ece", false, Binary, false, bins, "expected calibration error over bins of equal weight (15, or ece@20)",
			"expected_calibration_error calibration_error", calibrationError},

		{"accuracy", true, Binary, false, nothing, "share of rows on the right side of 0.5",
			"acc accuracy_score binary_accuracy", accuracy},
		{"error_rate", false, Binary, false, nothing, "share of rows on the wrong side of 0.5",
			"binary_error error", errorRate},
		{"f1", true, Binary, false, nothing, "harmonic mean of precision and recall at 0.5",
			"f1_score", f1},

		{"precision", true, Binary, true, top, "share of positives among the top rows (precision@1%, precision@100)",
			"p precision_score", precisionAt},
		{"recall", true, Binary, true, top, "share of all positives that are among the top rows (recall@1%)",
			"r recall_score", recallAt},
		{"lift", true, Binary, true, top, "precision of the top rows divided by the base rate (lift@5%)",
			"", liftAt},

		{"ndcg", true, Ranking, true, place, "normalized discounted cumulative gain, mean over groups (ndcg, ndcg@10)",
			"lambdarank rank_xendcg ndcg_score", ndcg},

		{"rmse", false, Regression, false, nothing, "root of the mean squared error",
			"root_mean_squared_error l2_root", rmse},
		{"l2", false, Regression, false, nothing, "mean squared error",
			"mse mean_squared_error regression regression_l2 squared_error", l2},
		{"mae", false, Regression, false, nothing, "mean absolute error",
			"l1 mean_absolute_error regression_l1 absolute_error", mae},
		{"r2", true, Regression, false, nothing, "share of the labels' variance that is explained",
			"r2_score r_squared", r2},
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
	word = fromIdentifier(word)
	base, arg, has := strings.Cut(word, "@")
	base = strings.ReplaceAll(base, "-", "_")

	for _, d := range definitions() {
		if base != d.name && !slices.Contains(strings.Fields(d.aliases), base) {
			continue
		}

		k, suffix, err := d.argument(arg, has)
		if err != nil {
			return Metric{}, err
		}
		m := Metric{Name: d.name + suffix, Maximize: d.maximize, Kind: d.kind, RankOnly: d.rankOnly, About: d.about,
			base: d.name, k: k, eval: d.eval}
		if d.name == "calibration_ratio" {
			m.Aim = 1
		}
		return m, nil
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
