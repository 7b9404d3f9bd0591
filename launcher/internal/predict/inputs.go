package predict

import (
	"fmt"
	"math"
	"strings"

	"coppice/dataset/ingest"
)

// Result is what Run has done.
type Result struct {
	Rows   int64
	Inputs []Input // of the columns that the model is made of
}

// Input is what a column of the table holds, beside what the dataset's held-out rows held.
type Input struct {
	Column  string `json:"column"`
	Missing Share  `json:"missing"`
	Unseen  *Share `json:"unseen,omitempty"` // of ids: values that the model does not tell from values that it has never seen
	Rare    *Share `json:"rare,omitempty"`   // of ids: values of fewer than ten rows of train
}

// Share is a share of the rows.
type Share struct {
	Now   float64  `json:"share"`
	Usual *float64 `json:"usual,omitempty"` // nil where the version does not say
	High  bool     `json:"high,omitempty"`  // more than twice the usual one, and more than chance does
}

const (
	highTimes    = 2 // times the usual share
	highErrors   = 4 // standard errors above it
	fewestValues = 10
)

// share compares n of rows with what is usual, which may be nil.
func share(n, rows int64, usual *ingest.InputCount, of func(*ingest.InputCount) int64, usualRows int64) Share {
	s := Share{Now: float64(n) / float64(max(rows, 1))}
	if usual == nil {
		return s
	}

	before := float64(of(usual)) / float64(max(usualRows, 1))
	s.Usual = &before
	pooled := float64(n+of(usual)) / float64(max(rows+usualRows, 1))
	chance := math.Sqrt(pooled * (1 - pooled) * (1/float64(max(rows, 1)) + 1/float64(max(usualRows, 1))))
	s.High = n >= fewestValues && s.Now > highTimes*before && s.Now-before > highErrors*chance
	return s
}

// compareInputs sets what was counted beside what is usual; usual may be nil.
func compareInputs(now, usual *ingest.Inputs) []Input {
	known := map[string]*ingest.InputCount{}
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
		in := Input{Column: c.Column, Missing: share(c.Missing, now.Rows, was, func(c *ingest.InputCount) int64 { return c.Missing }, rows)}
		if c.IDs {
			unseen := share(c.Unseen, now.Rows, was, func(c *ingest.InputCount) int64 { return c.Unseen }, rows)
			rare := share(c.Rare, now.Rows, was, func(c *ingest.InputCount) int64 { return c.Rare }, rows)
			in.Unseen, in.Rare = &unseen, &rare
		}
		out = append(out, in)
	}
	return out
}

// Warnings are sentences about columns that hold much more of what a model knows nothing about than usual.
func (r *Result) Warnings() []string {
	out := []string{}
	for i := range r.Inputs {
		in := &r.Inputs[i]
		for _, of := range []struct {
			share *Share
			what  string
		}{{&in.Missing, "missing"}, {in.Unseen, "unseen"}, {in.Rare, "rare"}} {
			if s := of.share; s != nil && s.High {
				out = append(out, fmt.Sprintf("%s: %.3g %% of the values are %s, and %.3g %% of the dataset's held-out rows; are they written as they were for training?",
					in.Column, 100*s.Now, of.what, 100**s.Usual))
			}
		}
	}

	return out
}

// UnseenError is a table with more unseen values than were allowed.
type UnseenError struct {
	Max     float64
	Columns []Input // those with more
}

func (e *UnseenError) Error() string {
	columns := make([]string, len(e.Columns))
	for i, in := range e.Columns {
		columns[i] = fmt.Sprintf("%s (%.3g %%", in.Column, 100*in.Unseen.Now)
		if in.Unseen.Usual != nil {
			columns[i] += fmt.Sprintf(", usually %.3g %%", 100**in.Unseen.Usual)
		}
		columns[i] += ")"
	}
	return fmt.Sprintf("more values than --max-unseen %g allows are unseen to the model, above what is usual: %s; nothing was written. Are they written as they were for training?",
		e.Max, strings.Join(columns, ", "))
}

// IsInput says that what was handed in is at fault, and will be the next time.
func (*UnseenError) IsInput() bool { return true }

// checkUnseen refuses a table in which a column has more unseen values, above the usual ones, than a share of the rows.
func checkUnseen(inputs []Input, most float64) error {
	e := &UnseenError{Max: most}
	for _, in := range inputs {
		if in.Unseen == nil {
			continue
		}
		usual := 0.0
		if in.Unseen.Usual != nil {
			usual = *in.Unseen.Usual
		}
		if in.Unseen.Now-usual > most {
			e.Columns = append(e.Columns, in)
		}
	}

	if len(e.Columns) > 0 {
		return e
	}
	return nil
}
