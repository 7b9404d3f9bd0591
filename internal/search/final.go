package search

import (
	"maps"

	"coppice/internal/sweep"
)

// ChooseFinal returns what the final training of a sweep trains: the trial that wins, and its parameters, in which the
// number of trees is fixed. A final training of several models keeps early stopping instead, since each of them leaves
// out rows to stop by, unless the winner itself was ended by its time limit. If no trial can win, winner is nil and
// none says why.
//
// It is called when all other trials have ended, so the answer is the same whichever task asks. The aggregator may find
// later that the winner's files cannot be used; then it picks another trial, and the final model is not used.
func ChooseFinal(p *sweep.Plan, b sweep.Board, require []*Condition) (winner *sweep.Result, params sweep.Params,
	none string) {
	s := Pick(p, b, p.Spec.Metric, require, nil)
	number, ok := s.Winner()
	if !ok {
		return nil, nil, s.Reason
	}
	for _, row := range b.Rows { // one of them is the winner's, with a result: Pick chooses among them
		if row.Trial.Number != number {
			continue
		}
		// The result's parameters are complete. Those of the plan are taken if it has none.
		winner = row.Result
		params = maps.Clone(winner.Params)
		if params == nil {
			params = maps.Clone(row.Trial.Params)
		}
	}
	if p.Spec.BagOf(winner.Trees, 0) == 1 || winner.AtLimit {
		params["num_iterations"], params["early_stopping_round"] = float64(max(1, winner.Trees)), 0.0
	}
	return winner, params, ""
}
