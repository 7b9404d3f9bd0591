// Package search decides which configurations a sweep tries and which of the trials wins. It is pure: every decision is
// a function of its request and comes with a reason, so that it can be reproduced.
//
//	Propose   lists fixed configurations, the grid and random draws before the first machine starts
//	Begin     adds what a search that learns begins with: winners of earlier sweeps, a portfolio
//	Decide    says what an open trial trains, from what sweep.Seen says of the others
//	AtRung    compares a trial with others at a rung, Resumable says what becomes of those that wait there
//	Pick      orders the finished trials; with folds, Choose takes the configuration that the refit trains
//
// Constraint and Condition are the expressions that people write about parameters and about results; both are compiled
// by github.com/expr-lang/expr, restricted to arithmetic and comparisons.
package search

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Ask is a request for the next trial of a search. The answer does not depend on the order of the known trials.
type Ask struct {
	Search   sweep.Search // its random space and constraints
	Method   string       // one of Methods
	Maximize bool
	Seed     uint64
	Known    []sweep.Seen    // this search's trials so far
	Earlier  []sweep.Earlier // earlier searches for the same, newest first
	Number   int             // number of trials wanted; more than one only in tests

	// Base are the parameters that every trial has unless its own override them. Constraints may refer to them.
	Base sweep.Params

	// apart has the trials whose parameters outside the searched space differ from Base, such as those of a grid over
	// other parameters. Their results inform the search, but their configurations in the space are still to be tried.
	apart map[int]bool
}

// Methods returns the names of the methods that Ask may have. Population-based training is not among them, since it
// needs a plan with generations.
func Methods() []string {
	return slices.DeleteFunc(sweep.Methods(), func(m string) bool { return m == sweep.MethodPBT })
}

// Sources of a trial, beside the methods.
const (
	SourceFixed     = "fixed"
	SourceGrid      = "grid"
	SourceDefault   = "default"   // params as they are
	SourceWarm      = "warm"      // a winner of an earlier search
	SourcePortfolio = "portfolio" // a configuration that is known to be good for boosted trees
)

// Default returns the result of the default configuration, with which the search's finds are compared. It is nil if the
// sweep has no such trial, or if the trial is not done.
func Default(b sweep.Board) *sweep.Result {
	for _, row := range b.Rows {
		if r := row.Result; row.Trial.Source == SourceDefault && r != nil && r.Status == sweep.StatusDone {
			return r
		}
	}
	return nil
}

// Suggestion is a trial to run, with its source and the reason.
type Suggestion struct {
	Trial  int
	Params sweep.Params
	Source string
	Reason string

	Parent *int // of a population: the trial whose model it continues
}

// suggest returns a suggestion whose reason is formatted; the caller sets its trial.
func suggest(source string, params sweep.Params, format string, args ...any) *Suggestion {
	return &Suggestion{Params: params, Source: source, Reason: fmt.Sprintf(format, args...)}
}

// asker answers one Ask.
type asker struct {
	Ask
	*domain
	tried   map[string]int          // 1 + the number of the first trial with a configuration, by keyOf; 0 is none
	tabu    func(sweep.Params) bool // what else may not be proposed; nil is nothing
	next    int                     // number of the next trial
	history history
	rest    []uint64     // of a countable space, the configurations that fromRest has not looked at; nil before
	warm    []winner     // of earlier searches
	model   *fittedModel // fitted to the finished trials; nil before
	spread  *mat.Dense   // [maxPoints x axes], the points of the Halton sequence; nil before
}

// newAsker checks a request and remembers its trials in the order of their numbers, so that the same trials lead to the
// same proposal, whatever the order in which they are given.
func newAsker(r Ask) (*asker, error) {
	if !slices.Contains(Methods(), r.Method) {
		return nil, specErrorf("method", "%.60q is unknown; use one of %v", r.Method, Methods())
	}
	d, err := newDomain(r.Search, r.Base)
	if err != nil {
		return nil, err
	}
	a := &asker{Ask: r, domain: d, tried: map[string]int{}}
	known := slices.SortedFunc(slices.Values(r.Known),
		func(x, y sweep.Seen) int { return cmp.Compare(x.Trial, y.Trial) })
	for _, k := range known {
		a.remember(k)
	}
	a.warm = a.winners()
	a.history.addEarlier(a.domain, r.Earlier, r.Maximize)
	return a, nil
}

