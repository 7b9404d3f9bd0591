package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"coppice/internal/sweep"
)

// Ask asks for the next trials of a search whose trials another program runs. The result does not depend on the order
// of the known trials, and asking for two trials gives the same as asking for one, and for another once the first is
// running.
type Ask struct {
	Search   sweep.Search
	Method   string // one of Methods; empty is auto
	Maximize bool
	Seed     uint64
	Known    []Known // this search's trials so far
	Earlier  []Sweep // earlier searches for the same, newest last
	Number   int     // number of trials wanted

	// Base are the parameters beneath every trial's own, for constraints that refer to them.
	Base sweep.Params
}

// Known is what is known about one trial.
type Known struct {
	Trial  int
	Params sweep.Params
	Status string  // one of the Trial constants
	Value  float64 // of the metric; NaN if there is none
	Curve  []float64
	Values []float64 // in each goal, for a search with several

	// apart marks a trial whose parameters outside the space differ from those of the space's configurations: its
	// result informs the search, but its configuration is still to be tried.
	apart bool
}

// Sweep holds the results of an earlier search.
type Sweep struct {
	Name    string // for reasons
	Results []Known
}

// The states of a trial.
const (
	TrialDone    = "done"
	TrialRunning = "running"
	TrialFailed  = "failed"
	TrialStopped = "stopped" // by a rule, before its end: its result would not have become the best
)

// trialCancelled is a trial that a person stopped: its configuration is known, its result says nothing.
const trialCancelled = "cancelled"

// Methods that propose trials after the fixed configurations and the grid.
const (
	MethodAuto   = sweep.MethodAuto
	MethodRandom = sweep.MethodRandom
	MethodHalton = sweep.MethodHalton
	MethodTPE    = sweep.MethodTPE
	MethodGP     = sweep.MethodGP
)

// Methods returns the names of all methods of a search whose trials another program runs: a population needs our
// trainer.
func Methods() []string {
	return slices.DeleteFunc(sweep.Methods(), func(m string) bool { return m == sweep.MethodPBT })
}

// More sources of a trial.
const (
	SourceWarm      = "warm"      // a winner of an earlier search
	SourcePortfolio = "portfolio" // a configuration that is known to be good for boosted trees
	SourceHalton    = MethodHalton
	SourceTPE       = "tpe"
	SourceGP        = "gp"
)

// Suggestion is a trial to run, with its source and the reason.
type Suggestion struct {
	Trial  int          `json:"trial"`
	Params sweep.Params `json:"params"`
	Source string       `json:"source"`
	Reason string       `json:"reason"`

	Parent *int `json:"-"` // of a population: the trial whose model it continues
}

// ExhaustedError says that all configurations of a finite search are known already.
type ExhaustedError struct {
	Wanted, Found int
	Tried         int // configurations known or proposed
	Space         string
}

// Error states the numbers, and the remedy.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("search: no configuration is left for %d of %d trials: %s, and %d are known; widen the "+
		"ranges, loosen the constraints or ask for fewer",
		e.Wanted-e.Found, e.Wanted, e.Space, e.Tried)
}

// IsInput says that the input is at fault, permanently.
func (*ExhaustedError) IsInput() bool { return true }

// MaxAsk bounds the trials of one Ask.
const MaxAsk = 1000

// asker answers one Ask.
type asker struct {
	Ask
	*domain
	tried   map[string]int          // number of the trial with this configuration
	tabu    func(sweep.Params) bool // what else may not be proposed; nil is nothing
	next    int                     // number of the next trial
	total   int                     // trials after this Ask
	history history
	grid    *gridWalk
	warm    []winner
	model   *fittedModel // fitted to the finished trials; nil before
	spread  *mat.Dense   // the first points of the sequence; nil before
}

// proposal is a configuration, with its source and reason; nil if there is none.
type proposal struct {
	params sweep.Params
	source string
	reason string
}

// Next proposes the next trials. Errors are *SpecError, *ExpressionError and *ExhaustedError; the last is returned
// together with the suggestions that could be made.
func Next(r Ask) ([]Suggestion, error) {
	a, err := newAsker(r)
	if err != nil {
		return nil, err
	}

	out := make([]Suggestion, 0, r.Number)
	for range r.Number {
		p := a.propose()
		if p == nil {
			return out, &ExhaustedError{Wanted: r.Number, Found: len(out), Tried: len(a.tried), Space: a.extent()}
		}

		out = append(out, Suggestion{Trial: a.next, Params: p.params, Source: p.source, Reason: p.reason})
		a.remember(Known{Trial: a.next, Params: p.params, Status: TrialRunning, Value: math.NaN()})
	}
	return out, nil
}

// Check reports errors in a space, without proposing from it. Errors are *SpecError, and *ExpressionError in them.
func Check(r Ask) error {
	r.Known, r.Earlier = nil, nil
	_, err := newAsker(r)
	return err
}

