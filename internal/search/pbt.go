package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coppice/internal/sweep"
)

// Constants of population-based training: the usual ones of Jaderberg et al. (2017).
const (
	pbtReplaced = 0.2   // of a generation, the worst, continue models of as many of the best
	pbtRedrawn  = 0.25  // probability with which a value that cannot be multiplied is drawn again
	pbtStream   = 0x9b7 // tells the random bits of a population from others of the same seed
)

// pbtFactors are what a number is multiplied by, one of the two, when a model goes on with other parameters.
var pbtFactors = [2]float64{0.8, 1.25}

// decidePopulation says what a trial of a population trains and whose model it continues. This is population-based
// training (Jaderberg et al. 2017) with generations that wait for each other: member m of a generation of n is trial m
// of the first generation, n+m of the second, and so on. In the first generation parameters are drawn at random. Later,
// a member continues its own model with the same parameters. The worst fifth continue models of the best fifth instead,
// with parameters changed by a factor.
//
// A decision depends on the generation before only, all of which has ended. To avoid what the members with lower
// numbers train, it decides those anew instead of reading their decisions. So it is the same whichever task decides
// first. refused has the proposals for this trial that could not be trained. The error is a *SelectedError if no trial
// of the generation before has a model.
func decidePopulation(p *sweep.Plan, trial int, seen []sweep.Seen, refused []sweep.Params) (Suggestion, error) {
	q := askOf(p, nil, nil)
	q.Method, q.Earlier = sweep.MethodRandom, nil
	a, err := newAsker(q)
	if err != nil {
		return Suggestion{}, err
	}
	b := &breeder{asker: a, p: p, taken: map[string]bool{}}

	size := p.Spec.Search.Population
	first := p.Generation(trial) * size // the first trial of this generation
	if first > 0 {
		b.before = b.rankGeneration(first-size, seen)
		if len(b.before) == 0 {
			return Suggestion{},
				&SelectedError{fmt.Sprintf("the population has died out: no trial of generation %d has a model",
					first/size)}
		}
	}

	// A member for which nothing is left takes nothing from the others.
	for n := first; n < trial; n++ {
		if s, err := b.member(n); err == nil {
			b.taken[keyFrom(s.Parent, s.Params)] = true
		}
	}
	for _, params := range refused {
		a.tried[keyOf(params)] = trial + 1
	}
	return b.member(trial)
}

// breeder decides the members of one generation, in the order of their numbers.
type breeder struct {
	*asker
	p      *sweep.Plan
	before []sweep.Seen    // the generation before: its members with a model, best first; nil in the first generation
	taken  map[string]bool // what members with lower numbers train, by keyFrom
}

// rankGeneration returns the trials of the generation that starts at first which have a model, best first.
func (b *breeder) rankGeneration(first int, seen []sweep.Seen) (before []sweep.Seen) {
	for _, s := range seen {
		if b.p.Generation(s.Trial) == b.p.Generation(first) && s.Status == sweep.StatusDone && s.Score != nil &&
			sweep.Finite(*s.Score) && s.Params != nil {
			before = append(before, s)
		}
	}
	slices.SortFunc(before, func(x, y sweep.Seen) int {
		return cmp.Or(cmp.Compare(b.sign()**y.Score, b.sign()**x.Score), cmp.Compare(x.Trial, y.Trial))
	})
	return before
}

