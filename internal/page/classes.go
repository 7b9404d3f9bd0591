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

// mostListedClasses have a row by themselves.
const mostListedClasses = 100

// classView is how well the classes of a label are told from each other on test rows.
type classView struct {
	Weighted bool         // some rows weigh more than others
	Classes  []recognised // in the order of the label
	Recall   string       // what they say together
}

// recognised is how well a class is told from the others.
type recognised struct {
	metric.Class
	Recall, Low, High, Precision float64 // NaN without rows of it, or predicted as it
	Observed, Mean               float64 // shares of all rows: of the class, and as its predictions say
	Confused                     string  // the class that its other rows are predicted as most often
	Share                        float64 // of its rows that are
}

// newClassView computes recall and precision of each class, and sums them up in words. c.Taken[j] is the weight of the
// rows of class c for which class j was predicted. It is nil if there are no rows.
func newClassView(all []metric.Class) *classView {
	v := &classView{}

	// predicted has, for each class, the weight of all rows that are predicted as it. right is the weight of the rows
	// whose class was predicted.
	predicted := make([]float64, len(all))
	total, right, rows := 0.0, 0.0, 0
	for i, c := range all {
		total, rows, right = total+c.Weight, rows+c.Rows, right+c.Taken[i]
		v.Weighted = v.Weighted || c.Weight != float64(c.Rows)
		for j, w := range c.Taken {
			predicted[j] += w
		}
	}
	if total == 0 {
		return nil
	}

	// The recall of a class without rows and the precision of one that is never predicted are 0/0, which is NaN.
	// recall is the sum over the classes that have rows, present of them. never counts those that are never predicted.
	recall, present, never := 0.0, 0, 0
	for i, c := range all {
		_, low, high := observed(metric.Bin{Rows: c.Rows, Weight: c.Weight, Positive: c.Taken[i]})
		r := recognised{Class: c, Recall: c.Taken[i] / c.Weight, Low: low, High: high,
			Precision: c.Taken[i] / predicted[i], Observed: c.Weight / total, Mean: c.Sum / total, Share: math.NaN()}
		most := 0.0 // of the weight of its rows that are predicted as one other class
		for j, w := range c.Taken {
			if j != i && w > most {
				most = w
				r.Confused, r.Share = all[j].Name, w/c.Weight
			}
		}
		if c.Weight > 0 {
			recall += r.Recall
			present++
		}
		if predicted[i] == 0 {
			never++
		}
		v.Classes = append(v.Classes, r)
	}

	v.Recall = fmt.Sprintf("%s of %s test rows%s have the class that is predicted as likeliest. The mean recall of %s "+
		"is %s. Recall: how many of a class's test rows are predicted as it. Precision: how many of those that are "+
		"predicted as it belong to it.", plot.Percent.Format(right/total), comma(rows),
		plot.Either(v.Weighted, ", by their weights,", ""), english.Plural(present, "class", "classes"),
		plot.Percent.Format(recall/float64(present)))
	if never > 0 {
		v.Recall += fmt.Sprintf(" %s never predicted.", plot.Either(never == 1, "1 class is",
			strconv.Itoa(never)+" classes are"))
	}
	if len(all) > mostListedClasses {
		v.Recall += fmt.Sprintf(" Listed are the %d with the most rows.", mostListedClasses)
		slices.SortStableFunc(v.Classes, func(a, b recognised) int { return cmp.Compare(b.Rows, a.Rows) })
		v.Classes = v.Classes[:mostListedClasses]
	}
	return v
}
