package ingest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
)

// TestFinalStatistics: for the final training held-out rows have the statistics of all rows before them, of whichever
// split, in the bins that train has; the levels count every row.
func TestFinalStatistics(t *testing.T) {
	const rows, sites = 4000, 40
	var csv strings.Builder
	csv.WriteString("y,site,x,tick,part\n")
	type row struct{ y, site, tick int }
	var held []row // of valid, then of test
	all := make([]row, rows)
	for _, part := range []string{"train", "valid", "test"} {
		for i := range rows {
			r := row{y: (i*31/7 + i%5) % 2, site: i * 7919 % sites, tick: i}
			at := map[bool]string{i < 2400: "train", i >= 2400 && i < 3200: "valid", i >= 3200: "test"}[true]
			if at != part {
				continue
			}
			all[i] = r
			fmt.Fprintf(&csv, "%d,s%d,%d,%d,%s\n", r.y, r.site, i%9, r.tick, part)
			if part != "train" {
				held = append(held, r)
			}
		}
	}
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\nencodings: {final: true, budget: 0, "+
		"order: {column: tick, delay: 0}, columns: {site: [rate, count]}}\n", csv.String())

	m := s.Manifest
	statistics := m.Statistics()
	if len(s.Final) != 2 || len(statistics) != 2 || len(s.Final[0]) != len(held) || len(m.FinalTables) != 1 {
		t.Fatalf("%d final columns of %d statistics; expected 2 of %d rows", len(s.Final), len(statistics), len(held))
	}
	prior := 0.0
	for _, r := range all {
		prior += float64(r.y) / rows
	}
	table := m.FinalTables[0]
	if math.Abs(table.Prior-prior) > 1e-9 || table.Levels != sites {
		t.Errorf("the final table has a prior of %v and %d levels, expected %v and %d", table.Prior, table.Levels,
			prior, sites)
	}

	for i, r := range held {
		n, sum := 0.0, 0.0
		for _, before := range all[:r.tick] {
			if before.site == r.site {
				n, sum = n+1, sum+float64(before.y)
			}
		}
		for k, want := range []float64{table.Rate(sum, n, prior), math.NaN()} {
			f := &m.Features[statistics[k]]
			if f.From.What == dataset.DeriveCount { // the expected count of all rows
				want = n * rows / float64(r.tick)
			}
			bin := 0
			for bin < len(f.Bounds) && f.Bounds[bin] < want {
				bin++
			}
			if got := int(s.Final[k][i]); got < bin-1 || got > bin+1 || f.From.What == dataset.DeriveRate &&
				got != bin {
				t.Fatalf("%s of held-out row %d, site %d: bin %d, expected %d for %v", f.Name, i, r.site, got, bin,
					want)
			}
		}
	}

	again := mustStage(t, "label: y\nsplit: {by: column, column: part}\nencodings: {budget: 0, final: false, "+
		"order: {column: tick, delay: 0}, columns: {site: [rate, count]}}\n", csv.String())
	if again.Final != nil || again.Manifest.FinalTables != nil {
		t.Error("a spec without final has made final statistics")
	}
	for i := range s.Splits {
		if !bytes.Equal(s.Splits[i].RowMajor, again.Splits[i].RowMajor) {
			t.Errorf("split %s has other bins with final statistics than without", s.Splits[i].Name)
		}
	}
	if names := func(m *dataset.Manifest) (out []string) {
		for _, f := range m.Files {
			out = append(out, f.Name)
		}
		return out
	}; slices.Contains(names(again.Manifest), dataset.FinalLevelsFile) || !slices.Contains(names(m),
		dataset.FinalLevelsFile) {
		t.Error("the file of final levels is there without final, or missing with it")
	}
}