// remember adds a trial: its configuration counts as tried unless the trial is in apart, its result informs the model,
// and the next trial's number is above it.
func (a *asker) remember(k sweep.Seen) {
	k.Params = a.respell(normalizeNumbers(k.Params))
	a.next = max(a.next, k.Trial+1)
	if key := keyOf(k.Params); a.tried[key] == 0 && !a.apart[k.Trial] {
		a.tried[key] = k.Trial + 1
	}
	a.history.addTrial(a.domain, k, a.Maximize)
}

func (a *asker) isTried(params sweep.Params) bool { return a.tried[keyOf(params)] > 0 }

// byMethod returns the method's suggestion. If the method finds none, it returns a configuration that is left in a
// space that can be enumerated, or nil.
func (a *asker) byMethod() *Suggestion {
	var s *Suggestion
	switch a.Method {
	case sweep.MethodRandom:
		s = a.fromRandom()
	case sweep.MethodHalton:
		s = a.fromHalton("the next point of the sequence")
	default:
		s = a.fromGP()
	}

	if s == nil {
		s = a.fromRest()
	}
	return s
}

// attempts is how often a method that draws tries to find a configuration that is new and violates no constraint.
const attempts = 2000

// fromRandom draws a configuration for the next trial, or returns nil if none of many draws is usable. Each parameter
// is drawn by a key of the seed, the trial's number, the attempt and its name. So a trial's draw depends on no other
// trial.
func (a *asker) fromRandom() *Suggestion {
	for i := range uint64(attempts) {
		at := make([]float64, len(a.axes))
		for j := range a.axes {
			// 2^20 exceeds attempts, so no two trials share a key.
			at[j] = unit(random(a.Seed, uint64(a.next)<<20+i, a.axes[j].name))
		}
		if params := a.config(at); a.usable(params) {
			return suggest(sweep.MethodRandom, params, "drawn by the seed and the trial's number")
		}
	}
	return nil
}

// usable reports whether a configuration may be proposed.
func (a *asker) usable(params sweep.Params) bool {
	return a.findViolated(params) == nil && !a.isTried(params) && (a.tabu == nil || !a.tabu(params))
}

// fromRest returns the next usable configuration of an enumeration of the space in a random order, or nil if none is
// left or if the space is too large to be enumerated. It serves when the method finds nothing new any more. Further
// calls go on with the enumeration.
func (a *asker) fromRest() *Suggestion {
	if a.size == 0 || a.size > maxEnumerated {
		return nil
	}

	if a.rest == nil {
		a.rest = space{size: a.size}.order(a.Seed)
	}
	for ; len(a.rest) > 0; a.rest = a.rest[1:] {
		// The number of a configuration has one digit for each axis, to the base of its size. A digit's value is at the
		// middle of its part of the axis, hence the 0.5.
		i := a.rest[0]
		params := make(sweep.Params, len(a.axes))
		for j := range a.axes {
			n := a.axes[j].size
			params[a.axes[j].name] = a.axes[j].value((float64(i%n) + 0.5) / float64(n))
			i /= n
		}
		if a.usable(params) {
			return suggest(sweep.MethodRandom, params, "one of the last configurations that the space has")
		}
	}
	return nil
}

// exhaustedError returns the error that no configuration was found for a trial. Either all configurations of the space
// are known, or those that are not were not found by drawing.
func (a *asker) exhaustedError() error {
	space := fmt.Sprintf("%d draws from search.random broke a constraint or were known", attempts)
	if a.size > 0 && a.size <= maxEnumerated {
		space = fmt.Sprintf("search.random has %d configurations before constraints", a.size)
	}
	return problem.New(problem.Input, "search: no configuration is left for another trial: %s, and %d are known; "+
		"widen the ranges, loosen the constraints or ask for fewer", space, len(a.tried))
}
