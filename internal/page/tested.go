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

// fewest is how many rows of either label a drawn bin has at least, unless there are no more: fewer say little.
const fewest = 10

// mergeBins takes neighbouring bins together until there are at most n, of about equal weight; with both, also until
// each has enough positive and enough negative rows to say something.
func mergeBins(bins []metric.Bin, n int, both bool) []metric.Bin {
	total := 0.0
	for _, b := range bins {
		total += b.Weight
	}

	var out []metric.Bin
	var sum metric.Bin
	for _, b := range bins {
		sum = sum.Plus(b)
		// Bins are of equal weight; 0.999 allows for rounding in the sums.
		few := both && (sum.Count() < fewest || sum.Effective()-sum.Count() < fewest)
		if !few && sum.Weight >= 0.999*total/float64(n) {
			out = append(out, sum)
			sum = metric.Bin{}
		}
	}

	// What is left at the end says too little by itself.
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

// observed is the mean of a bin's labels with the interval of a share (Wilson's), of as many rows as those with weights
// are worth.
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

// Lift is how many times more of the positives that is than by lot.
func (r binRow) Lift() float64 { return r.Found / r.Above }

// reliability draws what came over what was predicted, before and after what calibration there was, and gives the
// numbers, the highest predictions first.
func reliability(t *metric.Tested, moved bool) (*plot.Chart, []binRow) {
	c := plot.Plot{Chart: plot.Chart{ID: "reliability", Title: "Reliability", W: plot.Half, H: 330},
		X: plot.Axis{Label: "predicted"}, Y: plot.Axis{Label: "observed"}, Diagonal: true}
	before := plot.Line{Trial: plot.None, Class: "rel r0", Peak: -1, Dots: "dots r0"}
	after := plot.Line{Trial: plot.None, Class: "rel r1", Peak: -1, Dots: "dots r1"}
	var rows []binRow
	var above metric.Bin
	positive, within := true, 0 // a logarithmic axis shows rare positives, but has no 0
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
	for i, b := range slices.Backward(bins) {
		above = above.Plus(b)
		rows[i].Above, rows[i].Found = above.Weight, above.Positive
	}
	for i := range rows {
		rows[i].Above, rows[i].Found = rows[i].Above/above.Weight, rows[i].Found/above.Positive
	}
	slices.Reverse(rows)

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

// Rivals returns what the winner was compared with on the same rows: the runner-up, the default and the champion.
func (w *Winner) Rivals() (all []rival) {
	if t := w.Tested; t != nil {
		against := func(what string, r *metric.Rival) {
			if r == nil {
				return
			}
			what = fmt.Sprintf("%s (trial %d)", what, r.Trial)
			if t.Calibrated && !r.Calibrated { // of an earlier build
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
	if g := w.Gate; g != nil && g.Champion > 0 {
		for _, k := range g.Checks {
			if words, ok := comparisons[k.Name]; ok && k.Low != k.High { // a check without an interval compared nothing
				all = append(all, rival{fmt.Sprintf("version %d%s", cmp.Or(k.Version, g.Champion), words),
					&metric.Rival{Metric: g.Metric, Rows: k.Rows, New: k.New, Old: k.Old, Gain: k.Value, Low: k.Low,
						High: k.High}})
			}
		}
	}
	// Gains are shown as a share of the rival's value.
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

// interval is a check's value with its interval, as text. An interval with two equal ends is none.
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
