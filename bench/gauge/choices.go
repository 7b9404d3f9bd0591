package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// choicesFlags say which configurations are trained on a staged table.
type choicesFlags struct {
	trials, folds int
	seed          uint64
	fixed         string
}

// lossGroups is into how many groups of rows a split's losses are added up: drawing these with replacement is nearly
// drawing rows, and 200 numbers a split can be kept.
const lossGroups = 200

// candidate is what one configuration comes to on rows that it was not trained on. Losses are means of log loss by
// group of rows, the same groups for all candidates of a table.
type candidate struct {
	Params sweep.Params         `json:"params"` // beyond the common ones
	Source string               `json:"source"`
	Trees  int                  `json:"trees"`
	Valid  float64              `json:"valid"`
	Loss   map[string][]float32 `json:"loss"`  // valid, calib, test, and train by folds
	Final  float64              `json:"final"` // log loss on test with the calibrator that calib has chosen
	Slope  map[string]float64   `json:"slope"` // of labels' log odds by raw scores, on held-out splits
}

type choices struct {
	Rows       map[string]int `json:"rows"`
	Seconds    float64        `json:"seconds"`
	Features   int            `json:"features"`
	Candidates []candidate    `json:"candidates"`
}

func choicesCommand(out io.Writer) *cobra.Command {
	var f choicesFlags
	cmd := &cobra.Command{
		Use: "choices DIR", Short: "Train the default and what a search tries on a staged table; print their losses " +
			"on valid, calib, test and by folds, as one JSON object",
		Args: cobra.ExactArgs(1), Example: "  gauge choices data/clicks/0123456789abcdef --trials 30 --folds 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.run(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(c)
		},
	}
	cmd.Flags().IntVar(&f.trials, "trials", 30, "configurations: the default, then those of auto, one at a time")
	cmd.Flags().IntVar(&f.folds, "folds", 5, "folds of train that judge each configuration, too; 0: none")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "of the search")
	cmd.Flags().StringVar(&f.fixed, "fixed", "[]", "configurations beside these, as JSON")
	return cmd
}

// defaultSpace is the space of a sweep without a search section.
func defaultSpace() sweep.Search {
	return sweep.Search{Random: map[string]sweep.Distribution{
		"learning_rate":    {LogUniform: []float64{0.03, 0.3}},
		"num_leaves":       {LogInt: []int64{8, 255}},
		"min_data_in_leaf": {LogInt: []int64{5, 500}},
		"feature_fraction": {Uniform: []float64{0.4, 1}},
		"lambda_l2":        {LogUniform: []float64{0.001, 20}},
	}}
}

func (f *choicesFlags) run(ctx context.Context, dir string) (*choices, error) {
	start := time.Now()
	ds, err := dataset.Open(dir)
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	r := &trainer{table: fit.NewTable(ds), seed: f.seed, parts: map[string][]int{}}
	if r.metric, err = metric.Lookup("log_loss"); err != nil {
		return nil, err
	}
	if f.folds > 0 {
		if r.folds, err = r.table.Folds(fit.KFold, f.folds); err != nil {
			return nil, err
		}
	}
	c := &choices{Rows: map[string]int{}, Features: r.table.Features()}
	r.orders = max(1, ds.Manifest.Copies())
	for _, s := range ds.Manifest.Splits {
		c.Rows[s.Name] = s.Rows
	}
	c.Rows[dataset.TrainSplit] /= r.orders

	var known []sweep.Seen
	for n := range f.trials {
		params, source := sweep.Params{}, search.SourceDefault
		if n > 0 {
			next, err := search.Next(ctx, search.Ask{Search: defaultSpace(), Seed: f.seed, Known: known, Number: 1})
			if err != nil {
				return nil, err
			}
			params, source = next[0].Params, next[0].Source
		}
		one, err := r.train(ctx, params, source)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", params, err)
		}
		c.Candidates = append(c.Candidates, *one)
		score := one.Valid
		if n > 0 {
			known = append(known, sweep.Seen{Trial: n - 1, Status: sweep.StatusDone, Score: &score, Params: params})
		}
	}
	var fixed []sweep.Params
	if err := json.Unmarshal([]byte(f.fixed), &fixed); err != nil {
		return nil, fmt.Errorf("--fixed %s: %w", f.fixed, err)
	}
	for _, params := range fixed {
		one, err := r.train(ctx, params, search.SourceFixed)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", params, err)
		}
		c.Candidates = append(c.Candidates, *one)
	}
	c.Seconds = time.Since(start).Seconds()
	return c, nil
}

// trainer trains configurations on one table.
type trainer struct {
	table  *fit.Table
	metric metric.Metric
	folds  []fit.Fold
	orders int // how often train has each row
	seed   uint64
	parts  map[string][]int // by split, the group of each row
}

