package dataset

import (
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/must"
)

var update = flag.Bool("update", false, "write the golden files again")

// fixture is the contents of a dataset that has everything: all kinds of features, weights and groups, all splits, and
// nulls in the sample.
type fixture struct {
	manifest Manifest
	rows     map[string][]byte
	targets  map[string]Targets
	sample   Sample
}

// newFixture makes a fixture with random bins and targets, and so many rows in each split.
func newFixture(seed uint64, rows map[string]int) *fixture {
	rng := rand.New(rand.NewPCG(seed, 1))
	f := &fixture{rows: map[string][]byte{}, targets: map[string]Targets{}}
	f.manifest = Manifest{
		Name: "clicks",
		Features: []Feature{
			{Name: "age", Kind: Numeric, Why: WhyNumbers, Bins: 4, Bounds: []float64{-1.5, 1e-35, 40}, MissingBin: -1,
				OtherBin: -1, Range: &Range{-3, 31.5, 90}},
			{Name: "price € <b>", Kind: Numeric, Why: WhyType, Bins: 3, Bounds: []float64{0.1}, MissingBin: 2,
				OtherBin: -1, Missing: 2, Range: &Range{0, 0.1, 1e300}},
			{Name: "at", Kind: Temporal, Why: WhyTimes, Bins: 2, Bounds: []float64{1499039000}, MissingBin: -1,
				OtherBin: -1, Range: &Range{1499000000, 1499039000, 1499100000}},
			{Name: "city", Kind: Categorical, Why: WhyText, Bins: 5, Categories: []string{"Ulm", "", "Zürich"},
				Counts: []int64{7, 5, 5}, MissingBin: 4, OtherBin: 3, Missing: 1},
			{Name: "id", Kind: Categorical, Why: WhyBig, Bins: 2, Categories: []string{"9007199254740993"},
				Counts: []int64{4}, MissingBin: -1, OtherBin: 1},
		},
		Missing: []string{"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"}, MaxBin: 255, BinRows: 17,
		Label:  LabelInfo{Column: "clicked", Kind: Binary},
		Weight: "w", Group: "user", Split: SplitRule{By: SplitByHash, Column: "user",
			Shares: map[string]float64{"train": 0.5, "test": 0.5}},
		LeftOut: 3,
		About: About{Sources: []Source{{URI: "clicks.csv", Bytes: 123}},
			Warnings: []Warning{{"few_rows", "", "few rows"}}},
	}

	// Each split's bins and targets.
	for _, name := range SplitNames() {
		n := rows[name]
		if n == 0 {
			continue
		}
		f.manifest.Splits = append(f.manifest.Splits, Rows{Name: name, Rows: n, LabelMean: 0.5})
		bins := make([]byte, 0, n*len(f.manifest.Features))
		t := Targets{}
		for range n {
			for i := range f.manifest.Features {
				bins = append(bins, uint8(rng.IntN(f.manifest.Features[i].Bins)))
			}
			t.Label = append(t.Label, float32(rng.IntN(2)))
			t.Weight = append(t.Weight, rng.Float32())
			t.Group = append(t.Group, rng.Uint64())
			t.Fold = append(t.Fold, uint8(rng.IntN(Folds)))
		}
		f.rows[name], f.targets[name] = bins, t
	}

	// A sample with a column of each type.
	f.sample = Sample{
		Split: "train", Row: []uint32{0, 2, 5},
		Names: []string{"age", "price € <b>", "at", "city", "id"},
		Columns: []Values{
			{Type: Int, Int: []int64{-3, 0, math.MaxInt64}},
			{Type: Float, Float: []float64{0.25, math.NaN(), math.Inf(1)}, Null: []bool{false, true, false}},
			{Type: Time, Unit: Micro, Int: []int64{1499039000000000, 0, -1}, Null: []bool{false, true, false}},
			{Type: Text, Text: []string{"Ulm", "", "Zürich"}, Null: []bool{false, true, false}},
			{Type: Text, Text: []string{"9007199254740993", "", "x"}},
		},
	}
	return f
}

// write writes the fixture as a dataset in dir, a piece of so many rows after the other, and returns its manifest.
func (f *fixture) write(tb testing.TB, dir string, piece, threads int) *Manifest {
	tb.Helper()
	m := f.manifest
	w := must.Get(NewWriter(dir, &m))(tb)
	width := len(m.Features)

	// Write rows, columns and targets of each piece.
	for _, s := range m.Splits {
		bins, t := f.rows[s.Name], f.targets[s.Name]
		for from := 0; from < s.Rows; from += piece {
			to := min(from+piece, s.Rows)
			must.Do(tb, w.WriteRows(s.Name, from, bins[from*width:to*width]))
			for j := range width {
				column := make([]byte, 0, to-from)
				for r := from; r < to; r++ {
					column = append(column, bins[r*width+j])
				}
				must.Do(tb, w.WriteColumn(s.Name, j, from, column))
			}
			part := Targets{Label: t.Label[from:to], Weight: t.Weight[from:to], Group: t.Group[from:to],
				Fold: t.Fold[from:to]}
			must.Do(tb, w.WriteTargets(s.Name, from, part))
		}
	}
	must.Do(tb, w.WriteSample(context.Background(), &f.sample))
	must.Do(tb, w.Finish(context.Background(), threads, nil))
	return &m
}

// smallRows returns few rows for each split.
func smallRows() map[string]int {
	return map[string]int{"train": 11, "valid": 1, "calib": 64, "test": 70}
}

// mustRead reads the file whose path has these parts.
func mustRead(tb testing.TB, parts ...string) []byte {
	tb.Helper()
	return must.Get(os.ReadFile(filepath.Join(parts...)))(tb)
}
