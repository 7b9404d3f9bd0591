package plan

import (
	"fmt"

	"coppice/sweep"
)

// populate leaves all trials to be decided, generation by generation. What was drawn at random is the expectation of each generation.
func (p *Plan) populate() {
	drawn := p.Trials
	p.Trials, p.Expected = nil, nil
	for n := range p.Spec.Trials {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Source: sweep.MethodPBT, Open: true})
		expected := drawn[n%len(drawn)]
		expected.Number = n
		p.Expected = append(p.Expected, expected)
	}
	p.Adapt()
	size := p.Spec.Search.Population
	p.Notes = append(p.Notes, fmt.Sprintf("search.method: %s: a population of %d in %d generations, each of which continues the models of the one before; every trial adds its num_iterations", sweep.MethodPBT, size, len(p.Trials)/size))
}
