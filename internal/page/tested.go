package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/metric"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// fewest is how many positive and how many negative rows a bin of the reliability chart has at least, unless the whole
// table has fewer: the interval of a share of fewer rows is too wide to say anything.
const fewest = 10

// mergeBins merges neighbouring bins, which are in the order of predictions, until there are at most n of about equal
// weight. If both is true, a bin also goes on until it has at least fewest positive and fewest negative rows. The
// result may have fewer than n bins.
func mergeBins(bins []metric.Bin, n int, both bool) []metric.Bin {
	total := 0.0
	for _, b := range bins {
		total += b.Weight
	}

	var out []metric.Bin
	var sum metric.Bin
	for _, b := range bins {
		sum = sum.Plus(b)
		// A bin is complete with an n-th of the weight. 0.999 allows for rounding in the sums. Effective is how many
		// rows of equal weight these are worth, and Count how many of those are positive; the others are negative.
		few := both && (sum.Count() < fewest || sum.Effective()-sum.Count() < fewest)
		if !few && sum.Weight >= 0.999*total/float64(n) {
			out = append(out, sum)
			sum = metric.Bin{}
		}
	}

	// The rows left at the end are too few for a bin of their own and join the last one, if there is one.
	if n := len(out); sum.Rows > 0 && n > 0 {
		sum, out = out[n-1].Plus(sum), out[:n-1]
	}
	if sum.Rows > 0 {
		out = append(out, sum)
	}
	return out
}

// z of a two-sided interval of 95 %.
const z = 1.959963984540054

// observed returns the weighted mean of a bin's labels, which are 0 or 1, and its 95 % interval. The interval is
// Wilson's for a share; n is the effective number of rows, which is lower than their count if weights differ. The bin
// must not be empty.
func observed(b metric.Bin) (mean, low, high float64) {
	n := b.Effective()
	mean = b.Positive / b.Weight
	middle := (mean + z*z/(2*n)) / (1 + z*z/n)
	reach := z / (1 + z*z/n) * math.Sqrt(max(0, mean*(1-mean))/n+z*z/(4*n*n))
	return mean, max(0, middle-reach), min(1, middle+reach)
}

// binRow is test rows with similar predictions, and what lies above: how many of the rows and of the positives.
type binRow struct {
	Rows                       int
	After, Observed, Low, High float64
	Above, Found               float64 // of all rows and of all positives: these and those predicted higher
}

// Lift is how many times as many positives this and the higher bins hold as so many rows drawn at random would.
func (r binRow) Lift() float64 { return r.Found / r.Above }

// reliability draws the mean label of test rows (observed) over their mean prediction, bin by bin, and returns the
// chart with its numbers, the highest predictions first. moved says that the model was calibrated, so that predictions
// before and after differ and both curves are drawn. Where t is not of calibrated predictions at all (t.Calibrated is
// false), there is one curve of raw predictions without intervals.
func reliability(t *metric.Tested, moved bool) (*plot.Chart, []binRow) {
	c := plot.Plot{Chart: plot.Chart{ID: "reliability", Title: "Reliability", W: plot.Half, H: 330},
		X: plot.Axis{Label: "predicted"}, Y: plot.Axis{Label: "observed"}, Diagonal: true}
	before := plot.Line{Trial: plot.None, Class: "rel r0", Peak: -1, Dots: "dots r0"}
	after := plot.Line{Trial: plot.None, Class: "rel r1", Peak: -1, Dots: "dots r1"}

	// The points of both curves. 15 bins are enough to see a bend, and few enough for the intervals not to overlap.
	var rows []binRow
	// Logarithmic axes spread out rare positives. They need coordinates above 0; a prediction of 0 after calibration
	// may be, as it is drawn at their edge.
	positive := true
	within := 0 // bins whose interval contains the prediction
	bins := mergeBins(t.Bins, 15, t.Calibrated)
	for _, b := range bins {
		r := binRow{Rows: b.Rows, After: b.After / b.Weight}
		r.Observed, r.Low, r.High = observed(b)
		before.X, before.Y = append(before.X, b.Before/b.Weight), append(before.Y, r.Observed)
		after.X, after.Y = append(after.X, r.After), append(after.Y, r.Observed)
		after.Low, after.High = append(after.Low, r.Low), append(after.High, r.High)
		positive = positive && r.Observed > 0 && b.Before > 0
		if r.Low <= r.After && r.After <= r.High {
			within++
		}
		rows = append(rows, r)
	}

	// Which share of all rows, and of all positives, lies in each bin and those above it.
	var above metric.Bin
	for i, b := range slices.Backward(bins) {
		above = above.Plus(b)
		rows[i].Above, rows[i].Found = above.Weight, above.Positive
	}
	for i := range rows {
		rows[i].Above, rows[i].Found = rows[i].Above/above.Weight, rows[i].Found/above.Positive
	}
	slices.Reverse(rows)

	// The legend and the words.
	exact := plot.Key{Class: "diagonal", Label: "exact"}
	if !t.Calibrated {
		before.Class, before.Dots = "rel r1", "dots r1"
		c.Keys = []plot.Key{{Class: "rel r1", Label: "not calibrated"}, exact}
		c.Summary = "Test rows by their prediction: the mean of the label. On the diagonal, predictions are exact."
		c.Lines = []plot.Line{before}
		return c.Draw(), rows
	}
	c.X.Log, c.Y.Log, c.X.Unit, c.Y.Unit = positive, positive, plot.Percent, plot.Percent
	c.Lines, c.Keys = []plot.Line{after}, []plot.Key{{Class: "rel r1", Label: "with 95 % intervals"}, exact}
	if moved {
		c.Lines = []plot.Line{before, after}
		c.Keys = []plot.Key{{Class: "rel r0", Label: "before calibration"},
			{Class: "rel r1", Label: "after, with 95 % intervals"}, exact}
	}
	c.Summary = fmt.Sprintf("%d of %s within noise of the labels (95 %%: by chance one in twenty is not). Each bin is "+
		"test rows with similar predictions: how often the label was positive. On the diagonal, predictions are exact.",
		within, english.Plural(len(bins), "bin", ""))
	return c.Draw(), rows
}

