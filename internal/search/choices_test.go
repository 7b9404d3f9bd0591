package search_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// TestAskAmongManyChoices: of eight choices two random configurations share two, and still say something about each
// other. A process for which they are unrelated stays with the first good ones and searches the numbers there.
func TestAskAmongManyChoices(t *testing.T) {
	const seeds, trials = 3, 60
	mean := 0.0
	for seed := range uint64(seeds) {
		draw := rand.New(rand.NewPCG(seed, 99))
		s := sweep.Search{Random: map[string]sweep.Distribution{}}
		loss := map[string]func(v any) float64{}
		for j := range 8 {
			of := map[any]float64{}
			levels := []any{"a", "b", "c", "d"}
			for _, l := range levels {
				of[l] = draw.Float64()
			}
			of[levels[draw.IntN(4)]] = 0
			name := fmt.Sprint("choice", j)
			s.Random[name] = sweep.Distribution{Choice: levels}
			loss[name] = func(v any) float64 { return of[v] }
		}
		for j := range 4 {
			best := 100 * draw.Float64()
			name := fmt.Sprint("whole", j)
			s.Random[name] = sweep.Distribution{Int: []int64{0, 100}}
			loss[name] = func(v any) float64 { return square((v.(float64) - best) / 50) }
		}

		r := search.Ask{Search: s, Seed: seed, Number: 1}
		found := math.Inf(1)
		for len(r.Known) < trials {
			one := next(t, r)[0]
			sum := 0.0
			for _, name := range slices.Sorted(maps.Keys(loss)) {
				sum += loss[name](one.Params[name])
			}
			found = min(found, sum)
			r.Known = append(r.Known, scored(one.Trial, one.Params, sum))
		}
		mean += found / seeds
	}
	if mean > 0.5 {
		t.Errorf("after %d trials the loss is %.3f on average of %d searches; expected at most 0.5, and it can be 0",
			trials, mean, seeds)
	}
}