func newAsker(r Ask) (*asker, error) {
	r.Method = cmp.Or(r.Method, MethodAuto)
	if !slices.Contains(Methods(), r.Method) {
		return nil, &SpecError{Part: "method", Err: fmt.Errorf("%.60q is unknown; use one of %v", r.Method, Methods())}
	}
	if r.Number < 1 || r.Number > MaxAsk {
		return nil, &SpecError{Part: "n", Err: fmt.Errorf("%d trials at once; use 1 to %d", r.Number, MaxAsk)}
	}

	d, err := newDomain(r.Search, r.Base)
	if err != nil {
		return nil, err
	}
	a := &asker{Ask: r, domain: d, tried: map[string]int{}, total: len(r.Known) + r.Number}
	if a.grid, err = newGridWalk(r.Search.Grid); err != nil {
		return nil, err
	}
	for i, params := range r.Search.Fixed {
		if c := d.violated(normalized(params)); c != nil {
			return nil, &SpecError{Part: fmt.Sprintf("fixed[%d]", i), Err: fmt.Errorf("%s breaks the constraint %s",
				describe(params), c)}
		}
	}

	known := slices.SortedFunc(slices.Values(r.Known), func(x, y Known) int { return cmp.Compare(x.Trial, y.Trial) })
	for _, k := range known {
		a.remember(k)
	}
	a.warm = a.winners()
	a.history.learn(a.domain, r.Earlier, r.Maximize)
	return a, nil
}

// remember adds a trial.
func (a *asker) remember(k Known) {
	k.Params = a.spelled(normalized(k.Params))
	a.next = max(a.next, k.Trial+1)
	if key := keyOf(k.Params); a.tried[key] == 0 && !k.apart {
		a.tried[key] = k.Trial + 1
	}
	a.history.add(a.domain, k, a.Maximize)
}

func (a *asker) isTried(params sweep.Params) bool { return a.tried[keyOf(params)] > 0 }

// propose makes one decision: first the configurations that a person listed, then those that were good elsewhere, then
// what the method makes of the results.
func (a *asker) propose() *proposal {
	for _, from := range []func() *proposal{a.fromFixed, a.fromGrid} {
		if p := from(); p != nil {
			return p
		}
	}
	if len(a.axes) == 0 {
		return nil
	}

	if a.Method == MethodAuto {
		for _, from := range []func(total int) *proposal{a.fromWarm, a.fromPortfolio} {
			if p := from(a.total); p != nil {
				return p
			}
		}
	}

	return a.byMethod()
}

// byMethod returns the method's proposal.
func (a *asker) byMethod() *proposal {
	var p *proposal
	switch a.Method {
	case MethodRandom:
		p = a.fromRandom()
	case MethodHalton:
		p = a.fromHalton("the next point of the sequence")
	case MethodTPE:
		p = a.fromTPE()
	default:
		p = a.fromGP()
	}

	if p == nil {
		p = a.fromRest()
	}
	return p
}

func (a *asker) fromFixed() *proposal {
	for i, params := range a.Search.Fixed {
		if params = normalized(params); !a.isTried(params) {
			return &proposal{params, SourceFixed, fmt.Sprintf("fixed[%d]", i)}
		}
	}
	return nil
}

func (a *asker) fromGrid() *proposal {
	for {
		params, i := a.grid.next()
		if params == nil {
			return nil
		}
		if params = normalized(params); !a.isTried(params) && a.violated(params) == nil {
			return &proposal{params, SourceGrid, fmt.Sprintf("configuration %d of the grid's %d", i+1, a.grid.size)}
		}
	}
}

// attempts is how often a method that draws tries to find a configuration that is new and violates no constraint.
const attempts = 2000

func (a *asker) fromRandom() *proposal {
	for i := range uint64(attempts) {
		at := make([]float64, len(a.axes))
		for j := range a.axes {
			at[j] = unit(random(a.Seed, uint64(a.next)<<20+i, a.axes[j].name))
		}
		if params := a.config(at); a.usable(params) {
			return &proposal{params, SourceRandom, "drawn by the seed and the trial's number"}
		}
	}
	return nil
}

// usable reports whether a configuration may be proposed.
func (a *asker) usable(params sweep.Params) bool {
	return a.violated(params) == nil && !a.isTried(params) && (a.tabu == nil || !a.tabu(params))
}

// fromRest enumerates a countable space once drawing finds nothing new.
func (a *asker) fromRest() *proposal {
	if a.size == 0 || a.size > maxEnumerated {
		return nil
	}

	order := space{size: a.size}.order(a.Seed)
	for _, i := range order {
		params := make(sweep.Params, len(a.axes))
		for j := range a.axes {
			n := a.axes[j].size
			params[a.axes[j].name] = a.axes[j].value((float64(i%n) + 0.5) / float64(n))
			i /= n
		}
		if a.prune(params); a.usable(params) {
			return &proposal{params, SourceRandom, "one of the last configurations that the space has"}
		}
	}
	return nil
}

// extent returns the number of configurations.
func (a *asker) extent() string {
	switch {
	case len(a.axes) == 0:
		return fmt.Sprintf("search.random is empty, and there are %d fixed configurations and %d of the grid",
			len(a.Search.Fixed), a.grid.size)
	case a.size > 0 && a.size <= maxEnumerated:
		return fmt.Sprintf("search.random has %d configurations before conditions and constraints", a.size)
	}
	return fmt.Sprintf("%d draws from search.random broke a constraint or were known", attempts)
}
