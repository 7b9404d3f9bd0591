package fit

import (
	"math"
	"strings"
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
		t.Errorf("a value stops after %d trees with the best %d, log loss after %d with %d", own.Grown, own.Best,
			by.Grown, by.Best)
	}
	if own.Score != own.Metrics[name] || own.Metrics["log_loss"] != by.Score || !(own.ScoreSE > 0) ||
		own.Score != four.Score || own.ScoreSE != four.ScoreSE {
		t.Errorf("score %v ± %v, with four threads %v ± %v, metrics %v", own.Score, own.ScoreSE, four.Score,
			four.ScoreSE, own.Metrics)
	}
}

// TestValueOfStagedColumns: the score is the mean over the rows in use, by hand, and a column that was not staged is
// refused before a tree is grown.
func TestValueOfStagedColumns(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 900,
		Split: "{by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\nvalues: [price, revenue]"})
	for _, folds := range [][]uint8{nil, {0, 1, 2, 3, 4, 5, 6}} {
		q := request(t)
		q.Valid, q.StandardError = &sweep.Rows{Split: sweep.Valid, Folds: folds}, true
		var err error
		q.Metric, err = metric.Lookup("value(prediction * 2 > price / 4 ? revenue - price * label : 0)")
		if err != nil {
			t.Fatal(err)
		}
		o, err := table.Train(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}

		rows, err := table.Select(*q.Valid)
		if err != nil {
			t.Fatal(err)
		}
		pred, err := o.Model.PredictBinned(&rows.Data, 1)
		if err != nil {
			t.Fatal(err)
		}
		o.Model.Transform(pred)
		s, sum, n, chosen := table.ds.Split(sweep.Valid), 0.0, 0, 0
		for r := range s.Rows {
			if folds != nil && s.Fold[r] > 6 {
				continue
			}
			price := float64(s.Values["price"][r])
			if pred[n]*2 > price/4 {
				sum += float64(s.Values["revenue"][r]) - price*float64(s.Label[r])
				chosen++
			}
			n++
		}
		if math.Abs(o.Score-sum/float64(n)) > 1e-12 || chosen == 0 || chosen == n || !(o.ScoreSE > 0) {
			t.Errorf("folds %v: the score is %v ± %v, expected %v, of %d of %d rows", folds, o.Score, o.ScoreSE,
				sum/float64(n), chosen, n)
		}
	}

	q := request(t)
	q.Metric, _ = metric.Lookup("value(prediction * bid)")
	if _, err := table.Train(t.Context(), q); err == nil || !strings.Contains(err.Error(), "has no values of \"bid\" "+
		"(known: price, revenue); list it under values: in its dataset.yaml, and stage it again") {
		t.Errorf("a column that was not staged: %v", err)
	}
}
