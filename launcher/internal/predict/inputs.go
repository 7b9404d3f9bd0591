package predict

import (
	"fmt"
	"math"
	"strings"

	"coppice/internal/dataset/cell"
	"coppice/internal/page/plot"
	"coppice/internal/problem"
)

// Result is the result of Run.
type Result struct {
	Rows   int64
	Inputs []Input // of the columns that the model is made of
	counts cell.Inputs
}

// Input compares a column of the table with the dataset's held-out rows.
type Input struct {
	Column  string `json:"column"`
	Missing Share  `json:"missing"`
	Unseen  *Share `json:"unseen,omitempty"` // for ids: values that the model cannot tell from unseen ones
	Rare    *Share `json:"rare,omitempty"`   // for ids: values with fewer than ten rows in train
}

// Share is a share of the rows.
type Share struct {
	Now   float64  `json:"share"`
	Usual *float64 `json:"usual,omitempty"` // nil if the version does not record it
	High  bool     `json:"high,omitempty"`  // more than twice the usual share, and beyond chance
}

// From when on a share is High: all three have to hold.
const (
	highTimes    = 2  // times the usual share
	highErrors   = 4  // standard errors above it
	fewestValues = 10 // values of that kind: of fewer, chance may be all
)

// compareShare returns the share n/rows of a table and compares it with the usual one: what count returns for usual, of
// usualRows. If usual is nil, the usual share is not known, and the result is never High.
func compareShare(n, rows int64, usual *cell.InputCount, count func(*cell.InputCount) int64, usualRows int64) Share {
	s := Share{Now: float64(n) / float64(max(rows, 1))}
	if usual == nil {
		return s
	}

	// chance is the standard error of the difference between two shares that are alike but for chance. A share p of n
	// rows has the variance p (1-p) / n; p is that of both tables' rows together, and the variances add up.
	before := float64(count(usual)) / float64(max(usualRows, 1))
	s.Usual = &before
	pooled := float64(n+count(usual)) / float64(max(rows+usualRows, 1))
	chance := math.Sqrt(pooled * (1 - pooled) * (1/float64(max(rows, 1)) + 1/float64(max(usualRows, 1))))
	s.High = n >= fewestValues && s.Now > highTimes*before && s.Now-before > highErrors*chance
	return s
}

// compare compares the counts of a table's columns (now) with those of the version's held-out rows (usual, nil if the
// version does not record them). Columns are matched by name; one that usual lacks has no usual shares. Only columns of
// ids have shares of unseen and rare values.
func compare(now, usual *cell.Inputs) []Input {
	known := map[string]*cell.InputCount{}
	rows := int64(0)
	if usual != nil {
		rows = usual.Rows
		for i := range usual.Columns {
			known[usual.Columns[i].Column] = &usual.Columns[i]
		}
	}

	var out []Input
	for i := range now.Columns {
		c := &now.Columns[i]
		was := known[c.Column]
		in := Input{Column: c.Column, Missing: compareShare(c.Missing, now.Rows, was,
			func(c *cell.InputCount) int64 { return c.Missing }, rows)}
		if c.IDs {
			unseen := compareShare(c.Unseen, now.Rows, was, func(c *cell.InputCount) int64 { return c.Unseen }, rows)
			rare := compareShare(c.Rare, now.Rows, was, func(c *cell.InputCount) int64 { return c.Rare }, rows)
			both := compareShare(c.Unseen+c.Rare, now.Rows, was,
				func(c *cell.InputCount) int64 { return c.Unseen + c.Rare }, rows)
			// If the training's own rows are scored, nothing is odd: where held-out rows have unseen ids, these have
			// rare ones. So rare ids are too many only if rare and unseen ones together are more than usual, too.
			rare.High = rare.High && both.High
			in.Unseen, in.Rare = &unseen, &rare
		}
		out = append(out, in)
	}
	return out
}

// Warnings returns a sentence for each share that is High: a column with many more missing, unseen or rare values than
// usual may have several. The list is empty, not nil, if there are none, as JSON shows it.
func (r *Result) Warnings() []string {
	out := []string{}
	for i := range r.Inputs {
		in := &r.Inputs[i]
		for _, of := range []struct {
			share *Share
			what  string
		}{{&in.Missing, "missing"}, {in.Unseen, "unseen"}, {in.Rare, "rare"}} {
			if s := of.share; s != nil && s.High { // which it is only where Usual is known
				out = append(out, fmt.Sprintf("%s: %s of the values are %s, compared with %s of the dataset's "+
					"held-out rows; are they written as they were for training?", in.Column, plot.Percent.Format(s.Now),
					of.what, plot.Percent.Format(*s.Usual)))
			}
		}
	}

	return out
}

// checkUnseen returns an error of kind Input if in some column of ids the share of unseen values exceeds the usual one
// by more than most. It names these columns. A usual share that is not known counts as 0.
func checkUnseen(inputs []Input, most float64) error {
	var columns []string
	for _, in := range inputs {
		if in.Unseen == nil {
			continue
		}
		text, usual := in.Column+" ("+plot.Percent.Format(in.Unseen.Now), 0.0
		if in.Unseen.Usual != nil {
			usual = *in.Unseen.Usual
			text += ", of held-out rows " + plot.Percent.Format(usual)
		}
		if in.Unseen.Now-usual > most {
			columns = append(columns, text+")")
		}
	}
	if len(columns) == 0 {
		return nil
	}
	return problem.New(problem.Input, "more values than usual are unseen by the model, beyond what --max-unseen %g "+
		"allows: %s; nothing was written. Are they written as they were for training?", most,
		strings.Join(columns, ", "))
}