// rival is what the winner is compared with on the same rows.
type rival struct {
	Name string
	*metric.Rival
}

// Word says whether the winner is better.
func (r rival) Word() string {
	switch {
	case r.Low > 0:
		return "better beyond chance"
	case r.High < 0:
		return "worse beyond chance"
	}
	return "within noise"
}

// Rivals returns what the winner was compared with on the same test rows: the runner-up, the trial with default
// parameters, and the version that was live. Comparisons that were not made are left out.
func (w *Winner) Rivals() (all []rival) {
	// Other trials of the sweep. One trial may be both runner-up and default.
	if t := w.Tested; t != nil {
		against := func(what string, r *metric.Rival) {
			if r == nil {
				return
			}
			what = fmt.Sprintf("%s (trial %d)", what, r.Trial)
			if t.Calibrated && !r.Calibrated { // recorded by an earlier build, which compared raw predictions
				what += ", both uncalibrated"
			}
			all = append(all, rival{what, r})
		}
		if t.RunnerUp != nil && t.Default != nil && t.RunnerUp.Trial == t.Default.Trial {
			against("the runner-up and default", t.Default)
		} else {
			against("the runner-up", t.RunnerUp)
			against("the default", t.Default)
		}
	}

	// The version that was live, as the gate compared it.
	if g := w.Gate; g != nil && g.Champion > 0 {
		for _, k := range g.Checks {
			if words, ok := comparisons[k.Name]; ok && k.Low != k.High { // without an interval, nothing was compared
				all = append(all, rival{fmt.Sprintf("version %d%s", cmp.Or(k.Version, g.Champion), words),
					&metric.Rival{Metric: g.Metric, Rows: k.Rows, New: k.New, Old: k.Old, Gain: k.Value, Low: k.Low,
						High: k.High}})
			}
		}
	}

	// Gains are shown as a share of the rival's value, which therefore must not be 0 or unknown.
	return slices.DeleteFunc(all, func(r rival) bool { return r.Old == 0 || math.IsNaN(r.Old) })
}

// comparisons are those checks, and on which rows they compare; with which version says each check of a later build.
var comparisons = map[string]string{"tonight": "", "reference": " on earlier nights"}

// check says what a check of the gate is about, where its name alone does not.
func check(name string) string {
	return cmp.Or(map[string]string{"tonight": "gain over the live version, on tonight's rows",
		"reference": "gain over it on earlier nights", "calibration": "predicted in total, of what was observed",
		"ece": "calibration error that chance does not explain, of the base rate", "entropy": "normalized entropy",
		"constant": "beats one prediction for all rows",
		"share":    "largest share of one column, of the gain of the first trees"}[name], words(name))
}

// interval writes a check's value with its interval as text: "0.8 % (0.5 % to 1.1 %)". A check whose interval has two
// equal ends has none, and only its value is written.
func interval(c sweep.GateCheck) string {
	unit := map[string]plot.Unit{"calibration": plot.Percent, "ece": plot.Percent, "share": plot.Percent}[c.Name]
	say := unit.Format
	if _, gain := comparisons[c.Name]; gain {
		say = func(v float64) string { return sweep.Digits(v, 2) }
	}
	if c.Low == c.High {
		return say(c.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", say(c.Value), say(c.Low), say(c.High))
}
