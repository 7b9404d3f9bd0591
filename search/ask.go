package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"coppice/sweep"
)

// Ask asks for the next trials of a search whose trials somebody else runs. The same Ask has the same answer, in whatever order
// its results stand, and asking for two trials is the same as asking for one, and for another once the first is running.
type Ask struct {
	Search   sweep.Search
	Method   string // one of Methods; empty is auto
	Maximize bool
	Seed     uint64
	Known    []Known // this search's trials so far
	Earlier  []Sweep // former searches for the same, newest last
	Number   int     // how many trials are wanted

	// Base are parameters that every trial has beneath its own, for constraints that look at them.
	Base sweep.Params
}

// Known is what is known of one trial.
type Known struct {
	Trial  int
	Params sweep.Params
	Status string  // one of the Trial constants
	Value  float64 // of the metric; NaN when there is none
	Curve  []float64
	Values []float64 // in each goal, of a search with several

	// apart says that other parameters than the space's are not those that its configurations have: what it found is worth knowing, and its configuration is still to be tried.
	apart bool
}

// Sweep is what a former search found.
type Sweep struct {
	Name    string // for reasons
	Results []Known
}

// What a trial may be.
const (
	TrialDone    = "done"
	TrialRunning = "running"
	TrialFailed  = "failed"
	TrialStopped = "stopped" // before its end, by a rule: what it has is a result that would not have become the best
)

// trialCancelled is one that nobody wanted to its end: its configuration is known, and says nothing.
const trialCancelled = "cancelled"

// Methods by which trials are proposed once the fixed configurations and the grid are through.
const (
	MethodAuto   = sweep.MethodAuto
	MethodRandom = sweep.MethodRandom
	MethodHalton = sweep.MethodHalton
	MethodTPE    = sweep.MethodTPE
	MethodGP     = sweep.MethodGP
)

// Methods are the names of all methods.
func Methods() []string { return sweep.Methods() }

// More sources of a trial.
const (
	SourceWarm      = "warm"      // a winner of a former search
	SourcePortfolio = "portfolio" // a configuration that is known to be good for boosted trees
	SourceHalton    = "halton"
	SourceTPE       = "tpe"
	SourceGP        = "gp"
)

// Suggestion is a trial to be run, where it comes from and why.
type Suggestion struct {
	Trial  int          `json:"trial"`
	Params sweep.Params `json:"params"`
	Source string       `json:"source"`
	Reason string       `json:"reason"`
}

// ExhaustedError says that every configuration of a finite search is known already.
type ExhaustedError struct {
	Wanted, Found int
	Tried         int // configurations known or proposed
	Space         string
}

// Error says what there was, and the remedy.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("search: no configuration is left for %d of %d trials: %s, and %d are known; widen the ranges, loosen the constraints or ask for fewer",
		e.Wanted-e.Found, e.Wanted, e.Space, e.Tried)
}

// IsInput says that what was handed in is at fault, and will be the next time.
func (*ExhaustedError) IsInput() bool { return true }

// MaxAsk bounds the trials of one Ask.
const MaxAsk = 1000

// asker answers one Ask.
type asker struct {
	Ask
	*domain
	tried   map[string]int // number of the trial with this configuration
	next    int            // number of the next trial
	total   int            // trials after this Ask
	history history
	grid    *gridWalk
	warm    []winner
	model   *fittedModel // fitted on the finished trials; nil before
	spread  *mat.Dense   // the first points of the sequence; nil before
}

// proposal is a configuration, with its source and reason; nil is none.
type proposal struct {
	params sweep.Params
	source string
	reason string
}

// Next proposes the next trials. Errors are *SpecError, *ExpressionError and *ExhaustedError; with the last come the
// suggestions that could be made.
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

// Check says what is wrong with a space, without proposing from it. Errors are *SpecError, and *ExpressionError in them.
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
			return nil, &SpecError{Part: fmt.Sprintf("fixed[%d]", i), Err: fmt.Errorf("%s breaks the constraint %s", describe(params), c)}
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

// remember takes a trial into account.
func (a *asker) remember(k Known) {
	k.Params = a.spelled(normalized(k.Params))
	a.next = max(a.next, k.Trial+1)
	if key := keyOf(k.Params); a.tried[key] == 0 && !k.apart {
		a.tried[key] = k.Trial + 1
	}
	a.history.add(a.domain, k, a.Maximize)
}

func (a *asker) isTried(params sweep.Params) bool { return a.tried[keyOf(params)] > 0 }

// propose makes one decision. The configurations that a person wrote down come first, then those that were good elsewhere, then
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
		for _, from := range []func() *proposal{a.fromWarm, a.fromPortfolio} {
			if p := from(); p != nil {
				return p
			}
		}
	}

	return a.byMethod()
}

// byMethod is what the method makes of the results.
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

// attempts are how often a method that draws tries to find a configuration that is new and breaks no constraint.
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

// usable says whether a configuration may be proposed.
func (a *asker) usable(params sweep.Params) bool {
	return a.violated(params) == nil && !a.isTried(params)
}

// fromRest goes through a space that can be counted, when drawing from it brings nothing new any more.
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

// extent says how many configurations there are.
func (a *asker) extent() string {
	switch {
	case len(a.axes) == 0:
		return fmt.Sprintf("search.random is empty, and there are %d fixed configurations and %d of the grid", len(a.Search.Fixed), a.grid.size)
	case a.size > 0 && a.size <= maxEnumerated:
		return fmt.Sprintf("search.random has %d configurations before conditions and constraints", a.size)
	}
	return fmt.Sprintf("%d draws from search.random broke a constraint or were known", attempts)
}
