package search

import (
	"maps"

	"coppice/internal/sweep"
)

// ChooseFinal returns what the final training trains: the configuration of the trial that wins, with a fixed number of
// trees, unless it is to be several models. It is called when all other trials have ended, so the answer is the same
// whichever task asks. If no trial can win, none says why. The aggregator may pass over that trial later, for its
// files; then the final model is not used.
func ChooseFinal(p *sweep.Plan, b sweep.Board, require []*Condition) (winner *sweep.Result, params sweep.Params,
	none string) {
	s := Pick(p, b, p.Spec.Metric, require, nil)
	number, ok := s.Winner()
	if !ok {
		return nil, nil, s.Reason
	}
	for _, row := range b.Rows {
		if row.Trial.Number != number {
			continue
		}
		winner = row.Result
		if params = maps.Clone(winner.Params); params == nil {
			params = maps.Clone(row.Trial.Params)
		}
	}
	if p.Spec.Bag() == 1 || winner.AtLimit { // models of folds stop where their own rows say
		params["num_iterations"], params["early_stopping_round"] = float64(max(1, winner.Trees)), 0.0
	}
	return winner, params, ""
}
