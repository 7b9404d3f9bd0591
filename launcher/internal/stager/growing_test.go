//go:build !race

package stager

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// TestColumnsThatGoOnWithTime: a column of numbers that keeps growing with time, here the number of a month, is dropped
// unless later rows are predicted better with it, or the spec asks for it. Each case has the label of a row and two
// more columns, by how much of the table's time has passed, 0 to 1.
func TestColumnsThatGoOnWithTime(t *testing.T) {
	const months, rows = 20, 4800
	const number, classes = "label: y\n", "label: {column: y, kind: classes}\n"
	var rng *rand.Rand                                                           // each case begins anew
	chance := func(p float64) float64 { return float64(int(rng.Float64() + p)) } // 1 with probability p, else 0
	for name, tc := range map[string]struct {
		row     func(passed float64) (y, x, z float64)
		spec    string
		dropped bool
	}{
		"trend": {func(p float64) (y, x, z float64) { return chance(0.1 + 0.6*p), 0, 0 }, number, false},
		"trend of three classes": {func(p float64) (y, x, z float64) { return chance(0.1+0.6*p) + chance(0.2), 0, 0 },
			classes, false},
		// After the change, the mean of all earlier rows is a worse guess than the last months.
		"one change": {func(p float64) (y, x, z float64) { return chance([]float64{0.2, 0.5}[int(2*p)]), 0, 0 }, number,
			false},
		"nothing": {func(float64) (y, x, z float64) { return chance(0.3), 0, 0 }, number, true},
		"nothing, but asked for": {func(float64) (y, x, z float64) { return chance(0.3), 0, 0 },
			number + "numeric: [month]\n", false},
		// As temperature follows from humidity and the dew point: the label drifts slowly, and two columns tell it.
		"drift of two columns": {func(p float64) (y, x, z float64) {
			season := 10 * math.Sin(math.Pi*p)
			x, z = season+3*rng.NormFloat64(), season+3*rng.NormFloat64()
			return x + z, x, z
		}, number, true},
	} {
		t.Run(name, func(t *testing.T) {
			rng = rand.New(rand.NewPCG(3, 3))
			var b strings.Builder
			b.WriteString("y,site,month,x,z,at\n")
			for i := range rows {
				y, x, z := tc.row(float64(i) / rows)
				at := time.Date(2026, 1, 1, 0, 90*i, 0, 0, time.UTC).Format(time.DateTime)
				fmt.Fprintf(&b, "%g,s%d,%d,%g,%g,%s\n", y, rng.IntN(50), i*months/rows, x, z, at)
			}
			path := filepath.Join(t.TempDir(), "t.csv")
			must.Do(t, os.WriteFile(path, []byte(b.String()), 0o644))
			files := must.Get(table.Expand(path))(t)
			d := stageAndOpen(t, files, tc.spec+"split: {by: time, column: at, train: 0.8, valid: 0.2}\n")

			got := slices.ContainsFunc(d.Manifest.About.Warnings, func(w dataset.Warning) bool {
				return w.Code == ingest.WarnDropped && w.Column == "month"
			})
			if got != tc.dropped {
				t.Errorf("staging dropped month: %t, want %t; warnings %v", got, tc.dropped, d.Manifest.About.Warnings)
			}
		})
	}
}
