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

	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// TestKeysOfFewRows: 2,100 rows of train are enough for the search for keys, which are columns whose levels are joined
// into one id, to find a pair of columns, a and b, that only together move the label. If no pair does, it finds none.
// The statistics of the pair are its count and, for a binary label, its rate; of three classes, a rate of each but the
// rarest.
func TestKeysOfFewRows(t *testing.T) {
	// Of 3,000 rows, 0.7 are train. Class 2 is the rarest of three, as a fifth of the rows, so it has no rate.
	const binary, classes = "y", "{column: y, kind: classes}"
	for _, tc := range []struct {
		label   string // the spec's label
		planted bool   // the pair has an effect
	}{{binary, true}, {binary, false}, {classes, true}, {classes, false}} {
		// Each pair of levels has an effect of its own on the log odds.
		rng := rand.New(rand.NewPCG(3, 4))
		var effect [12][12]float64
		for i := range effect {
			for j := range effect[i] {
				effect[i][j] = 1.2 * rng.NormFloat64()
			}
		}
		var b strings.Builder
		b.WriteString("y,a,b,c,d,x\n")
		for range 3000 {
			first, second, x := rng.IntN(12), rng.IntN(12), rng.NormFloat64() // the levels of a and b, and column x
			score := 0.6*x - 1
			if tc.planted {
				score += effect[first][second]
			}
			y := 0
			if rng.Float64() < 1/(1+math.Exp(-score)) {
				y = 1
			}
			if tc.label == classes && rng.IntN(5) == 0 {
				y = 2 // whatever the pair is
			}
			fmt.Fprintf(&b, "%d,a%d,b%d,c%d,d%d,%.3f\n", y, first, second, rng.IntN(40), rng.IntN(6), x)
		}
		path := filepath.Join(t.TempDir(), "t.csv")
		must.Do(t, os.WriteFile(path, []byte(b.String()), 0o644))
		files := must.Get(table.Expand(path))(t)
		d := stageAndOpen(t, files, "label: "+tc.label+"\nsplit: {by: random, train: 0.7, valid: 0.1, calib: 0.1, "+
			"test: 0.1}\n")

		// Which keys the search found.
		var found []string
		for _, e := range d.Manifest.About.Encodings {
			if e.Why == "found" {
				found = append(found, e.Name)
			}
		}
		if tc.planted && !slices.Contains(found, "a+b") {
			t.Errorf("label %s, with an effect of the pair: the search found %q, want a+b among them", tc.label, found)
		}
		if !tc.planted && len(found) > 0 {
			t.Errorf("label %s, without an effect of the pair: the search found %q, want nothing", tc.label, found)
		}

		// Which statistics the pair has.
		var made []string
		for _, f := range d.Manifest.Features {
			if name, found := strings.CutPrefix(f.Name, "a+b:"); found {
				made = append(made, name)
			}
		}
		slices.Sort(made)
		want := []string{"count", "rate"}
		if tc.label == classes {
			want = []string{"count", "rate:0", "rate:1"}
		}
		if tc.planted && !slices.Equal(made, want) {
			t.Errorf("label %s: the pair has %q, want %q", tc.label, made, want)
		}
	}
}
