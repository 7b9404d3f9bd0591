package plan

import (
	"fmt"

	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// populate leaves all trials to be decided, generation by generation. What was drawn at random is the expectation of
// each generation.
func (p *Plan) populate() error {
	drawn, size := p.Trials, p.Spec.Search.Population
	if len(drawn) < size {
		return errorf("search.random has only %d different configurations for a population of %d; use a smaller "+
			"population, or wider ranges", len(drawn), size)
	}
	p.Trials, p.Expected = nil, nil
	for n := range p.Spec.Trials {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Source: sweep.MethodPBT, Open: true})
		expected := drawn[n%len(drawn)]
		expected.Number = n
		p.Expected = append(p.Expected, expected)
	}
	p.Notes = append(p.Notes,
		fmt.Sprintf("search.method: %s: a population of %d in %d generations, each of which continues the models of "+
			"the one before; every trial adds its num_iterations", sweep.MethodPBT, size, len(p.Trials)/size))
	return nil
}

// leafText is about how many bytes a leaf has in a model's text, with its share of the inner nodes.
const leafText = 160

// inheritedBytes is the memory of the model that a trial of the last generation continues, if all before have grown all
// of their trees.
func inheritedBytes(p *sweep.Plan, params gbt.Params, rows int) int64 {
	if !p.Breeds() {
		return 0
	}
	leaves := int64(min(params.NumLeaves, rows/max(params.MinDataInLeaf, 1)+1))
	text := int64(p.Generation(len(p.Trials)-1)) * int64(params.NumIterations) * leaves * leafText
	return inputBytes * min(text, sweep.MaxInput)
}
