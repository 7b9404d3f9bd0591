package search

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/problem"
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

// Proposal is the trials of a sweep.
type Proposal struct {
	Trials     []sweep.Trial
	Fixed      int      // number of trials by source
	Grid       int      // likewise; the others are random draws
	Duplicates int      // configurations left out because they repeat a trial
	Notes      []string // for people, such as why there are fewer trials than requested
}

const (
	// maxMisses is how many draws in a row may be useless, and maxDrawsATrial how many draws each wanted trial may take
	// in total, before drawing gives up.
	maxMisses      = 10_000
	maxDrawsATrial = 1000
	// maxEnumerated bounds the configurations of a grid, before constraints, and of a space that is enumerated when
	// drawing finds nothing new.
	maxEnumerated = 100_000
	// missesToEnd replaces maxMisses where a space can be enumerated after that.
	missesToEnd = 200
)

// Propose lists the trials: the fixed configurations in the spec's order, the grid with names ascending and the last
// name changing fastest, then random draws until there are enough. Configurations that violate a constraint or repeat
// another are left out. Random draws are keyed by seed, draw and parameter, so that adding a parameter does not change
// the others.
//
// If the random space has too few configurations, there are fewer trials and a note says so.
func Propose(r Request) (Proposal, error) {
	p := &proposer{Request: r, seen: map[string]int{}, broken: map[string]int{}, excluded: map[string]int{}}
	for _, step := range []func() error{p.prepare, p.addFixed, p.addGrid, p.addRandom} {
		if err := step(); err != nil {
			return Proposal{}, err
		}
	}
	return p.found, nil
}

// proposer is the state of one call of Propose.
type proposer struct {
	Request
	found       Proposal
	constraints []*Constraint
	seen        map[string]int // number of the trial with this configuration, by its JSON

	// How many random draws there were, and what became of them.
	draws, repeats, refused int
	refusal                 string         // the first refused configuration, and why the trainer refuses it
	broken                  map[string]int // number of draws by the first constraint that each violates

	combinations int            // how many configurations the grid has, those that are excluded included
	excluded     map[string]int // number of the grid's configurations by the first constraint that each violates
}

// prepare checks the request and compiles the constraints. It replaces a Canonical that is nil by one that changes
// nothing, and the numbers of Base by what they are after a round trip through JSON.
func (p *proposer) prepare() error {
	if p.Canonical == nil {
		p.Canonical = func(params map[string]any) (map[string]any, error) { return params, nil }
	}
	if p.Trials < 1 || p.Trials > sweep.MaxTrials {
		return specErrorf("trials", "%d; use 1 to %d", p.Trials, sweep.MaxTrials)
	}

	// A complete configuration, from which constraints get names and types.
	p.Base = normalizeNumbers(p.Base)
	example, err := p.Canonical(maps.Clone(p.Base))
	if err != nil {
		return &SpecError{"params", err}
	}
	for i, text := range p.Search.Constraints {
		c, err := CompileConstraint(text, example)
		if err != nil {
			return &SpecError{fmt.Sprintf("constraints[%d]", i), err}
		}
		p.constraints = append(p.constraints, c)
	}
	return nil
}

// outcome is what became of a configuration: a new trial, or the reason why there is none. If no field is set, the
// configuration repeats a trial.
type outcome struct {
	isNew    bool
	violated *Constraint // the first constraint that it violates
	refused  error       // the trainer's error
}

// consider adds a trial with params over the base, completed by Canonical. It adds none if Canonical refuses the
// configuration, or if the configuration violates a constraint or repeats a trial. source is recorded in the trial.
func (p *proposer) consider(source string, params sweep.Params) outcome {
	// Complete it, and check the constraints.
	all := maps.Clone(p.Base)
	maps.Copy(all, normalizeNumbers(params))
	full, err := p.Canonical(all)
	if err != nil {
		return outcome{refused: err}
	}
	full = normalizeNumbers(full)

	for _, c := range p.constraints {
		holds, err := c.Holds(full)
		if err != nil {
			return outcome{refused: err}
		}
		if !holds {
			return outcome{violated: c}
		}
	}

	// Configurations are the same if all their parameters are equal.
	key, err := json.Marshal(full)
	if err != nil {
		return outcome{refused: fmt.Errorf("it cannot be written as JSON: %w", err)}
	}
	if _, repeated := p.seen[string(key)]; repeated {
		p.found.Duplicates++
		return outcome{}
	}

	n := len(p.found.Trials)
	p.seen[string(key)] = n
	p.found.Trials = append(p.found.Trials, sweep.Trial{Number: n, Source: source, Params: full})
	return outcome{isNew: true}
}

