package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/metric"
	"coppice/internal/page/plot"
)

// mostClasses has a confusion matrix, the last of them all others where there are more: further columns would be too
// narrow for their numbers. mostListedClasses have a row by themselves.
const (
	mostClasses       = 12
	mostListedClasses = 100
)

// classView is how well the classes of a label are told from each other on test rows.
type classView struct {
	all      []metric.Class
	total    float64
	Weighted bool     // some rows weigh more than others
	Names    []string // of the matrix
	Matrix   [][]classCell
	Classes  []recognised
	Right    string // what the matrix says
	Recall   string // and what the classes do
}

// classCell is what share of a class's rows was predicted as a class, and their weight.
type classCell struct {
	Class, Text string
	Weight      float64
}

// recognised is how well a class is told from the others.
type recognised struct {
	metric.Class
	Recall, Low, High, Precision float64 // NaN without rows of it, or predicted as it
	Observed, Mean               float64 // shares of all rows: of the class, and as its predictions say
	Confused                     string  // the class that its other rows are predicted as most often
	Share                        float64 // of its rows that are
}

// newClassView is nil where nothing was predicted.
func newClassView(all []metric.Class) *classView {
	v := &classView{all: all}
	for _, c := range all {
		v.total += c.Weight
		v.Weighted = v.Weighted || c.Weight != float64(c.Rows)
	}
	if v.total == 0 {
		return nil
	}
	v.confuse()
	v.recognise()
	return v
}

// frequent are the numbers of the n classes with the most rows, in the order of the label.
func (v *classView) frequent(n int) []int {
	order := make([]int, len(v.all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v.all[b].Rows, v.all[a].Rows) })
	order = order[:min(n, len(order))]
	slices.Sort(order)
	return order
}

// confuse fills the matrix: as what class the rows of each class were predicted, as shares of these rows.
func (v *classView) confuse() {
	shown := v.frequent(mostClasses)
	if len(v.all) > mostClasses {
		shown = v.frequent(mostClasses - 1)
	}
	for _, i := range shown {
		v.Names = append(v.Names, plot.Clip(v.all[i].Name, 24))
	}
	others := len(v.all) - len(shown)
	if others > 0 {
		v.Names = append(v.Names, fmt.Sprintf("%d others", others))
	}

	place := func(class int) int {
		if i, ok := slices.BinarySearch(shown, class); ok {
			return i
		}
		return len(shown)
	}
	v.Matrix = make([][]classCell, len(v.Names))
	for i := range v.Matrix {
		v.Matrix[i] = make([]classCell, len(v.Names))
	}
	rows, right := 0, 0.0
	for i, c := range v.all {
		rows += c.Rows
		right += c.Taken[i]
		for j, w := range c.Taken {
			v.Matrix[place(i)][place(j)].Weight += w
		}
	}
	for i, row := range v.Matrix {
		total := 0.0
		for _, c := range row {
			total += c.Weight
		}
		for j := range row {
			c := &row[j]
			if c.Class = "n"; c.Weight > 0 {
				kind := map[bool]string{true: "same", false: "other"}[i == j && i < len(shown)]
				c.Class = fmt.Sprintf("n %s o%d", kind, max(1, int(math.Ceil(5*min(1, c.Weight/total)))))
				c.Text = percent(c.Weight / total)
			}
		}
	}
	v.Right = fmt.Sprintf("%s of %s test rows%s have the class that is predicted as likeliest.",
		plot.Percent.Format(right/v.total), comma(rows), map[bool]string{true: ", by their weights,"}[v.Weighted])
	if others > 0 {
		v.Right += fmt.Sprintf(" The %d classes with the fewest rows are taken together.", others)
	}
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

// recognise says how many of each class's rows are recognised, and how many of those predicted as it are of it.
func (v *classView) recognise() {
	predicted := make([]float64, len(v.all))
	for _, c := range v.all {
		for j, w := range c.Taken {
			predicted[j] += w
		}
	}
	listed := v.frequent(mostListedClasses)
	recall, present, never := 0.0, 0, 0
	for i, c := range v.all {
		_, low, high := observed(metric.Bin{Rows: c.Rows, Weight: c.Weight, Positive: c.Taken[i]})
		r := recognised{Class: c, Recall: c.Taken[i] / c.Weight, Low: low, High: high,
			Precision: c.Taken[i] / predicted[i], Observed: c.Weight / v.total, Mean: c.Sum / v.total,
			Share: math.NaN()}
		most := 0.0
		for j, w := range c.Taken {
			if j != i && w > most {
				most = w
				r.Confused, r.Share = v.all[j].Name, w/c.Weight
			}
		}
		if c.Weight > 0 {
			recall += r.Recall
			present++
		}
		if predicted[i] == 0 {
			never++
		}
		if slices.Contains(listed, i) {
			v.Classes = append(v.Classes, r)
		}
	}
	v.Recall = fmt.Sprintf("The mean recall of %s is %s. Recall: how many of a class's test rows are predicted as it. "+
		"Precision: how many of those that are predicted as it belong to it.",
		english.Plural(present, "class", "classes"), plot.Percent.Format(recall/float64(present)))
	if never > 0 {
		v.Recall += fmt.Sprintf(" %s never predicted.", map[bool]string{true: "1 class is",
			false: strconv.Itoa(never) + " classes are"}[never == 1])
	}
	if len(listed) < len(v.all) {
		v.Recall += fmt.Sprintf(" Listed are the %d with the most rows.", len(listed))
	}
}

// MatrixHead is what the matrix begins with.
func (v *classView) MatrixHead() heading {
	h := newHeading("confusion", "Confusion matrix", v.Right, "true class, % of it predicted as")
	for _, name := range v.Names {
		h.Names = append(h.Names, name+"#")
	}
	return h
}