func (r *trainer) train(ctx context.Context, params sweep.Params, source string) (*candidate, error) {
	full, err := r.table.Complete(sweep.Params{"objective": "binary", "num_iterations": 500.0,
		"early_stopping_round": 20.0, "seed": float64(r.seed)}, params)
	if err != nil {
		return nil, err
	}
	parsed, err := gbt.ParseParams(full)
	if err != nil {
		return nil, err
	}
	q := fit.Request{Params: parsed, Metric: r.metric, Threads: 1, Valid: &sweep.Rows{Split: dataset.ValidSplit}}
	o, err := r.table.Train(ctx, q)
	if err != nil {
		return nil, err
	}
	c := &candidate{Params: params, Source: source, Trees: len(o.Model.Trees), Valid: o.Score,
		Loss: map[string][]float32{}, Slope: map[string]float64{}}

	var calibrator *calibrate.Calibrator
	for _, split := range []string{dataset.ValidSplit, "calib", "test"} {
		rows, raw, err := r.score(o.Model, sweep.Rows{Split: split})
		if err != nil {
			return nil, err
		}
		c.Loss[split] = r.groups(split, losses(rows.Label, raw))
		c.Slope[split] = slope(rows.Label, raw)
		if split == "calib" {
			chosen, err := calibrate.Choose(raw, rows.Label, nil, r.seed)
			if err != nil {
				return nil, err
			}
			calibrator = chosen.Calibrator
		}
		if split == "test" {
			p := calibrator.PredictAll(nil, raw)
			for i, y := range rows.Label {
				c.Final -= math.Log(math.Abs(1 - float64(y) - p[i]))
			}
			c.Final /= float64(len(p))
		}
	}
	return c, r.crossValidate(ctx, q, c)
}

// crossValidate adds the losses of each row of train by the model that has not seen its fold, which also stops it.
func (r *trainer) crossValidate(ctx context.Context, q fit.Request, c *candidate) error {
	var all []float64
	for _, f := range r.folds {
		q.Rows, q.Valid = []sweep.Rows{f.Train}, &f.Rated
		o, err := r.table.Train(ctx, q)
		if err != nil {
			return err
		}
		rows, raw, err := r.score(o.Model, f.Rated)
		if err != nil {
			return err
		}
		if all == nil {
			all = make([]float64, rows.Data.Rows)
		}
		for i, loss := range losses(rows.Label, raw) {
			all[rows.Data.Subset[i]] = loss
		}
	}
	if all == nil {
		return nil
	}
	once := make([]float64, len(all)/r.orders) // rows that train has several times count once
	for i, loss := range all {
		once[i%len(once)] += loss / float64(r.orders)
	}
	c.Loss[dataset.TrainSplit] = r.groups(dataset.TrainSplit, once)
	return nil
}

func (r *trainer) score(m *gbt.Model, part sweep.Rows) (*fit.HeldOut, []float64, error) {
	rows, err := r.table.Select(part)
	if err != nil {
		return nil, nil, err
	}
	raw, err := m.PredictBinned(&rows.Data, 1)
	return rows, raw, err
}

// groups returns the mean loss of each group of rows.
func (r *trainer) groups(split string, loss []float64) []float32 {
	if r.parts[split] == nil {
		r.parts[split] = rand.New(rand.NewPCG(1, uint64(len(loss)))).Perm(len(loss))
	}
	sum, n := make([]float64, lossGroups), make([]float64, lossGroups)
	for i, at := range r.parts[split] {
		g := at * lossGroups / len(loss)
		sum[g] += loss[i]
		n[g]++
	}
	out := make([]float32, lossGroups)
	for g := range out {
		out[g] = float32(sum[g] / n[g])
	}
	return out
}

func losses(label []float32, raw []float64) []float64 {
	out := make([]float64, len(raw))
	for i, z := range raw {
		out[i] = max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) - float64(label[i])*z
	}
	return out
}

// slope is that of a logistic regression of the labels on the raw scores: above 1 scores are too timid.
func slope(label []float32, raw []float64) float64 {
	a, b := 0.0, 1.0
	for range 30 {
		var ga, gb, haa, hab, hbb float64
		for i, z := range raw {
			p := 1 / (1 + math.Exp(-a-b*z))
			w, d := p*(1-p), p-float64(label[i])
			ga, gb, haa, hab, hbb = ga+d, gb+d*z, haa+w, hab+w*z, hbb+w*z*z
		}
		det := haa*hbb - hab*hab
		if !(det > 1e-12) {
			break
		}
		a, b = a-(hbb*ga-hab*gb)/det, b-(haa*gb-hab*ga)/det
	}
	return b
}
