package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/metric"
	"coppice/internal/page/plot"
)

// mostClasses are drawn in a confusion matrix, the last of them all others where there are more: further columns would
// be too narrow for their numbers.
const mostClasses = 12

// mostBars is how many classes are drawn one by one; the table has all.
const mostBars = 20

// frequent are the numbers of the n classes with the most rows, in the order of the label.
func frequent(all []metric.Class, n int) []int {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[b].Rows, all[a].Rows) })
	order = order[:min(n, len(order))]
	slices.Sort(order)
	return order
}

// confusion draws as what class the rows of each class were predicted, as shares of these rows. The table has the
// weights themselves.
func confusion(d *data, all []metric.Class) *plot.Chart {
	shown, others := frequent(all, mostClasses), 0
	if len(all) > mostClasses {
		shown = frequent(all, mostClasses-1)
		others = len(all) - len(shown)
	}
	var names []string
	for _, i := range shown {
		names = append(names, plot.Clip(all[i].Name, 24))
	}
	if others > 0 {
		names = append(names, fmt.Sprintf("%d others", others))
	}

	place := func(class int) int {
		if i, ok := slices.BinarySearch(shown, class); ok {
			return i
		}
		return len(names) - 1
	}
	sums, totals := make([][]float64, len(names)), make([]float64, len(names))
	for i := range sums {
		sums[i] = make([]float64, len(names))
	}
	rows, total, right := 0, 0.0, 0.0
	for i, c := range all {
		rows += c.Rows
		right += c.Taken[i]
		for j, w := range c.Taken {
			sums[place(i)][place(j)] += w
			totals[place(i)] += w
			total += w
		}
	}
	if total == 0 {
		return nil
	}

	g := &plot.Chart{ID: "confusion", Title: "Confusion matrix", W: plot.Half,
		Head: append([]string{"true class, % of it predicted as"}, names...)}
	for i, row := range sums {
		cells := []plot.Cell{{Text: names[i]}}
		for j, w := range row {
			c := plot.Cell{Class: "n"}
			if w > 0 {
				kind := map[bool]string{true: "same", false: "other"}[i == j && i < len(shown)]
				c = plot.Cell{Class: fmt.Sprintf("n %s o%d", kind, max(1, int(math.Ceil(5*min(1, w/totals[i]))))),
					Text: percent(w / totals[i])}
			}
			cells = append(cells, c)
		}
		g.Rows = append(g.Rows, cells)
	}
	words, _ := testRows(all)
	g.Summary = fmt.Sprintf("%s of %s %s have the class that is predicted as likeliest.",
		plot.Percent.Format(right/total), humanize.Comma(int64(rows)), words)
	if others > 0 {
		g.Summary += fmt.Sprintf(" The %d classes with the fewest rows are taken together.", others)
	}

	fields := []field[int]{{"true class", plot.Plain, func(i int) any { return names[i] }}}
	for j, name := range names {
		fields = append(fields, field[int]{name, plot.Plain, func(i int) any { return sums[i][j] }})
	}
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	tabulate(d, "confusion", g.Title, order, fields)
	return g
}

// percent is a share as a whole number of hundredths that says 0 and 100 of nothing else.
func percent(share float64) string {
	switch n := math.Round(100 * share); {
	case n < 1:
		return "<1"
	case n == 100 && share < 1:
		return ">99"
	default:
		return strconv.Itoa(int(n))
	}
}

// testRows are those of all classes, in words: some weigh more than others.
func testRows(all []metric.Class) (words string, weighted bool) {
	if slices.ContainsFunc(all, func(c metric.Class) bool { return c.Weight != float64(c.Rows) }) {
		return "test rows, by their weights,", true
	}
	return "test rows", false
}

// recognised is how well a class is told from the others.
type recognised struct {
	metric.Class
	recall, precision float64 // NaN without rows of it, or predicted as it
	observed, mean    float64 // shares of all rows: of the class, and as its predictions say
	confused          string  // the class that its other rows are predicted as most often
	share             float64 // of its rows that are
}

