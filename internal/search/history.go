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
	finished []observation      // trials of this search with a score, by number
	failed   []point            // trials of this search that have failed
	pending  []point            // trials of this search that are running
	earlier  []observation      // of earlier searches, shifted to the level of the newest of them
	level    map[string]float64 // of earlier: the score of a configuration in the newest search that has it, by keyOf
}

// observation is a configuration with its score.
type observation struct {
	point
	score float64
	age   int // in searches; 0 is this one
}

// addTrial adds a trial of this search, whose values have the space's spelling. A trial whose configuration has no
// position on the axes is ignored: a fixed configuration may have values that the space does not.
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

// addEarlier adds the results of earlier searches, which are given newest first. Data drift, and with them what a good
// score is: so each search's scores are shifted to the level of the newer ones. levelShift estimates the shift. Results
// whose configuration has no position in this space are left out.
func (h *history) addEarlier(d *domain, earlier []sweep.Earlier, maximize bool) {
	h.level = map[string]float64{}
	var newer []float64

	for i, s := range earlier {
		// Find the results with a score and a position, in the order of the trials, so that their order does not
		// matter.
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

		// Shifted scores are at the level of the newest search, so they serve to shift the next older one.
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

// levelShift returns what has to be added to the scores of found to bring them to the level of h.earlier. It is the
// median difference over configurations that both have. If there are none, it is the difference of the median scores,
// where newer has those of the search before; 0 if either has too few for that.
func (h *history) levelShift(found []observation, newer []float64) float64 {
	var differences, scores []float64
	for _, o := range found {
		scores = append(scores, o.score)
		if level, known := h.level[keyOf(o.params)]; known { // its score in an earlier search, at the common level
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

// median returns the median of at least one value, without changing their order.
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

// warpScores transforms scores, of which higher are better, for a model that assumes normal distributions. The result
// is the mean of two values: the standardized score, with the bad end clipped, and the normal score of its rank. If
// more than half of the scores are the best one, all others would be clipped to it: then it is the rank's score alone.
// Equal scores stay equal, and if all are equal the results are 0.
func warpScores(scores []float64) []float64 {
	n := len(scores)
	sorted := slices.Sorted(slices.Values(scores))
	clipped := make([]float64, n)

	// Clip the bad end and standardize. Unless the median is below the best score, all are clipped to that.
	middle, best := median(scores), sorted[n-1]
	for i, s := range scores {
		clipped[i] = max(s, middle-clipRange*(best-middle))
	}
	mean, std := stat.PopMeanStdDev(clipped, nil)

	// Equal scores get the mean of their ranks, first to last, counted from 0. The quantile is at the middle of the
	// rank's interval, which is never 0 or 1.
	out := make([]float64, n)
	for i, s := range scores {
		first, _ := slices.BinarySearch(sorted, s)
		last, _ := slices.BinarySearch(sorted, math.Nextafter(s, math.Inf(1))) // the first that is higher
		last--
		rank := distuv.UnitNormal.Quantile((float64(first+last)/2 + 0.5) / float64(n))
		out[i] = rank
		if best > middle && std > 0 { // also of scores so close that their variance is rounded to 0
			out[i] = warpShare*rank + (1-warpShare)*(clipped[i]-mean)/std
		}
	}
	return out
}

// winner is a good configuration of an earlier search.
type winner struct {
	params sweep.Params
	key    string  // keyOf params
	from   string  // the earlier sweep
	score  float64 // there; higher is better
	rank   int     // among the configurations of that sweep that fit this search's space, from 1
}

// maxWarm bounds the winners that a search begins with.
const maxWarm = 5

// winners returns at most maxWarm of the best configurations of earlier searches that fit the space: first the best of
// each search, newest search first, then the second best of each, and so on. None comes twice. A stopped trial is none
// of them, since its score is not that of a whole training.
func (a *asker) winners() []winner {
	// Rank the configurations of each search, and keep the best that fit.
	var ranked [][]winner
	for _, s := range a.Earlier {
		var all, fitting []winner
		for _, k := range s.Trials {
			if score, known := scoreOf(k, a.Maximize); known && k.Status == sweep.StatusDone {
				params := a.respell(normalizeNumbers(k.Params))
				all = append(all, winner{params: params, key: keyOf(params), from: string(s.Sweep), score: score})
			}
		}
		slices.SortStableFunc(all, func(x, y winner) int {
			return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.key, y.key))
		})
		for i := 0; i < len(all) && len(fitting) < maxWarm; i++ {
			if a.fits(all[i].params) {
				fitting = append(fitting, all[i])
			}
		}
		ranked = append(ranked, fitting)
	}

	// Take them in turn.
	var out []winner
	seen := map[string]bool{}
	for rank := range maxWarm {
		for _, fitting := range ranked {
			// Nothing is left of this search, there are enough, or another search has had the same configuration.
			if rank >= len(fitting) || len(out) == maxWarm || seen[fitting[rank].key] {
				continue
			}
			w := fitting[rank]
			w.rank = rank + 1
			seen[w.key] = true
			out = append(out, w)
		}
	}
	return out
}

func (a *asker) sign() float64 { return signOf(a.Maximize) }

// signOf returns what a score is multiplied by so that higher is better.
func signOf(maximize bool) float64 {
	if maximize {
		return 1
	}
	return -1
}
