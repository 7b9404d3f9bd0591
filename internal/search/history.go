package search

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
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

// add adds a trial of this search. One whose configuration is not in the space is ignored.
func (h *history) add(d *domain, k Known, maximize bool) {
	p, ok := d.locate(k.Params)
	if !ok {
		return
	}

	score, known := scoreOf(k, maximize)
	switch {
	case k.Status == TrialRunning:
		h.pending = append(h.pending, p)
	case known:
		h.finished = append(h.finished, observation{point: p, score: score})
	case k.Status == TrialFailed, k.Status == TrialDone:
		h.failed = append(h.failed, p)
	} // of one that a person stopped nothing is known, not even that it was one of the worst
}

// scoreOf returns a trial's score. A stopped trial may only have a curve, whose best value counts. A value that is not
// finite is no score.
func scoreOf(k Known, maximize bool) (score float64, known bool) {
	sign := -1.0
	if maximize {
		sign = 1
	}

	switch k.Status {
	case TrialDone:
		return sign * k.Value, finite(k.Value)
	case TrialStopped:
		if finite(k.Value) {
			return sign * k.Value, true
		}
		score = math.Inf(-1)
		for _, v := range k.Curve {
			if finite(v) {
				score = max(score, sign*v)
			}
		}
		return score, finite(score)
	}
	return 0, false
}

// learn adds earlier searches, each shifted to the level of the next newer one: data drift, and with them what a good
// score is. The shift is estimated from configurations that both have tried; if there are none, from the medians.
func (h *history) learn(d *domain, earlier []Sweep, maximize bool) {
	h.level = map[string]float64{}
	var newer []float64

	for i := range earlier {
		s := earlier[len(earlier)-1-i]
		results := slices.SortedFunc(slices.Values(s.Results),
			func(a, b Known) int { return cmp.Compare(a.Trial, b.Trial) })

		var found []observation
		for _, k := range results {
			score, known := scoreOf(k, maximize)
			if !known {
				continue
			}
			if p, ok := d.locate(d.spelled(normalized(k.Params))); ok {
				found = append(found, observation{point: p, score: score, age: i + 1})
			}
		}

		var scores []float64
		shift := h.shift(found, newer)
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

// shift is the amount that brings scores to the level of newer searches.
func (h *history) shift(found []observation, newer []float64) float64 {
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

// warped transforms scores for a model that assumes normal distributions: half standardized values with the bad end
// clipped, half normal scores of their ranks. Equal scores stay equal.
func warped(scores []float64) []float64 {
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
		last := first
		for last+1 < n && sorted[last+1] == s {
			last++
		}
		rank := distuv.UnitNormal.Quantile((float64(first+last)/2 + 0.5) / float64(n))
		if std > 0 {
			out[i] = warpShare*rank + (1-warpShare)*(clipped[i]-mean)/std
		}
	}
	return out
}