// member decides one trial of the population. In the first generation its parameters are drawn. Later it continues its
// own model, or, if it is one of the worst, the model of one of the best with other parameters. If all parameters near
// the best have been tried, one of the worst continues its own model, too. It is an error if nothing is left to train.
func (b *breeder) member(trial int) (Suggestion, error) {
	b.next = trial
	if b.before == nil {
		b.tabu = func(params sweep.Params) bool { return b.taken[keyFrom(nil, params)] }
		s := b.byMethod()
		if s == nil {
			return Suggestion{}, b.exhaustedError()
		}
		return Suggestion{Trial: trial, Params: s.Params, Source: sweep.MethodPBT,
			Reason: "the first generation is drawn by the seed and the trial's number"}, nil
	}

	// Where the same member ranked in the generation before; -1 if it has no model. It may not go on with parameters
	// that have been refused, which count as tried.
	size, metric := b.p.Spec.Search.Population, b.p.Spec.Metric
	generation := b.p.Generation(trial) + 1
	own := slices.IndexFunc(b.before, func(s sweep.Seen) bool { return s.Trial == trial-size })
	replaced := max(1, int(math.Round(pbtReplaced*float64(size))))
	goesOn := own >= 0 && !b.isTried(normalizeNumbers(b.before[own].Params))

	// It is not one of the worst. b.before has the best first, and members without a model, which it leaves out, count
	// as the worst.
	if goesOn && own < size-replaced {
		s := b.before[own]
		return continueFrom(trial, s, normalizeNumbers(s.Params),
			fmt.Sprintf("generation %d: continues trial %d, number %d of %d with %s %.6g", generation, s.Trial,
				own+1, len(b.before), metric, *s.Score)), nil
	}

	// It is one of the worst: choose one of the best at random, and try them in turn from that one on.
	why := fmt.Sprintf("trial %d has no model", trial-size)
	if own >= 0 {
		why = fmt.Sprintf("trial %d was number %d of %d with %s %.6g", trial-size, own+1, len(b.before), metric,
			*b.before[own].Score)
	}
	rng := rand.New(rand.NewPCG(b.p.Spec.Seed^pbtStream, uint64(trial)))
	best := b.before[:min(replaced, len(b.before))]
	chosen := rng.IntN(len(best))
	for i := range best {
		parent := best[(chosen+i)%len(best)]
		b.tabu = func(params sweep.Params) bool { return b.taken[keyFrom(&parent.Trial, params)] }
		if params := b.perturb(rng, normalizeNumbers(parent.Params)); params != nil {
			return continueFrom(trial, parent, params,
				fmt.Sprintf("generation %d: %s; continues trial %d (%.6g) with other parameters", generation,
					why, parent.Trial, *parent.Score)), nil
		}
	}

	// All near the best have been tried.
	if !goesOn {
		return Suggestion{}, b.exhaustedError()
	}
	s := b.before[own]
	return continueFrom(trial, s, normalizeNumbers(s.Params),
		fmt.Sprintf("generation %d: %s; continues its own model, since the best have no untried parameters left",
			generation, why)), nil
}

// keyFrom returns a key that is the same exactly for members that train the same model: those with equal parameters
// that continue the model of the same trial. parent is nil in the first generation.
func keyFrom(parent *int, params sweep.Params) string {
	if parent == nil {
		return keyOf(params)
	}
	return fmt.Sprintf("%d %s", *parent, keyOf(params))
}

// continueFrom returns the suggestion that a trial continues the model of another, parent, with params.
func continueFrom(trial int, parent sweep.Seen, params sweep.Params, reason string) Suggestion {
	return Suggestion{Trial: trial, Params: params, Source: sweep.MethodPBT, Reason: reason, Parent: &parent.Trial}
}

// perturb returns other parameters near those given. Every number is multiplied by one of the factors, within its
// bounds. A choice, and a number that a factor takes to none of its values, is drawn again with the probability
// pbtRedrawn. It returns nil if no attempt comes to parameters that are new and that the constraints allow.
func (a *asker) perturb(rng *rand.Rand, params sweep.Params) sweep.Params {
	for range attempts {
		// Move on every axis; a value that is missing or not in the space is drawn.
		at := make([]float64, len(a.axes))
		for j := range a.axes {
			axis := &a.axes[j]
			v, has := params[axis.name]
			u, known := axis.positionOf(v)
			x, number := v.(float64)
			switch {
			case !has || !known:
				u = rng.Float64()
			case axis.ordered && number:
				if moved, ok := axis.multiply(x, pbtFactors[rng.IntN(len(pbtFactors))]); ok {
					u = moved
				} else if rng.Float64() < pbtRedrawn { // a choice of numbers, without the product
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
	return nil
}

// multiply returns the position of x multiplied by a factor; ok is false if the product has none, as on an axis of
// choices. A small whole number would be rounded back to what it was, so a whole or stepped number moves by at least
// one step, up or down as the factor says.
func (a *axis) multiply(x, factor float64) (u float64, ok bool) {
	was, _ := a.positionOf(x)
	u, ok = a.positionOf(x * factor)
	if ok && a.step > 0 && a.value(u) == a.value(was) {
		// The sign is that of the move. It is right for x = 0, too: the product is -0 for a factor below 1.
		if u, ok = a.positionOf(x + math.Copysign(a.step, x*(factor-1))); !ok { // 0 has no logarithm: stay
			return was, true
		}
	}
	return u, ok
}
