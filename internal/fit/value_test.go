package fit

import (
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// TestValueRatesAndDoesNotStop: a training that a value judges has the trees that log loss stops, for any number of
// threads, and the value as its score.
func TestValueRatesAndDoesNotStop(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 900})
	trained := func(name string, threads int) *Evaluated {
		t.Helper()
		q := request(t)
		q.Valid, q.Threads, q.StandardError = &sweep.Rows{Split: sweep.Valid}, threads, true
		q.Params.NumIterations, q.Params.LearningRate, q.Params.EarlyStoppingRound = 60, 0.3, 3
		var err error
		if q.Metric, err = metric.Lookup(name); err != nil {
			t.Fatal(err)
		}
		o, err := table.Train(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	const name = "value(prediction > 0.3 ? 4 * label - 1 : 0)"
	by, own, four := trained("log_loss", 1), trained(name, 1), trained(name, 4)
	if own.Grown != by.Grown || own.Best != by.Best || own.Grown == 60 {
		t.Errorf("a value stops after %d trees with the best %d, log loss after %d with %d", own.Grown, own.Best, by.Grown,
			by.Best)
	}
	if own.Score != own.Metrics[name] || own.Metrics["log_loss"] != by.Score || !(own.ScoreSE > 0) ||
		own.Score != four.Score || own.ScoreSE != four.ScoreSE {
		t.Errorf("score %v ± %v, with four threads %v ± %v, metrics %v", own.Score, own.ScoreSE, four.Score, four.ScoreSE,
			own.Metrics)
	}
}
