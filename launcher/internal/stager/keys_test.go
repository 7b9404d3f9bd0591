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
)

// TestKeysOfFewRows: in 3,000 rows, of which 2,100 train, the pair that decides the label is found, and where none
// does, none of fifteen is.
func TestKeysOfFewRows(t *testing.T) {
	for _, planted := range []bool{true, false} {
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
			a, o, x := rng.IntN(12), rng.IntN(12), rng.NormFloat64()
			score := 0.6*x - 1
			if planted {
				score += effect[a][o]
			}
			y := 0
			if rng.Float64() < 1/(1+math.Exp(-score)) {
				y = 1
			}
			fmt.Fprintf(&b, "%d,a%d,b%d,c%d,d%d,%.3f\n", y, a, o, rng.IntN(40), rng.IntN(6), x)
		}
		path := filepath.Join(t.TempDir(), "t.csv")
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		files, err := table.Expand(path)
		if err != nil {
			t.Fatal(err)
		}
		d := again(t, files, "label: y\nsplit: {by: random, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n", nil)
		var found []string
		for _, e := range d.Manifest.About.Encodings {
			if e.Why == "found" {
				found = append(found, e.Name)
			}
		}
		if want := slices.Contains(found, "a+b"); want != planted || !planted && len(found) > 0 {
			t.Errorf("with the pair planted %t, these are found: %q", planted, found)
		}
	}
}
