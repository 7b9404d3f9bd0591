package search

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"coppice/internal/sweep"
)

// space is the product of the parameters in search.random.
type space struct {
	samplers []sampler // by key
	size     uint64    // number of configurations; 0 if uncountable
}

func newSpace(s sweep.Search) (space, error) {
	sp := space{}
	written := func(name string) string { return cmp.Or(s.Random[name].DrawnAs, name) }
	names := slices.SortedFunc(maps.Keys(s.Random),
		func(a, b string) int { return cmp.Compare(written(a), written(b)) })
	for i, name := range names {
		one, err := newSampler(name, s.Random[name])
		if err != nil {
			return space{}, err
		}
		one.key = written(name)
		sp.samplers = append(sp.samplers, one)

		if i == 0 {
			sp.size = one.size
			continue
		}
		over, n := bits.Mul64(sp.size, one.size)
		if sp.size = n; over != 0 {
			sp.size = 0
		}
	}
	return sp, nil
}

// countable reports whether the space can be enumerated.
func (s space) countable() bool { return s.size > 0 && s.size <= maxEnumerated }

func (s space) draw(seed, number uint64) map[string]any {
	params := make(map[string]any, len(s.samplers))
	for _, one := range s.samplers {
		params[one.name] = one.draw(random(seed, number, one.key))
	}
	return params
}

func (s space) at(i uint64) map[string]any {
	params := make(map[string]any, len(s.samplers))
	for _, one := range s.samplers {
		params[one.name] = one.at(i % one.size)
		i /= one.size
	}
	return params
}

// order returns all of a countable space, shuffled by the seed.
func (s space) order(seed uint64) []uint64 {
	all := make([]uint64, s.size)
	for i := range all {
		all[i] = uint64(i)
	}
	slices.SortFunc(all, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(random(seed, a, ""), random(seed, b, "")), cmp.Compare(a, b))
	})
	return all
}

// random draws until there are enough trials, or it is clear that there will not be.
func (p *proposer) random() error {
	s, err := newSpace(p.Search)
	if err != nil {
		return err
	}
	if len(s.samplers) > 0 {
		p.drawFrom(s)
	}

	found, wanted := len(p.Proposal.Trials), p.Request.Trials
	switch {
	case found == 0, found < wanted && len(s.samplers) > 0 && !s.countable():
		p.tally.Trials = wanted
		p.tally.Found = found
		p.tally.Draws = p.Draws
		return &p.tally
	case found < wanted && len(s.samplers) == 0:
		p.note("there are only %d different configurations for %d trials; ranges under search.random would add more",
			found, wanted)
	case found < wanted:
		p.note("there are only %d different configurations for %d trials: all %d of search.random have been tried",
			found, wanted, s.size)
	case len(s.samplers) > 0 && p.Random == 0:
		p.note("the fixed configurations and the grid take all %d trials; nothing is drawn from search.random", wanted)
	}

	if p.leftOut > maxLeftOut {
		p.note("of %d random draws that were left out, the first %d are listed", p.leftOut, maxLeftOut)
	}
	return nil
}

func (p *proposer) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

func (p *proposer) drawFrom(s space) {
	patience := maxMisses
	if s.countable() {
		patience = missesToEnd
	}

	short := func() bool { return len(p.Proposal.Trials) < p.Request.Trials }
	for misses := 0; short() && misses < patience && p.Draws < maxMisses+maxDrawsATrial*p.Request.Trials; misses++ {
		number := p.Draws
		p.Draws++
		if p.tryRandom(fmt.Sprintf("draw %d", number), s.draw(p.Seed, uint64(number))) {
			misses = 0
		}
	}

	if !short() || !s.countable() {
		return
	}

	// Draws rarely hit the last few: enumerate the space instead.
	for _, i := range s.order(p.Seed) {
		if !short() {
			return
		}
		p.Draws++
		p.tryRandom(fmt.Sprintf("configuration %d of %d", i, s.size), s.at(i))
	}
}

// tryRandom makes a trial of a draw, or counts why not.
func (p *proposer) tryRandom(what string, params map[string]any) bool {
	o := p.consider(params)
	var why string

	switch {
	case o.refused != nil:
		if p.Refused++; p.Refused == 1 {
			p.tally.Refusal = fmt.Sprintf("%s: %v", describe(params), o.refused)
		}
		p.tally.Refused = p.Refused
		why = fmt.Sprintf("refused: %v", o.refused)
	case o.violated != nil:
		p.Violations[o.violated.String()]++
		p.tally.Violations[o.violated.String()]++
		why = fmt.Sprintf("breaks the constraint %s", o.violated)
	case o.trial < 0:
		p.tally.Repeats++
		why = fmt.Sprintf("repeats trial %d", o.repeats)
	default:
		p.Random++
		p.keep(SourceRandom, o.trial, "%s: %s", what, describe(params))
		return true
	}

	if p.leftOut++; p.leftOut <= maxLeftOut {
		p.decide(SourceRandom, -1, "%s: %s: %s", what, describe(params), why)
	}
	return false
}
