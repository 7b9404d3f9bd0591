package search

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coppice/internal/sweep"
)

// Request asks for the trials of a sweep.
type Request struct {
	Search sweep.Search
	Base   sweep.Params // common parameters, overridden by a trial's own
	Trials int          // how many
	Seed   uint64

	// Canonical completes a configuration: it fills in defaults and checks values. Configurations that train the same
	// model become equal. nil leaves configurations unchanged.
	Canonical func(params map[string]any) (map[string]any, error)
}

// Sources of a trial.
const (
	SourceFixed  = "fixed"
	SourceGrid   = "grid"
	SourceRandom = "random"
)

// Proposal is the trials of a sweep, and the outcome for every configuration considered.
type Proposal struct {
	Trials     []sweep.Trial
	Fixed      int // number of trials by source
	Grid       int
	Random     int
	Duplicates int            // configurations left out because they repeat a trial
	Violations map[string]int // left out because they violated a constraint, by the first one violated
	Refused    int            // random draws left out because the trainer rejected them
	Draws      int            // random draws made

	Decisions []Decision // in the order in which they were made
	Notes     []string   // for people, such as why there are fewer trials than requested
}

// Decision is the outcome for one configuration.
type Decision struct {
	Source string
	Trial  int // its number, or -1 if it was left out
	Reason string
}

const (
	// maxGrid bounds the configurations of a grid, before constraints.
	maxGrid = 100_000
	// maxLeftOut bounds the recorded decisions about random draws that were left out; all are counted.
	maxLeftOut = 1000
	// Drawing gives up after this many useless draws in a row, or a number of them per trial in total.
	maxMisses      = 10_000
	maxDrawsATrial = 1000
	// maxEnumerated is the size up to which a space is enumerated when drawing finds nothing new.
	maxEnumerated = 100_000
	missesToEnd   = 200
)

// Propose lists the trials: the fixed configurations in the spec's order, the grid with names ascending and the last
// name changing fastest, then random draws until there are enough. Configurations that violate a constraint or repeat
// another are left out. Random draws are keyed by seed, draw and parameter, so that adding a parameter does not change
// the others.
//
// If the random space has too few configurations, there are fewer trials and a note says so. Errors are *SpecError,
// *ExpressionError,
// *TooManyError and *SpaceError.
func Propose(r Request) (Proposal, error) {
	p := &proposer{Request: r, seen: map[string]int{}, tally: SpaceError{Violations: map[string]int{}}}
	p.Violations = map[string]int{}
	for _, step := range []func() error{p.prepare, p.fixed, p.grid, p.random} {
		if err := step(); err != nil {
			return Proposal{}, err
		}
	}
	return p.Proposal, nil
}

type proposer struct {
	Request
	Proposal
	constraints []*Constraint
	space       *domain        // of search.random if it has conditions; else nil
	example     sweep.Params   // the completed base
	seen        map[string]int // number of the trial with this configuration
	tally       SpaceError     // the outcomes of random draws
	leftOut     int            // number of useless random draws
}

func (p *proposer) prepare() error {
	if p.Canonical == nil {
		p.Canonical = func(params map[string]any) (map[string]any, error) { return params, nil }
	}

	if p.Request.Trials < 1 || p.Request.Trials > sweep.MaxTrials {
		return &SpecError{Part: "trials", Err: fmt.Errorf("%d; use 1 to %d", p.Request.Trials, sweep.MaxTrials)}
	}

	p.Base = normalized(p.Base)

	// A complete configuration, from which constraints get names and types.
	example, err := p.Canonical(maps.Clone(p.Base))
	if err != nil {
		return &SpecError{Part: "params", Err: err}
	}

	for i, text := range p.Search.Constraints {
		c, err := CompileConstraint(text, example)
		if err != nil {
			return &SpecError{Part: fmt.Sprintf("constraints[%d]", i), Err: err}
		}
		p.constraints = append(p.constraints, c)
	}

	p.example = normalized(example)
	if Conditional(p.Search) {
		if err := CheckConditions(p.Search, p.example); err != nil {
			return err
		}
		p.space, err = newDomain(sweep.Search{Random: p.Search.Random}, p.example)
	}
	return err
}

// normalized returns params with numbers as after a round trip through JSON.
func normalized(params sweep.Params) sweep.Params {
	out := make(sweep.Params, len(params))
	for name, value := range params {
		out[name] = normal(value)
	}
	return out
}

