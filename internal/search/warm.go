package search

import (
	"cmp"
	"fmt"
	"slices"

	"coppice/internal/sweep"
)

// winner is a good configuration of an earlier search.
type winner struct {
	params sweep.Params
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
	for i := range a.Earlier {
		s := a.Earlier[len(a.Earlier)-1-i]
		var of []winner
		for _, k := range s.Results {
			params := a.spelled(normalized(k.Params))
			if score, known := scoreOf(k, a.Maximize); known && k.Status == TrialDone && a.fits(params) {
				of = append(of, winner{params: params, from: s.Name, score: score})
			}
		}
		slices.SortStableFunc(of, func(x, y winner) int {
			return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(keyOf(x.params), keyOf(y.params)))
		})
		ranked = append(ranked, of)
	}

	var out []winner
	seen := map[string]bool{}
	for rank := range maxWarm {
		for _, of := range ranked {
			if rank >= len(of) || len(out) == maxWarm || seen[keyOf(of[rank].params)] {
				continue
			}
			w := of[rank]
			w.rank = rank + 1
			seen[keyOf(w.params)] = true
			out = append(out, w)
		}
	}
	return out
}

// fromWarm returns the next winner of an earlier search, as long as at least half of so many trials in total are new.
func (a *asker) fromWarm(total int) *proposal {
	taken := 0
	var next *winner
	for i := range a.warm {
		switch {
		case a.isTried(a.warm[i].params):
			taken++
		case next == nil:
			next = &a.warm[i]
		}
	}

	if next == nil || 2*(taken+1) > total+total%2 {
		return nil
	}
	return a.warmProposal(next)
}

func (a *asker) warmProposal(w *winner) *proposal {
	return &proposal{w.params, SourceWarm, fmt.Sprintf("number %d of %s, with %.6g", w.rank, w.from, a.sign()*w.score)}
}

func (a *asker) sign() float64 {
	if a.Maximize {
		return 1
	}
	return -1
}
