package stager

import (
	"context"
	"fmt"

	"coppice/internal/dataset/encode"
	"coppice/internal/gbt"
	"coppice/internal/metric"
)

// The model by which staging measures which columns are worth combining. It is small and fast, because it is trained
// again after every few combinations, but can find simple interactions by itself: only others are worth a combination.
const (
	learnerTrees  = 80
	learnerLeaves = 15
	learnerL2     = 1
)

// compareOrders compares two scores of the same rows by how they order the rows of each query: gain is how much higher
// the mean NDCG@10 of fresh is than that of old, and sure whether it is higher beyond chance. All slices are by row;
// group has the query of each.
func compareOrders(label []float32, group []uint64, fresh, old []float64) (gain float64, sure bool, err error) {
	ndcg, err := metric.Lookup("ndcg@10")
	if err != nil {
		return 0, false, err
	}
	c, err := ndcg.Compare(metric.Input{Label: label, Pred: fresh, Group: group}, old, metric.Confidence{})
	return c.Gain, c.Better(0), err // better at all: the whole interval of the difference is above 0
}

// learner is the encode.Learner of staging: it trains a small model on the training rows of l and returns its
// predictions, by row, which are 0 for the training rows. With groups the model ranks their rows; otherwise its
// objective is binary or regression, as l.Binary says.
func (s *Stager) learner(ctx context.Context, l *encode.TrainingSet) ([]float64, error) {
	// Bring the columns into the form that gbt takes: by column, and row by row. Numeric bins get some ascending
	// bounds, since only their order matters.
	d := &gbt.Data{Rows: len(l.Label), Label: l.Label}
	width := len(l.Columns)
	d.RowMajor = make([]byte, d.Rows*width)

	for i, c := range l.Columns {
		f := gbt.Feature{Name: fmt.Sprint(i), Bins: c.Bins, Categorical: c.Categorical, Missing: -1}
		for b := range c.Bins - 1 {
			if !c.Categorical {
				f.Bounds = append(f.Bounds, float64(b)+0.5)
			}
		}
		d.Features = append(d.Features, f)
		d.Columns = append(d.Columns, c.Data)
		for r, bin := range c.Data {
			d.RowMajor[r*width+i] = bin
		}
	}

	p := gbt.Defaults()
	p.NumIterations = learnerTrees
	p.NumLeaves = learnerLeaves
	p.LambdaL2 = learnerL2
	if d.Group = l.Group; l.Group != nil {
		p.Objective = "lambdarank"
	} else if !l.Binary { // the default is binary
		p.Objective = "regression"
	}

	held := *d
	d.Subset, held.Subset = l.Train, l.Held
	r, err := gbt.Train(ctx, d, p, gbt.Options{Threads: s.threads()})
	if err != nil {
		return nil, err
	}
	of, err := r.Model.PredictBinned(&held, s.threads())
	scores := make([]float64, d.Rows)
	for at := range of {
		scores[l.Held[at]] = of[at]
	}
	return scores, err
}