// outcome of considering a configuration: a new trial, or the reason why there is none.
type outcome struct {
	trial    int         // number of the new trial, or -1
	violated *Constraint // the violated constraint
	repeats  int         // the trial that it repeats, if nothing else is set
	refused  error       // the trainer's error
}

// consider makes a trial of a configuration unless it violates a constraint or repeats another.
func (p *proposer) consider(params sweep.Params) outcome {
	own, absent := p.existing(params)
	full, err := p.complete(own)
	if err != nil {
		return outcome{trial: -1, refused: err}
	}

	for _, c := range p.constraints {
		if !asks(c, absent) {
			continue
		}
		holds, err := c.Holds(full)
		if err != nil {
			return outcome{trial: -1, refused: err}
		}
		if !holds {
			return outcome{trial: -1, violated: c}
		}
	}

	// Configurations are the same if all their parameters are equal.
	key, err := json.Marshal(full)
	if err != nil {
		return outcome{trial: -1, refused: fmt.Errorf("it cannot be written as JSON: %w", err)}
	}
	if earlier, repeated := p.seen[string(key)]; repeated {
		p.Duplicates++
		return outcome{trial: -1, repeats: earlier}
	}

	n := len(p.Proposal.Trials)
	p.seen[string(key)] = n
	p.Proposal.Trials = append(p.Proposal.Trials, sweep.Trial{Number: n, Params: full, Absent: absent})
	return outcome{trial: n}
}

// complete overlays a trial's own parameters on the base and lets the trainer fill in the rest.
func (p *proposer) complete(params sweep.Params) (sweep.Params, error) {
	full, err := p.Canonical(over(p.Base, params))
	if err != nil {
		return nil, err
	}
	return normalized(full), nil
}

// keep records the source of a new trial.
func (p *proposer) keep(source string, trial int, format string, args ...any) {
	p.Proposal.Trials[trial].Source = source
	p.decide(source, trial, format, args...)
}

func (p *proposer) decide(source string, trial int, format string, args ...any) {
	p.Decisions = append(p.Decisions, Decision{Source: source, Trial: trial, Reason: fmt.Sprintf(format, args...)})
}

// fixed adds the configurations listed one by one. One that cannot be trained is an error.
func (p *proposer) fixed() error {
	s := p.Search
	if len(s.Fixed) == 0 && len(s.Grid) == 0 && len(s.Random) == 0 {
		s.Fixed = []sweep.Params{{}} // the base alone
	}

	for i, params := range s.Fixed {
		part := fmt.Sprintf("fixed[%d]", i)
		o := p.consider(params)
		switch {
		case o.refused != nil:
			return &SpecError{Part: part, Err: o.refused}
		case o.violated != nil:
			return &SpecError{Part: part, Err: fmt.Errorf("%s breaks the constraint %s", describe(params), o.violated)}
		case o.trial < 0:
			p.decide(SourceFixed, -1, "%s: repeats trial %d", part, o.repeats)
		default:
			p.Fixed++
			p.keep(SourceFixed, o.trial, "%s: %s", part, describe(params))
		}
	}
	return nil
}

// grid adds the Cartesian product.
func (p *proposer) grid() error {
	walk, err := newGridWalk(p.Search.Grid)
	if err != nil {
		return err
	}
	for params, _ := walk.next(); params != nil; params, _ = walk.next() {
		if err := p.gridPoint(params); err != nil {
			return err
		}
	}

	if p.Fixed+p.Grid > p.Request.Trials {
		return &TooManyError{Fixed: p.Fixed, Grid: p.Grid, Trials: p.Request.Trials}
	}
	return nil
}

func (p *proposer) gridPoint(params map[string]any) error {
	o := p.consider(params)
	switch {
	case o.refused != nil:
		return &SpecError{Part: "grid " + describe(params), Err: o.refused}
	case o.violated != nil:
		p.Violations[o.violated.String()]++
		p.decide(SourceGrid, -1, "%s: breaks the constraint %s", describe(params), o.violated)
	case o.trial < 0:
		p.decide(SourceGrid, -1, "%s: repeats trial %d", describe(params), o.repeats)
	default:
		p.Grid++
		p.keep(SourceGrid, o.trial, "%s", describe(params))
	}
	return nil
}

// describe formats a configuration as name=value, names ascending.
func describe(params map[string]any) string {
	if len(params) == 0 {
		return "params as they are"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, params[name]))
	}
	return strings.Join(parts, " ")
}
