package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coppice/sweep"
)

// Constants of population-based training: the usual ones of Jaderberg et al. (2017).
const (
	pbtReplaced = 0.2 // of a generation go on from the models of as many of the best
	pbtRedrawn  = 0.25
	pbtStream   = 0x9b7
)

// pbtFactors are what numbers are multiplied with when a model goes on with other parameters.
var pbtFactors = [2]float64{0.8, 1.25}

// decidePopulation says what a trial of a population trains and whose model it continues (population-based training: Jaderberg et al. 2017,
// with generations that wait for each other). In the first generation parameters are drawn at random. Later, a member goes on from its own
// model with the same parameters; the worst fifth go on from models of the best fifth, with parameters changed by a factor. It looks at the
// generation before only, all of which has ended, so it is the same for any number of tasks.
func decidePopulation(p *sweep.Plan, trial int, seen []sweep.Seen, refused []sweep.Params) (Suggestion, error) {
	q := Ask{Search: sweep.Search{Random: p.Spec.Search.Random, Constraints: p.Spec.Search.Constraints}, Method: MethodRandom, Maximize: p.Maximize, Seed: p.Spec.Seed,
		Number: 1, Base: p.Base}
	a, err := newAsker(q)
	if err != nil {
		return Suggestion{}, err
	}
	a.next = trial
	for _, params := range refused {
		a.tried[keyOf(normalized(params))] = trial + 1
	}

	generation, size := p.Generation(trial), p.Spec.Search.Population
	if generation == 0 {
		proposal := a.byMethod()
		if proposal == nil {
			return Suggestion{}, &ExhaustedError{Wanted: 1, Tried: len(a.tried), Space: a.extent()}
		}
		return Suggestion{Trial: trial, Params: proposal.params, Source: sweep.MethodPBT, Reason: "the first generation is drawn by the seed and the trial's number"}, nil
	}

	var before []sweep.Seen // of the generation before, best first
	for _, s := range seen {
		if p.Generation(s.Trial) == generation-1 && s.Status == sweep.StatusDone && s.Score != nil && finite(*s.Score) && s.Params != nil {
			before = append(before, s)
		}
	}
	if len(before) == 0 {
		return Suggestion{}, &SelectedError{fmt.Sprintf("the population has died out: no trial of generation %d has a model", generation)}
	}
	slices.SortFunc(before, func(x, y sweep.Seen) int {
		return cmp.Or(cmp.Compare(a.sign()**y.Score, a.sign()**x.Score), cmp.Compare(x.Trial, y.Trial))
	})

	own := slices.IndexFunc(before, func(s sweep.Seen) bool { return s.Trial == trial-size })
	replaced := max(1, int(math.Round(pbtReplaced*float64(size))))
	rng := rand.New(rand.NewPCG(p.Spec.Seed^pbtStream, uint64(trial)))
	// Members without a model count as the worst.
	if own >= 0 && own < size-replaced && !a.isTried(normalized(before[own].Params)) {
		s := before[own]
		return from(trial, s, normalized(s.Params), fmt.Sprintf("generation %d: it goes on from trial %d, number %d of %d with %s %.6g", generation+1, s.Trial, own+1, len(before), p.Spec.Metric, *s.Score)), nil
	}

	best := before[rng.IntN(min(replaced, len(before)))]
	why := fmt.Sprintf("trial %d has no model", trial-size)
	if own >= 0 {
		why = fmt.Sprintf("trial %d was number %d of %d with %s %.6g", trial-size, own+1, len(before), p.Spec.Metric, *before[own].Score)
	}
	return from(trial, best, a.changed(rng, normalized(best.Params)), fmt.Sprintf("generation %d: %s; it goes on from trial %d with %.6g, with other parameters", generation+1, why, best.Trial, *best.Score)), nil
}

func from(trial int, parent sweep.Seen, params sweep.Params, reason string) Suggestion {
	return Suggestion{Trial: trial, Params: params, Source: sweep.MethodPBT, Reason: reason, Parent: &parent.Trial}
}

// changed returns parameters with every number multiplied by one of the factors and every other choice drawn again now and then, within the
// space. If no attempt is allowed by the constraints, they stay as they are.
func (a *asker) changed(rng *rand.Rand, params sweep.Params) sweep.Params {
	for range attempts {
		at := make([]float64, len(a.axes))
		for j := range a.axes {
			axis := &a.axes[j]
			v, has := params[axis.name]
			u, known := axis.place(v)
			x, number := v.(float64)
			switch {
			case !has || !known:
				u = rng.Float64()
			case axis.ordered && number:
				if moved, ok := axis.place(x * pbtFactors[rng.IntN(len(pbtFactors))]); ok {
					u = moved
				} else if rng.Float64() < pbtRedrawn { // one of a list of numbers
					u = rng.Float64()
				}
			case rng.Float64() < pbtRedrawn:
				u = rng.Float64()
			}
			at[j] = u
		}
		if out := a.config(at); a.usable(out) && keyOf(out) != keyOf(params) {
			return out
		}
	}
	return params
}