// addFixed adds the configurations that the spec lists in search.fixed. A person wrote each of them, so one that the
// trainer refuses or that violates a constraint is an error. A search without anything to search is one fixed trial.
func (p *proposer) addFixed() error {
	fixed := p.Search.Fixed
	if len(fixed) == 0 && len(p.Search.Grid) == 0 && len(p.Search.Random) == 0 {
		fixed = []sweep.Params{{}} // the base alone
	}

	for i, params := range fixed {
		part := fmt.Sprintf("fixed[%d]", i)
		switch o := p.consider(SourceFixed, params); {
		case o.refused != nil:
			return &SpecError{part, o.refused}
		case o.violated != nil:
			return specErrorf(part, "%s breaks the constraint %s", describe(params), o.violated)
		case o.isNew:
			p.found.Fixed++
		}
	}
	return nil
}

// addGrid adds every combination of the grid's values that meets the constraints. It is an error if the trainer refuses
// one, or if there are more fixed and grid configurations than trials.
func (p *proposer) addGrid() error {
	grid, err := gridOf(p.Search.Grid)
	if err != nil {
		return err
	}
	for i := range grid.size {
		params := grid.at(i)
		p.combinations++
		switch o := p.consider(SourceGrid, params); {
		case o.refused != nil:
			return &SpecError{"grid " + describe(params), o.refused}
		case o.violated != nil:
			p.excluded[o.violated.String()]++
		case o.isNew:
			p.found.Grid++
		}
	}

	// A grid is to be tried whole, so there must be a trial for every configuration.
	if listed := p.found.Fixed + p.found.Grid; listed > p.Trials {
		what, shorten := fmt.Sprintf("%d fixed and %d grid configurations are", p.found.Fixed, p.found.Grid), "the grid"
		switch {
		case p.found.Grid == 0:
			what, shorten = english.Plural(listed, "fixed configuration is", "fixed configurations are"), "the list"
		case p.found.Fixed == 0:
			what = english.Plural(listed, "grid configuration is", "grid configurations are")
		}
		return problem.New(problem.Input, "search: %s more than trials: %d; raise trials to at least %d or shorten %s",
			what, p.Trials, listed, shorten)
	}
	return nil
}

// addRandom draws configurations from search.random until there are enough trials, or no more are found. It is an error
// if there is no trial at all. It is also an error if there are too few and the space is too large to be enumerated:
// others may exist. If there are too few since the spec defines no more, a note says so.
func (p *proposer) addRandom() error {
	s, err := newSpace(p.Search)
	if err != nil {
		return err
	}
	if len(s.samplers) > 0 {
		p.drawFrom(s)
	}

	found := len(p.found.Trials)
	if found == 0 || found < p.Trials && len(s.samplers) > 0 && !s.countable() {
		return p.tooFew()
	}
	p.noteTooFew(found, s)
	return nil
}

