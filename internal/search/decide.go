package search

import (
	"cmp"
	"maps"
	"slices"

	"coppice/internal/sweep"
)

// Begin lists the first trials of a sweep that learns, which do not depend on its results: winners of earlier sweeps,
// and a portfolio if names suggest boosted trees. Winners are at most half of total trials, and the portfolio about a
// quarter if there are winners, else at most half. known are the configurations that the plan has already. complete
// gives a configuration all its parameters, and refuses one that cannot be trained.
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

	var out []sweep.Trial
	if d := a.byDefault(p, complete); d != nil && !keys[sweep.ConfigurationKey(d.Params)] && len(known) < total {
		d.Number = len(known)
		keys[sweep.ConfigurationKey(d.Params)] = true
		out = append(out, *d)
		if a, err = newAsker(askOf(p, append(slices.Clone(known), out...), nil)); err != nil {
			return nil, err
		}
	}
	first := len(out)
	for len(a.axes) > 0 && len(known)+len(out) < total {
		s := a.suggestBeginning(p.Spec.Search.Method, len(out)-first, total-len(known))
		if s == nil {
			break
		}
		a.remember(sweep.Seen{Trial: a.next, Params: s.Params, Status: sweep.StatusRunning})

		full, err := complete(s.Params)
		if err != nil || keys[sweep.ConfigurationKey(full)] {
			continue // no person listed it: it is left out
		}
		keys[sweep.ConfigurationKey(full)] = true
		out = append(out, sweep.Trial{Number: len(known) + len(out), Source: s.Source, Reason: s.Reason, Params: full})
	}
	return out, nil
}

// byDefault is the default configuration, params as they are, which a search that learns tries before all others: what
// is found has to be better than it. Its values may lie outside the space, as those of fixed configurations may. It is
// nil if the trainer or a constraint refuses it.
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

// suggestBeginning is the next trial that depends on no result of the sweep, after so many of wanted; nil is none.
func (a *asker) suggestBeginning(method string, after, wanted int) *Suggestion {
	switch method {
	case sweep.MethodHalton:
		return a.byMethod()
	case sweep.MethodAuto, sweep.MethodGP:
	default:
		return nil
	}

	half := after < wanted/2
	for _, w := range a.warm {
		if !a.isTried(w.params) && half {
			return suggest(SourceWarm, w.params, "number %d of %s, with %s", w.rank, w.from,
				sweep.Score(a.sign()*w.score, 0))
		}
	}
	if method == sweep.MethodAuto && (half || len(a.history.earlier) > 0) {
		return a.fromPortfolio(wanted)
	}
	return nil
}

// Decide says what an open trial of a plan trains; in a plan with folds what a configuration does, by the number of its
// first fold. It is a pure function of the plan, of what is known about its other trials, and of the proposals that
// were refused before. If a selection of columns or a population has ended before the trial, the error is a
// *SelectedError.
func Decide(p *sweep.Plan, trial int, seen []sweep.Seen, refused []sweep.Params) (Suggestion, error) {
	if p.Spec.Search.Features != nil {
		return decideForward(p, trial, seen)
	}
	if p.Breeds() {
		return decidePopulation(p, trial, seen, refused)
	}
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
	for _, params := range refused {
		a.tried[keyOf(params)] = trial + 1
	}
	a.next = p.Ordinal(trial)

	s := a.byMethod()
	if s == nil {
		return Suggestion{}, a.exhaustedError(1, 1)
	}
	if s.Trial = trial; weights != "" {
		s.Reason += "; " + weights
	}
	return *s, nil
}

// askOf returns the request of a plan. A listed trial about which nothing is known is treated as running.
func askOf(p *sweep.Plan, listed []sweep.Trial, seen []sweep.Seen) Ask {
	q := Ask{Search: sweep.Search{Random: p.Spec.Search.Random, Constraints: p.Spec.Search.Constraints},
		Method: methodOf(p), Maximize: p.Maximize, Seed: p.Spec.Seed, Number: 1, Base: p.Base, Earlier: p.Earlier,
		apart: map[int]bool{}}

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

	for _, trial := range slices.Sorted(maps.Keys(known)) {
		if s := known[trial]; s.Params != nil { // without, it ended before it was decided
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

// methodOf returns the method that decides an open trial: the plan lists what auto begins with.
func methodOf(p *sweep.Plan) string {
	if p.Spec.Search.Method == sweep.MethodAuto {
		return sweep.MethodGP
	}
	return cmp.Or(p.Spec.Search.Method, sweep.MethodRandom)
}

// Own returns those of complete parameters that belong to the space.
func Own(p *sweep.Plan, complete sweep.Params) sweep.Params {
	own := sweep.Params{}
	for name := range p.Spec.Search.Random {
		if v, has := complete[name]; has {
			own[name] = v
		}
	}
	return own
}

// Fitting returns at most so many results of an earlier sweep whose configurations are in a plan's space, best first.
func Fitting(p *sweep.Plan, results []sweep.Result, most int) ([]sweep.Seen, error) {
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
	return out[:min(len(out), most)], nil
}