// byClass draws how many of each class's rows are recognised, and how many of those that are predicted as it are of it.
func byClass(d *data, all []metric.Class) *plot.Chart {
	total := 0.0
	predicted := make([]float64, len(all))
	for _, c := range all {
		total += c.Weight
		for j, w := range c.Taken {
			predicted[j] += w
		}
	}
	if total == 0 {
		return nil
	}

	rows := make([]recognised, len(all))
	recall, present, never := 0.0, 0, 0
	for i, c := range all {
		r := recognised{Class: c, recall: c.Taken[i] / c.Weight, precision: c.Taken[i] / predicted[i],
			observed: c.Weight / total, mean: c.Sum / total, share: math.NaN()}
		most := 0.0
		for j, w := range c.Taken {
			if j != i && w > most {
				most = w
				r.confused, r.share = all[j].Name, w/c.Weight
			}
		}
		if c.Weight > 0 {
			recall += r.recall
			present++
		}
		if predicted[i] == 0 {
			never++
		}
		rows[i] = r
	}

	c := &plot.Chart{ID: "classes", Title: "Recall and precision by class", W: plot.Half,
		Head: []string{"class", "rows", "recall", "95 % interval", "precision"}}
	words, weighted := testRows(all)
	drawn := frequent(all, mostBars)
	for _, i := range drawn {
		r, within := rows[i], "-"
		if !weighted { // the squares of the weights, which the interval needs, are not recorded
			_, low, high := observed(metric.Bin{Rows: r.Rows, Weight: r.Weight, Positive: r.Taken[i]})
			within = plot.Percent.Format(low) + " to " + plot.Percent.Format(high)
		}
		c.Rows = append(c.Rows, []plot.Cell{{Text: plot.Clip(r.Name, 40)},
			{Class: "n", Text: humanize.Comma(int64(r.Rows))},
			{Text: plot.Percent.Format(r.recall), Bar: r.recall}, {Class: "n", Text: within},
			{Class: "n", Text: plot.Percent.Format(r.precision)}})
	}
	c.Summary = fmt.Sprintf("The mean recall of %s is %s. Recall: how many of a class's %s are predicted as "+
		"it. Precision: how many of those that are predicted as it belong to it.",
		english.Plural(present, "class", "classes"), plot.Percent.Format(recall/float64(present)), words)
	if never > 0 {
		c.Summary += fmt.Sprintf(" %s never predicted.", map[bool]string{true: "1 class is",
			false: strconv.Itoa(never) + " classes are"}[never == 1])
	}
	if len(drawn) < len(all) {
		c.Summary += fmt.Sprintf(" Drawn are the %d with the most rows; the table has all.", len(drawn))
	}
	tabulate(d, "classes", c.Title, rows, []field[recognised]{
		{"class", plot.Plain, func(r recognised) any { return r.Name }},
		{"rows", plot.Plain, func(r recognised) any { return r.Rows }},
		{"recall", plot.Percent, func(r recognised) any { return r.recall }},
		{"precision", plot.Percent, func(r recognised) any { return r.precision }},
		{"share observed", plot.Percent, func(r recognised) any { return r.observed }},
		{"share predicted", plot.Percent, func(r recognised) any { return r.mean }},
		{"most often taken for", plot.Plain, func(r recognised) any { return r.confused }},
		{"for so many of its rows", plot.Percent, func(r recognised) any { return r.share }},
	})
	return c
}

// Calibrated reports whether any night's predictions were held against its labels in total.
func (p *datasetPage) Calibrated() bool {
	return slices.ContainsFunc(p.Nights, func(n Night) bool { return !math.IsNaN(n.Ratio) })
}

// positive is the class whose rows count as positive in the newest night's numbers; empty unless there are several.
func (p *datasetPage) positive() string {
	if n := len(p.Nights); n > 0 {
		return p.Nights[n-1].Positive
	}
	return ""
}

// Rate names what is drawn of the labels.
func (p *datasetPage) Rate() string {
	if class := p.positive(); class != "" {
		return "share of " + class
	}
	return "label rate"
}

// titleOf is the title of what is drawn of each night.
func (p *datasetPage) titleOf(id, title string) string {
	if id == "label" {
		return p.Rate()
	}
	return cmp.Or(title, p.Metric, "metric")
}

func (p *datasetPage) Predicted() string { return cmp.Or(p.positive(), "the label") }

// labelIn describes the label of a split, as a name and its value.
func labelIn(t *dataset.Manifest, s *dataset.Rows) (name, value string) {
	if n := len(t.Label.Classes); n > 0 {
		return "classes", strconv.Itoa(n)
	}
	return "label in " + s.Name, plot.Plain.Format(s.LabelMean)
}
