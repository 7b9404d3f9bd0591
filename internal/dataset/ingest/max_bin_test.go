package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// skewedTable is CSV with a column of ids of which a few are frequent, so that counts reach far.
func skewedTable(rows int) string {
	rng := rand.New(rand.NewPCG(4, 8))
	var b strings.Builder
	b.WriteString("y,site,tick,part\n")
	for i := range rows {
		x := rng.Float64()
		fmt.Fprintf(&b, "%d,s%d,%d,%s\n", rng.IntN(2), int(2000*x*x*x*x), i,
			[]string{"train", "train", "test"}[i*3/rows])
	}
	return b.String()
}

// No feature has more bins than max_bin, statistics among them, and rows that are predicted find theirs.
func TestMaxBinHoldsForStatistics(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	text := skewedTable(9000)
	for name, order := range map[string]string{"by time": "{column: tick}", "random": "{copies: 2}"} {
		statistics := map[string]string{"by time": "[rate, count, recency]", "random": "[rate, count]"}[name]
		for _, most := range []int{2, 3, 15, 255} {
			t.Run(fmt.Sprintf("%s, %d", name, most), func(t *testing.T) {
				s := mustStage(t, fmt.Sprintf("label: y\nmax_bin: %d\nsplit: {by: column, column: part}\nencodings: "+
					"{order: %s, columns: {site: %s}}\n", most, order, statistics), text)
				for i, f := range s.Manifest.Features {
					if f.Bins > most {
						t.Errorf("%s has %d bins", f.Name, f.Bins)
					}
					for _, split := range s.Splits {
						if bin := slices.Max(split.Columns[i]); int(bin) >= f.Bins {
							t.Errorf("%s: a row of %s is in bin %d of %d", f.Name, split.Name, bin, f.Bins)
						}
					}
				}
				if f := s.feature(t, "site:count"); most > 2 && (f.Bins != most && most < 50 || f.Bounds[0] != 0) {
					t.Errorf("counts have %d bins, the first up to %v; want %d, the first of levels that were not seen",
						f.Bins, f.Bounds[0], most)
				}
				checkEncoder(t, s, []table.File{writeFile(t, "again.csv", text)}, dataset.CSVSpec{})
			})
		}
	}
}
