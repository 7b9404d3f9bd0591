package metric_test

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

// TestMeanAveragePrecision compares with LightGBM's formula (src/metric/map_metric.hpp), averaged over all orders of
// rows with equal predictions.
func TestMeanAveragePrecision(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	var in metric.Input
	var groups [][]int
	for g := range 40 {
		var rows []int
		for range 1 + rng.IntN(6) {
			rows = append(rows, len(in.Pred))
			in.Pred = append(in.Pred, float64(rng.IntN(4)))
			in.Label = append(in.Label, float32(max(0, rng.IntN(5)-2)))
			in.Weight = append(in.Weight, float32(1+rng.IntN(3)))
			in.Group = append(in.Group, uint64(g)*7919)
		}
		groups = append(groups, rows)
	}

	for name, places := range map[string]int{"map": 100, "map@1": 1, "map@3": 3} {
		m := must.Get(metric.Lookup(name))(t)
		got := must.Get(m.Eval(in))(t)
		want, total := 0.0, 0.0
		for _, rows := range groups {
			weight := 0.0
			for _, r := range rows {
				weight += float64(in.Weight[r]) / float64(len(rows))
			}
			want += weight * overOrders(in, rows, places)
			total += weight
		}
		if want /= total; math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, over all orders %v", name, got, want)
		}
	}
}

func overOrders(in metric.Input, rows []int, places int) float64 {
	sum, orders := 0.0, 0
	var try func(k int)
	try = func(k int) {
		if k < len(rows) {
			for i := k; i < len(rows); i++ {
				rows[k], rows[i] = rows[i], rows[k]
				try(k + 1)
				rows[k], rows[i] = rows[i], rows[k]
			}
			return
		}
		if !sort.SliceIsSorted(rows, func(i, j int) bool { return in.Pred[rows[i]] > in.Pred[rows[j]] }) {
			return
		}
		orders++
		hits, all, value := 0, 0, 0.0
		for i, r := range rows {
			if in.Label[r] > 0 {
				all++
				if i < places {
					hits++
					value += float64(hits) / float64(i+1)
				}
			}
		}
		if all == 0 {
			sum++
			return
		}
		sum += value / float64(min(all, places, len(rows)))
	}
	try(0)
	return sum / float64(orders)
}
