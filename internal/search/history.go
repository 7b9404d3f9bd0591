package search

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"coppice/internal/sweep"
)

// history is the data of the methods that learn, as positions on the axes. Higher scores are better.
type history struct {
	finished []observation // of this search, by trial
	failed   []point
	pending  []point
	earlier  []observation // of earlier searches, at the level of the newest of them
	level    map[string]float64
}

// observation is a configuration with its score.
type observation struct {
	point
	score float64
	age   int // in searches; 0 is this one
}

// addTrial adds a trial of this search. One whose configuration is not in the space is ignored.
func (h *history) addTrial(d *domain, k sweep.Seen, maximize bool) {
	p, ok := d.locate(k.Params)
	if !ok {
		return
	}

	score, known := scoreOf(k, maximize)
	switch {
	case k.Status == sweep.StatusRunning:
		h.pending = append(h.pending, p)
	case known:
		h.finished = append(h.finished, observation{point: p, score: score})
	case k.Status == sweep.StatusCancelled, k.Status == sweep.StatusStopped:
		// nothing is known of it, not even that it was one of the worst
	default:
		h.failed = append(h.failed, p)
	}
}

// scoreOf returns the score of a trial that is done or stopped. A value that is not finite is no score.
func scoreOf(k sweep.Seen, maximize bool) (score float64, known bool) {
	if k.Score == nil || !sweep.Finite(*k.Score) || k.Status != sweep.StatusDone && k.Status != sweep.StatusStopped {
		return 0, false
	}
	return signOf(maximize) * *k.Score, true
}

// addEarlier adds earlier searches, each shifted to the level of the next newer one: data drift, and with them what a
// good score is. The shift is estimated from configurations that both have tried; if there are none, from the medians.
func (h *history) addEarlier(d *domain, earlier []sweep.Earlier, maximize bool) {
	h.level = map[string]float64{}
	var newer []float64

	for i, s := range earlier {
		results := slices.SortedFunc(slices.Values(s.Trials),
			func(a, b sweep.Seen) int { return cmp.Compare(a.Trial, b.Trial) })

		var found []observation
		for _, k := range results {
			score, known := scoreOf(k, maximize)
			if !known {
				continue
			}
			if p, ok := d.locate(d.respell(normalizeNumbers(k.Params))); ok {
				found = append(found, observation{point: p, score: score, age: i + 1})
			}
		}

		var scores []float64
		shift := h.levelShift(found, newer)
		for _, o := range found {
			o.score += shift
			scores = append(scores, o.score)
			h.earlier = append(h.earlier, o)
			if _, known := h.level[keyOf(o.params)]; !known {
				h.level[keyOf(o.params)] = o.score
			}
		}
		if len(scores) > 0 {
			newer = scores
		}
	}
}

// levelShift is what has to be added to found's scores for the level of newer searches: the median difference of
// configurations that both have or, without any, that of the medians; 0 if either has too few scores.
func (h *history) levelShift(found []observation, newer []float64) float64 {
	var differences, scores []float64
	for _, o := range found {
		scores = append(scores, o.score)
		if level, known := h.level[keyOf(o.params)]; known {
			differences = append(differences, level-o.score)
		}
	}

	const enough = 10 // least number for a meaningful median
	switch {
	case len(differences) > 0:
		return median(differences)
	case len(scores) >= enough && len(newer) >= enough:
		return median(newer) - median(scores)
	}
	return 0
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

const (
	// clipRange limits how far below the median a score may be, in distances of the best from the median: how bad the
	// bad ones are is irrelevant.
	clipRange = 4
	// warpShare is the weight of the rank in a warped score.
	warpShare = 0.5
)

// warpScores transforms scores for a model that assumes normal distributions: half standardized values with the bad end
// clipped, half normal scores of their ranks. Equal scores stay equal.
func warpScores(scores []float64) []float64 {
	n := len(scores)
	sorted := slices.Sorted(slices.Values(scores))
	clipped := make([]float64, n)

	middle, best := median(scores), sorted[n-1]
	for i, s := range scores {
		clipped[i] = max(s, middle-clipRange*(best-middle))
	}
	mean, std := stat.PopMeanStdDev(clipped, nil)

	out := make([]float64, n)
	for i, s := range scores {
		first, _ := slices.BinarySearch(sorted, s)
		last, _ := slices.BinarySearch(sorted, math.Nextafter(s, math.Inf(1)))
		last--
		rank := distuv.UnitNormal.Quantile((float64(first+last)/2 + 0.5) / float64(n))
		if std > 0 {
			out[i] = warpShare*rank + (1-warpShare)*(clipped[i]-mean)/std
		}
	}
	return out
}

// winner is a good configuration of an earlier search.
type winner struct {
	params sweep.Params
	key    string
	from   string
	score  float64
	rank   int
}

// maxWarm bounds the winners that a search begins with.
const maxWarm = 5

// winners returns the best configurations of earlier searches that fit the space: the best of each, newest first, then
// the second best of each, and so on.
func (a *asker) winners() []winner {
	var ranked [][]winner
	for _, s := range a.Earlier {
		var all, of []winner
		for _, k := range s.Trials {
			if score, known := scoreOf(k, a.Maximize); known && k.Status == sweep.StatusDone {
				params := a.respell(normalizeNumbers(k.Params))
				all = append(all, winner{params: params, key: keyOf(params), from: string(s.Sweep), score: score})
			}
		}
		slices.SortStableFunc(all, func(x, y winner) int {
			return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.key, y.key))
		})
		for i := 0; i < len(all) && len(of) < maxWarm; i++ {
			if a.fits(all[i].params) {
				of = append(of, all[i])
			}
		}
		ranked = append(ranked, of)
	}

	var out []winner
	seen := map[string]bool{}
	for rank := range maxWarm {
		for _, of := range ranked {
			if rank >= len(of) || len(out) == maxWarm || seen[of[rank].key] {
				continue
			}
			w := of[rank]
			w.rank = rank + 1
			seen[w.key] = true
			out = append(out, w)
		}
	}
	return out
}

func (a *asker) sign() float64 { return signOf(a.Maximize) }

// signOf is what a score is multiplied with so that higher is better.
func signOf(maximize bool) float64 {
	if maximize {
		return 1
	}
	return -1
}
