package search

import (
	"cmp"
	"maps"
	"slices"

	"coppice/internal/sweep"
)

// Begin lists the first trials of a sweep with a method, which do not depend on its results. With halton these are all
// trials, points of the sequence.
//
// A search that learns begins with the default configuration. With the methods auto and gp, winners of earlier sweeps
// follow, at most half of the trials. With auto, a portfolio follows if the parameters' names suggest boosted trees:
// about a quarter of the trials if there are earlier sweeps, else at most half.
//
// known are the trials that the plan has already, and total is how many it shall have. complete returns a configuration
// with all parameters, or an error if it cannot be trained. The trials that Begin returns have complete parameters and
// are numbered after the known ones.
func Begin(p *sweep.Plan, known []sweep.Trial, total int, complete func(sweep.Params) (sweep.Params,
	error)) ([]sweep.Trial, error) {
	a, err := newAsker(askOf(p, known, nil))
	if err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, t := range known {
		keys[sweep.ConfigurationKey(t.Params)] = true
	}

	// The default comes first. The asker is made anew, so that it counts the default as tried.
	var out []sweep.Trial
	if d := a.byDefault(p, complete); d != nil && !keys[sweep.ConfigurationKey(d.Params)] && len(known) < total {
		d.Number = len(known)
		keys[sweep.ConfigurationKey(d.Params)] = true
		out = append(out, *d)
		if a, err = newAsker(askOf(p, append(slices.Clone(known), out...), nil)); err != nil {
			return nil, err
		}
	}

	// Suggestions that cannot be trained, or repeat a trial, are remembered as tried and left out. A space without axes
	// has nothing to suggest.
	first := len(out)
	for len(a.axes) > 0 && len(known)+len(out) < total {
		s := a.suggestBeginning(p.Spec.Search.Method, len(out)-first, total-len(known))
		if s == nil {
			break
		}
		a.remember(sweep.Seen{Trial: a.next, Params: s.Params, Status: sweep.StatusRunning})

		full, err := complete(s.Params)
		if err != nil || keys[sweep.ConfigurationKey(full)] {
			continue // not an error, since no person listed it
		}
		keys[sweep.ConfigurationKey(full)] = true
		out = append(out, sweep.Trial{Number: len(known) + len(out), Source: s.Source, Reason: s.Reason, Params: full})
	}
	return out, nil
}

// byDefault returns a trial of the default configuration, the spec's params as they are. A search that learns tries it
// before all others, since what is found has to be better. Its values may lie outside the space, as those of fixed
// configurations may. The trial is nil if every configuration is listed, or if the trainer or a constraint refuses it.
func (a *asker) byDefault(p *sweep.Plan, complete func(sweep.Params) (sweep.Params, error)) *sweep.Trial {
	if p.Spec.Search.Listed() {
		return nil
	}
	full, err := complete(nil)
	if err != nil || a.findViolated(Own(p, full)) != nil {
		return nil
	}
	return &sweep.Trial{Source: SourceDefault, Reason: "the default: params as they are", Params: full}
}

// suggestBeginning returns the next trial that depends on no result of the sweep, or nil if the next one is to be
// decided later. after is how many trials Begin has listed so far without the default, and wanted is how many trials
// the sweep has beside the ones that Begin was given.
func (a *asker) suggestBeginning(method string, after, wanted int) *Suggestion {
	switch method {
	case sweep.MethodHalton:
		return a.byMethod()
	case sweep.MethodAuto, sweep.MethodGP:
	default: // only these two use results of earlier sweeps or the portfolio
		return nil
	}

	inFirstHalf := after < wanted/2
	if inFirstHalf {
		for _, w := range a.warm {
			if !a.isTried(w.params) {
				return suggest(SourceWarm, w.params, "number %d of %s, with %s", w.rank, w.from,
					sweep.Score(a.sign()*w.score, 0))
			}
		}
	}

	// With earlier results, fromPortfolio itself bounds its share of the trials.
	if method == sweep.MethodAuto && (inFirstHalf || len(a.history.earlier) > 0) {
		return a.fromPortfolio(wanted)
	}
	return nil
}

