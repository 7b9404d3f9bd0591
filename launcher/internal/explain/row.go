package explain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
	"coppice/internal/scorer"
)

// Row is one row's prediction, with what each feature adds to its raw score: of several classes, the likeliest one's.
type Row struct {
	Class      string       `json:"class,omitempty"` // of several
	Prediction Number       `json:"prediction"`
	Raw        float64      `json:"raw"`      // the score before calibration: Expected and all contributions
	Expected   float64      `json:"expected"` // raw score of a row without known values
	Features   []RowFeature `json:"features"` // that add something, those that add most first
}

// Number is a number of any size: JSON has no infinite ones, they are the texts "+Inf" and "-Inf".
type Number float64

// MarshalJSON writes it.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsInf(v, 0) || math.IsNaN(v) {
		return strconv.AppendQuote(nil, strconv.FormatFloat(v, 'g', -1, 64)), nil
	}
	return json.Marshal(float64(n))
}

// RowFeature is a feature of a row.
type RowFeature struct {
	Name  string  `json:"name"`
	Value string  `json:"value"` // of the columns that it is made of, as they were given
	Shap  float64 `json:"shap"`  // added to the raw score
}

// MaxRow is the largest row that Text reads, in bytes.
const MaxRow = 48 << 10

// Text explains a row that a person pasted: a line of column names and one of values, separated by commas or tabs, or a
// JSON object. It is read as `launcher predict` reads a table; what cannot be read is of kind Input.
func Text(ctx context.Context, s *scorer.Scorer, text string) (*Row, error) {
	text = strings.Trim(text, "\r\n") // tabs and blanks are empty cells
	if len(text) > MaxRow {
		return nil, problem.New(problem.Input, "a row of %d bytes; paste at most %d", len(text), MaxRow)
	}
	name := "row.csv"
	if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(strings.TrimSpace(text), "{") {
		name = "row.jsonl"
		var line bytes.Buffer
		if err := json.Compact(&line, []byte(text)); err != nil {
			return nil, problem.Wrap(problem.Input, err, "the row is no JSON object")
		}
		text = line.String()
	} else if strings.Contains(first, "\t") {
		name = "row.tsv"
	}
	t, err := table.Open([]table.File{{URI: name, Contents: []byte(text + "\n"), Bytes: int64(len(text) + 1)}},
		table.Options{Threads: 1})
	if err != nil {
		return nil, unreadable(err)
	}

	var out *Row
	var in cell.Inputs
	err = t.Read(ctx, s.Columns(), 2, func(b *table.Batch) error {
		if out != nil || b.Rows != 1 {
			return errors.New("more than one row: paste the names of the columns and one row")
		}
		raw, predicted, values, err := s.Batch(b, nil, 1, &in)
		if err != nil {
			return err
		}
		phi := make([]float64, len(predicted)*(s.Model.Features()+1))
		if err := s.Model.Contributions(values, phi, 1); err != nil {
			return err
		}
		k := slices.Index(predicted, slices.Max(predicted)) // the likeliest class
		phi = phi[k*(s.Model.Features()+1):][:s.Model.Features()+1]
		out = &Row{Prediction: Number(predicted[k]), Raw: raw[k], Expected: phi[len(phi)-1], Features: []RowFeature{}}
		if s.Encoding.Classes != nil {
			out.Class = s.Encoding.Classes[k]
		}
		for i := range s.Encoding.Features {
			f := &s.Encoding.Features[i]
			if phi[i] == 0 {
				continue
			}
			var given []string
			for _, c := range columns(s.Encoding, f) {
				text := ""
				if v := b.Column(c); v != nil && !v.IsNull(0) {
					text = v.TextOf(0)
				}
				given = append(given, cmp.Or(text, "missing"))
			}
			out.Features = append(out.Features, RowFeature{f.Name, strings.Join(given, ", "), phi[i]})
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, unreadable(err)
	case out == nil:
		return nil, problem.New(problem.Input, "no row: paste the names of the columns and, below, their values")
	}
	slices.SortStableFunc(out.Features, func(a, b RowFeature) int {
		return cmp.Compare(math.Abs(b.Shap), math.Abs(a.Shap))
	})
	return out, nil
}

func unreadable(err error) error {
	return problem.Wrap(problem.Input, err, "the row cannot be explained")
}