// noteTooFew adds a note for people if the search has fewer configurations than the requested trials, or if nothing is
// drawn although there is a space s to draw from. found is the number of trials. If there are fewer although there is a
// space, drawFrom has enumerated it: addRandom refuses one that is too large for that.
func (p *proposer) noteTooFew(found int, s space) {
	note := func(format string, args ...any) { p.found.Notes = append(p.found.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case found < p.Trials && len(s.samplers) == 0:
		note("search: defines %s, but trials is %d; only %d will run. Add ranges under search.random.",
			english.Plural(found, "configuration", ""), p.Trials, found)
	case found < p.Trials:
		all := fmt.Sprintf("All %d of search.random", s.size)
		if len(p.broken) > 0 || p.refused > 0 {
			all = fmt.Sprintf("Of the %d of search.random, all that constraints and the trainer allow", s.size)
		}
		note("search: defines %s, but trials is %d; only %d will run. %s are among them.",
			english.Plural(found, "configuration", ""), p.Trials, found, all)
	case len(s.samplers) > 0 && found == p.found.Fixed+p.found.Grid:
		note("the fixed configurations and the grid take all %d trials; nothing is drawn from search.random", p.Trials)
	}
}

// tooFew returns the error about too few trials. It counts what became of the grid and of the draws, so that a reader
// sees which constraint to loosen.
func (p *proposer) tooFew() error {
	broke := func(counts map[string]int) (parts []string) {
		for _, c := range slices.Sorted(maps.Keys(counts)) {
			parts = append(parts, fmt.Sprintf("%d broke the constraint %s", counts[c], c))
		}
		return parts
	}
	var causes []string
	if len(p.excluded) > 0 {
		causes = append(causes, fmt.Sprintf("of %s %s", english.Plural(p.combinations, "grid configuration", ""),
			strings.Join(broke(p.excluded), ", ")))
	}

	parts := broke(p.broken)
	if p.repeats > 0 {
		parts = append(parts, fmt.Sprintf("%d repeated another trial", p.repeats))
	}
	if p.refused > 0 {
		parts = append(parts, fmt.Sprintf("%d were refused by the trainer (%s)", p.refused, p.refusal))
	}

	if p.draws > 0 {
		causes = append(causes, fmt.Sprintf("of %d random draws %s", p.draws, strings.Join(parts, ", ")))
	}
	return problem.New(problem.Input, "search: found %d of %d trials: %s; loosen the constraints, widen the ranges or "+
		"ask for fewer trials", len(p.found.Trials), p.Trials, strings.Join(causes, ", and "))
}

// drawFrom adds trials with configurations drawn from a space, until there are enough. It gives up after many useless
// draws in a row (those that are refused, violate a constraint or repeat a trial), or after very many draws in all. A
// space that can be enumerated is then gone through to its end.
func (p *proposer) drawFrom(s space) {
	patience := maxMisses
	if s.countable() {
		patience = missesToEnd
	}
	maxDraws := maxMisses + maxDrawsATrial*p.Trials

	short := func() bool { return len(p.found.Trials) < p.Trials }
	for misses := 0; short() && misses < patience && p.draws < maxDraws; misses++ {
		if p.tryRandom(s.draw(p.Seed, uint64(p.draws))) {
			misses = 0
		}
	}

	// Draws rarely hit the last few: enumerate the space instead.
	if short() && s.countable() {
		for _, i := range s.order(p.Seed) {
			if !short() {
				return
			}
			p.tryRandom(s.at(i))
		}
	}
}

// tryRandom adds a trial with a drawn configuration. If it cannot, it counts why not and returns false.
func (p *proposer) tryRandom(params map[string]any) bool {
	p.draws++
	o := p.consider(sweep.MethodRandom, params)
	switch {
	case o.refused != nil:
		if p.refused == 0 {
			p.refusal = fmt.Sprintf("%s: %v", describe(params), o.refused)
		}
		p.refused++
	case o.violated != nil:
		p.broken[o.violated.String()]++
	case !o.isNew:
		p.repeats++
	}
	return o.isNew
}

// gridOf returns a grid as a space, whose configurations have the last name changing fastest. A space has its first
// parameter changing fastest, so the names are added backward.
func gridOf(grid map[string][]any) (space, error) {
	var samplers []sampler
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(grid))) {
		values := grid[name]
		samplers = append(samplers,
			newCountedSampler(name, uint64(len(values)), func(i uint64) any { return values[i] }))
	}
	g := productOf(samplers)
	if len(samplers) > 0 && !g.countable() {
		return g, specErrorf("grid", "it has more than %d configurations; shorten it or use random", maxEnumerated)
	}
	return g, nil
}

// normalizeNumbers returns params with numbers as after a round trip through JSON.
func normalizeNumbers(params sweep.Params) sweep.Params {
	out := make(sweep.Params, len(params))
	for name, value := range params {
		out[name] = sweep.ToFloat(value)
	}
	return out
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
