package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/metric"
	"coppice/internal/page/plot"
)

// rival is what the winner is compared with on the same rows.
type rival struct {
	Name string
	metric.Rival
}

// fewest is how many rows of either label a drawn bin has at least, unless there are no more: fewer say little.
const fewest = 10

// merged are the bins, neighbours taken together until each says something; at most n.
func merged(bins []metric.Bin, n int, both bool) []metric.Bin {
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
	if sum.Rows == 0 {
		return out
	}
	if len(out) == 0 {
		return []metric.Bin{sum}
	}
	out[len(out)-1] = out[len(out)-1].Plus(sum)
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

// reliability draws what came over what was predicted, before and after calibration.
func reliability(d *data, t *metric.Tested) *plot.Chart {
	c := plot.Lines{Chart: plot.Chart{ID: "reliability", Title: "Reliability", W: plot.Half, H: 330},
		X: plot.Axis{Label: "predicted"}, Y: plot.Axis{Label: "observed"}, Diagonal: true}
	bins := merged(t.Bins, 15, t.Calibrated)
	before := plot.Line{Trial: plot.None, Class: "rel r0", Peak: -1, Dots: "dots r0"}
	after := plot.Line{Trial: plot.None, Class: "rel r1", Peak: -1, Dots: "dots r1"}
	exact := plot.Key{Class: "diagonal", Label: "exact"}
	ratio := func(v, w float64) float64 { return v / w }
	positive := true // a logarithmic axis shows rare positives, but has no 0
	for _, b := range bins {
		mean, low, high := observed(b)
		before.X, before.Y = append(before.X, ratio(b.Before, b.Weight)), append(before.Y, mean)
		if t.Calibrated {
			after.X, after.Y = append(after.X, ratio(b.After, b.Weight)), append(after.Y, mean)
			after.Low, after.High = append(after.Low, low), append(after.High, high)
		}
		positive = positive && mean > 0 && b.Before > 0
	}
	if t.Calibrated {
		c.X.Log, c.Y.Log = positive, positive
		c.X.Unit, c.Y.Unit = plot.Percent, plot.Percent
		c.Lines = []plot.Line{before, after}
		c.Keys = []plot.Key{{Class: "rel r0", Label: "before calibration"},
			{Class: "rel r1", Label: "after, with 95 % intervals"}, exact}
		c.Summary = reliable(bins) + " Each bin is test rows with similar predictions: how often the label was " +
			"positive. On the diagonal, predictions are exact."
	} else {
		before.Class, before.Dots = "rel r1", "dots r1"
		c.Lines = []plot.Line{before}
		c.Keys = []plot.Key{{Class: "rel r1", Label: "not calibrated"}, exact}
		c.Summary = "Test rows in bins by their prediction: the mean of the label. On the diagonal, predictions are " +
			"exact."
	}

	add(d, "r-rows", "rows", plot.Plain, bins, func(b metric.Bin) any { return b.Rows })
	add(d, "r-before", "predicted before", plot.Plain, bins, func(b metric.Bin) any { return b.Before / b.Weight })
	columns := []string{"r-rows", "r-before"}
	if t.Calibrated {
		add(d, "r-after", "predicted after", plot.Plain, bins, func(b metric.Bin) any { return b.After / b.Weight })
		columns = append(columns, "r-after")
	}
	add(d, "r-observed", "observed", plot.Plain, bins, func(b metric.Bin) any { return b.Positive / b.Weight })
	d.table("reliability", c.Title, append(columns, "r-observed")...)
	return c.Draw()
}

// reliable says in words how many bins are where they should be.
func reliable(bins []metric.Bin) string {
	within := 0
	for _, b := range bins {
		if _, low, high := observed(b); low <= b.After/b.Weight && b.After/b.Weight <= high {
			within++
		}
	}
	return fmt.Sprintf("After calibration, %d of %s within noise of the labels (95 %%).", within,
		english.Plural(len(bins), "bin", ""))
}

// gains draws what share of the positive rows is found among the rows that rank highest; its table has the lift, how
// many times more that is than by lot.
func gains(d *data, t *metric.Tested) *plot.Chart {
	if !t.Calibrated {
		return nil
	}
	var total metric.Bin
	for _, b := range t.Bins {
		total = total.Plus(b)
	}
	if total.Positive <= 0 || total.Weight <= 0 {
		return nil
	}
	type point struct{ rows, found float64 }
	points := []point{{}}
	var sum metric.Bin
	for _, b := range slices.Backward(t.Bins) {
		sum = sum.Plus(b)
		points = append(points, point{sum.Weight / total.Weight, sum.Positive / total.Positive})
	}

	g := plot.Lines{Chart: plot.Chart{ID: "gain", Title: "Gain", W: plot.Half, H: 330},
		X: plot.Axis{Label: "of the rows, best first", Unit: plot.Percent, Low: 0, High: 1},
		Y: plot.Axis{Label: "of the positives", Unit: plot.Percent, Low: 0, High: 1}, Diagonal: true}
	all := plot.Line{Trial: plot.None, Class: "rel r1", Peak: -1}
	for _, p := range points {
		all.X, all.Y = append(all.X, p.rows), append(all.Y, p.found)
	}
	g.Lines = []plot.Line{all}

	// The first cut at or above a tenth of the rows: bins do not end exactly there.
	tenth := slices.IndexFunc(points, func(p point) bool { return p.rows >= 0.1-1e-9 })
	at := points[tenth]
	g.Summary = fmt.Sprintf("The top %s of the rows contain %s of the positives, %s times as many as a random order, "+
		"the diagonal.", plot.Percent.Format(at.rows), plot.Percent.Format(at.found),
		plot.Plain.Format(math.Round(100*at.found/at.rows)/100))
	add(d, "g-rows", "share of the rows", plot.Percent, points, func(p point) any { return p.rows })
	add(d, "g-found", "share of the positive rows", plot.Percent, points, func(p point) any { return p.found })
	add(d, "g-lift", "lift", plot.Plain, points, func(p point) any { return p.found / p.rows })
	d.table("gain", g.Title, "g-rows", "g-found", "g-lift")
	return g.Draw()
}

// rivals draws by how much the winner is better than the runner-up, the default and the champion, each as a share of
// what the other has.
func (w *Winner) rivals(d *data) (drawn *plot.Chart, sure string) {
	var all []rival
	if t := w.Tested; t != nil {
		second, usual := t.RunnerUp, t.Default
		switch {
		case second != nil && usual != nil && second.Trial == usual.Trial:
			all = append(all, rival{fmt.Sprintf("the runner-up and default (trial %d)", usual.Trial), *usual})
		default:
			if second != nil {
				all = append(all, rival{fmt.Sprintf("the runner-up (trial %d)", second.Trial), *second})
			}
			if usual != nil {
				all = append(all, rival{fmt.Sprintf("the default (trial %d)", usual.Trial), *usual})
			}
		}
	}
	if g := w.Gate; g != nil && g.Champion > 0 {
		for _, k := range g.Checks {
			if words, ok := comparisons[k.Name]; ok && k.Low != k.High {
				all = append(all, rival{fmt.Sprintf("version %d%s", cmp.Or(k.Version, g.Champion), words),
					metric.Rival{Metric: g.Metric,
						Rows: k.Rows, New: k.New, Old: k.Old, Gain: k.Value, Low: k.Low, High: k.High}})
			}
		}
	}
	all = slices.DeleteFunc(all, func(r rival) bool { return r.Old == 0 || math.IsNaN(r.Old) })
	if len(all) == 0 {
		return nil, ""
	}

	r := plot.Ranges{Chart: plot.Chart{ID: "rivals", Title: "How certain the gain is", W: plot.Half},
		X: plot.Axis{Label: "gain, as a share of the other's value", Unit: plot.Percent}, Line: 0, Room: 185,
		NoteRoom: 165}
	var better, worse, open []string
	for _, o := range all {
		by := math.Abs(o.Old)
		r.Rows = append(r.Rows, plot.Range{Label: o.Name, Note: plot.Percent.Format(o.Gain/by) + ", " + o.Metric,
			Class: cmp.Or(map[bool]string{true: "good"}[o.Low > 0], map[bool]string{true: "bad"}[o.High < 0], "open"),
			Value: o.Gain / by, Low: o.Low / by, High: o.High / by})
		switch {
		case o.Low > 0:
			better = append(better, o.Name)
		case o.High < 0:
			worse = append(worse, o.Name)
		default:
			open = append(open, o.Name)
		}
	}
	var is []string
	for _, of := range []struct {
		words string
		names []string
	}{{"better beyond chance than ", better}, {"worse beyond chance than ", worse}, {"within noise of ", open}} {
		if len(of.names) > 0 {
			is = append(is, of.words+english.WordSeries(of.names, "and"))
		}
	}
	sure = "On the same test rows it is " + english.WordSeries(is, "and") + "."
	r.Summary = "Right of the line the winner is better. Beyond chance: its whole interval (95 % unless the gate has " +
		"another) is on one side. Within noise: it crosses the line, so the lead may be luck."
	r.Keys = []plot.Key{{Class: "dot key good", Label: "better beyond chance"},
		{Class: "dot key open", Label: "may be chance"}, {Class: "dot key bad", Label: "worse beyond chance"}}
	tabulate(d, "rivals", r.Title, all, []field[rival]{
		{"against", plot.Plain, func(r rival) any { return r.Name }},
		{"metric", plot.Plain, func(r rival) any { return r.Metric }},
		{"rows", plot.Plain, func(r rival) any { return r.Rows }},
		{"gain", plot.Plain, func(r rival) any { return r.Gain }},
		{"lowest", plot.Plain, func(r rival) any { return r.Low }},
		{"highest", plot.Plain, func(r rival) any { return r.High }},
	})
	return r.Draw(), sure
}

// comparisons are those checks, and on which rows they compare; with which version says each check of a later build.
var comparisons = map[string]string{"tonight": "", "reference": " on earlier nights"}

// check says what a check of the gate is about, where its name alone does not.
func check(name string) string {
	return cmp.Or(map[string]string{"tonight": "gain over the live version, on tonight's rows",
		"reference": "gain over it on earlier nights", "ece": "calibration error", "entropy": "normalized entropy",
		"share": "largest share of one feature"}[name], words(name))
}