// Decide says what an open trial of a plan trains. In a plan with folds, trial is that of a configuration's first fold,
// and the decision holds for all its folds. seen is what is known about the plan's other trials, and refused has the
// proposals for this trial that turned out not to be trainable. The decision is a pure function of the arguments. If a
// selection of columns or a population has ended before the trial, the error is a *SelectedError.
func Decide(p *sweep.Plan, trial int, seen []sweep.Seen, refused []sweep.Params) (Suggestion, error) {
	if p.Spec.Search.Features != nil {
		return decideForward(p, trial, seen)
	}
	if p.Breeds() {
		return decidePopulation(p, trial, seen, refused)
	}

	// Of each configuration that the plan lists, one trial counts.
	listed := slices.DeleteFunc(slices.Clone(p.Trials),
		func(t sweep.Trial) bool { return t.Open || t.Refit || t.Fold > 1 })
	ask, weights := askOf(p, listed, seen), ""
	if goals := p.Spec.Goals; len(goals) > 0 {
		weights = ask.scalarize(goals, trial)
	}
	a, err := newAsker(ask)
	if err != nil {
		return Suggestion{}, err
	}

	// What was refused counts as tried, and draws depend on the trial's place among the configurations.
	for _, params := range refused {
		a.tried[keyOf(params)] = trial + 1
	}
	a.next = p.Ordinal(trial)

	s := a.byMethod()
	if s == nil {
		return Suggestion{}, a.exhaustedError()
	}
	if s.Trial = trial; weights != "" {
		s.Reason += "; " + weights
	}
	return *s, nil
}

// askOf returns a request for one trial of a plan. listed are the trials whose configurations the plan has, and seen is
// what is known about any trials. A listed trial about which nothing is known counts as running. The score of a trial
// that was stopped at a rung is replaced by the one that it would probably have ended with.
func askOf(p *sweep.Plan, listed []sweep.Trial, seen []sweep.Seen) Ask {
	q := Ask{Search: sweep.Search{Random: p.Spec.Search.Random, Constraints: p.Spec.Search.Constraints},
		Method: methodOf(p), Maximize: p.Maximize, Seed: p.Spec.Seed, Number: 1, Base: p.Base, Earlier: p.Earlier,
		apart: map[int]bool{}}

	// Listed trials have their configurations from the plan, and open ones from what is known.
	known, ends := map[int]sweep.Seen{}, expectedEnds(seen)
	for _, s := range seen {
		if end, stopped := ends[s.Trial]; stopped {
			s.Score = &end
		}
		known[s.Trial] = s
	}
	for _, t := range listed {
		s, has := known[t.Number]
		if !has {
			s = sweep.Seen{Trial: t.Number, Status: sweep.StatusRunning}
		}
		s.Params = t.Params
		known[t.Number], q.apart[t.Number] = s, isApart(p, t.Params)
	}

	// Only the searched parameters matter.
	for _, trial := range slices.Sorted(maps.Keys(known)) {
		if s := known[trial]; s.Params != nil { // a trial without ended before its configuration was decided
			s.Params = Own(p, s.Params)
			q.Known = append(q.Known, s)
		}
	}
	return q
}

// isApart reports whether complete parameters differ from the plan's base in parameters outside the space, as a point
// of a grid over other parameters does.
func isApart(p *sweep.Plan, complete sweep.Params) bool {
	for name, v := range complete {
		_, drawn := p.Spec.Search.Random[name]
		if base, has := p.Base[name]; has && !drawn && !same(sweep.ToFloat(v), sweep.ToFloat(base)) {
			return true
		}
	}
	return false
}

// methodOf returns the method that decides an open trial. With auto it is the Gaussian process, since what auto begins
// with is listed in the plan.
func methodOf(p *sweep.Plan) string {
	if p.Spec.Search.Method == sweep.MethodAuto {
		return sweep.MethodGP
	}
	return cmp.Or(p.Spec.Search.Method, sweep.MethodRandom)
}

// Own returns those of a trial's complete parameters that are searched: the ones in search.random.
func Own(p *sweep.Plan, complete sweep.Params) sweep.Params {
	own := sweep.Params{}
	for name := range p.Spec.Search.Random {
		if v, has := complete[name]; has {
			own[name] = v
		}
	}
	return own
}

// Fitting selects results of an earlier sweep that can inform a plan's search: those of finished trials whose
// configurations are in the plan's space and, with several objectives, whose objectives are all known. It returns at
// most limit of them, best first, with the searched parameters only.
func Fitting(p *sweep.Plan, results []sweep.Result, limit int) ([]sweep.Seen, error) {
	a, err := newAsker(askOf(p, nil, nil))
	if err != nil {
		return nil, err
	}

	var out []sweep.Seen
	for _, r := range results {
		own := a.respell(normalizeNumbers(Own(p, r.Params)))
		values := p.Spec.Values(&r)
		if len(p.Spec.Goals) > 0 && values == nil {
			continue
		}
		if r.Status == sweep.StatusDone && sweep.Finite(r.Score) && a.fits(own) {
			out = append(out, sweep.Seen{Trial: r.Trial, Status: r.Status, Score: &r.Score, Params: own,
				Values: values})
		}
	}

	slices.SortFunc(out, func(x, y sweep.Seen) int {
		return cmp.Or(cmp.Compare(a.sign()**y.Score, a.sign()**x.Score), cmp.Compare(x.Trial, y.Trial))
	})
	return out[:min(len(out), limit)], nil
}
