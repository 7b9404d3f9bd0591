package gbt

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"coppice/internal/must"
)

// TestLightGBMScores trains as testdata/lightgbm/make.py does. The trees are the same, and scores differ only by the
// rounding of gradients.
func TestLightGBMScores(t *testing.T) {
	d := wholeNumbers(t, readCSV(t, "rows.csv", ','))
	want := readCSV(t, "want.csv", ';')
	p := Defaults()
	p.Objective, p.NumIterations, p.NumLeaves, p.LearningRate = "regression", 8, 12, 0.3
	p.MinDataInLeaf, p.MinSumHessian, p.MaxCatToOnehot, p.MinDataPerGroup = 10, 0, 1, 20
	for column, name := range want[0] {
		t.Run(name, func(t *testing.T) {
			got := must.Get(mustTrain(t, &d.Data, p, Options{}).Model.PredictBinned(&d.Data, 1))(t)
			largest, at := 0.0, 0
			for r, v := range got {
				if diff := math.Abs(v - number(t, want[r+1][column])); diff > largest {
					largest, at = diff, r
				}
			}
			if !(largest < 1e-5) {
				t.Errorf("row %d is predicted %v, LightGBM says %s", at, got[at], want[at+1][column])
			}
		})
	}
}

func readCSV(t *testing.T, name string, comma rune) [][]string {
	t.Helper()
	f := must.Get(os.Open(filepath.Join("testdata", "lightgbm", name)))(t)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = comma
	rows := must.Get(r.ReadAll())(t)
	return rows
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v := must.Get(strconv.ParseFloat(text, 64))(t)
	return v
}

// wholeNumbers is a table of small whole numbers with a bin for each; the last value of a row is its label, the one
// before it a category.
func wholeNumbers(t *testing.T, rows [][]string) *table {
	t.Helper()
	f := len(rows[0]) - 1
	d := &table{Data: Data{Rows: len(rows), Features: make([]Feature, f), Columns: make([][]byte, f),
		Label: make([]float32, len(rows))}}
	for i := range d.Features {
		feature := &d.Features[i]
		*feature = Feature{Name: "f" + strconv.Itoa(i), Categorical: i == f-1, Missing: -1}
		for _, row := range rows {
			v := int(number(t, row[i]))
			d.Columns[i] = append(d.Columns[i], byte(v))
			feature.Bins = max(feature.Bins, v+1)
		}
		for b := range feature.Bins - 1 {
			if !feature.Categorical {
				feature.Bounds = append(feature.Bounds, float64(b)+0.5)
			}
		}
	}
	for r, row := range rows {
		d.Label[r] = float32(number(t, row[f]))
	}
	d.RowMajor = rowMajor(d.Columns)
	return d
}
