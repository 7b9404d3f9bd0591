package gbt

import (
	"bufio"
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dmitryikh/leaves"

	"coppice/internal/exact"
	"coppice/internal/must"
)

// ofClasses is a random table with k classes that its features tell something of: the random label of a regression,
// rounded down and moved up by k/2, as far as that is one of the classes.
func ofClasses(s tableSpec, k int) *table {
	s.regression = true
	d := randomTable(s)
	for r, y := range d.Label {
		d.Label[r] = float32(min(max(int(math.Floor(float64(y)))+k/2, 0), k-1))
	}
	return d
}

// TestPredictionsOfClasses: the scores of a model of four classes are the same in all ways to get them: passed to Eval
// during the training, from binned rows, from raw values in batches and row by row, by the library leaves from the
// model's text, and from the model that is read back. The metric never changes. So with early stopping the first round
// stays the best one, and the last scores passed to Eval are not the model's.
func TestPredictionsOfClasses(t *testing.T) {
	const k = 4
	d := ofClasses(tableSpec{rows: 3000, numerical: 4, categorical: 2, bins: 30, missing: 0.1, seed: 2}, k)
	valid := d.Data
	for r := uint32(1); r < uint32(d.Rows); r += 2 {
		valid.Subset = append(valid.Subset, r)
	}
	for name, change := range map[string]func(*Params){
		"plain":       func(*Params) {},
		"from zero":   func(p *Params) { p.BoostFromAverage = false },
		"few splits":  func(p *Params) { p.MinGainToSplit, p.MinDataInLeaf = 20, 300 },
		"bags":        func(p *Params) { p.BaggingFreq, p.BaggingFraction = 2, 0.6 },
		"early":       func(p *Params) { p.EarlyStoppingRound = 50 },
		"by features": func(p *Params) { p.FeatureFraction = 0.4 },
	} {
		if raceEnabled && name != "plain" {
			continue
		}
		p := small()
		p.Objective, p.NumClass, p.NumIterations = softmaxName, k, 12
		change(&p)
		var last []float64
		res := mustTrain(t, &d.Data, p, Options{Threads: 2, Valid: &valid,
			Eval: func(raw []float64) (float64, error) {
				last = slices.Clone(raw)
				return -float64(len(last)), nil
			}})
		m := res.Model
		if len(m.Trees) != k*m.Iterations() || res.Best != m.Iterations() || res.Grown < res.Best {
			t.Fatalf("%s: %d trees, best %d of %d rounds; want %d each round", name, len(m.Trees),
				res.Best, res.Grown, k)
		}
		back, err := ReadModel(bytes.NewReader(text(t, m)))
		if err != nil {
			t.Fatalf("%s: reading the model back: got error %v, want none", name, err)
		}
		if !bytes.Equal(text(t, back), text(t, m)) {
			t.Errorf("%s: a model that is read and written again differs, want the same text", name)
		}
		binned := must.Get(m.PredictBinned(&valid, 2))(t)
		all := make([]float64, k*d.Rows)
		must.Do(t, back.PredictAll(d.raw, all, 2))
		other := must.Get(leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(text(t, m))), false))(t)
		one, theirs := make([]float64, k), make([]float64, k)
		for i, r := range valid.Subset {
			m.PredictRow(d.row(int(r)), one)
			must.Do(t, other.Predict(d.row(int(r)), 0, theirs))
			for c := range k {
				want := binned[i*k+c]
				// If early stopping cut trees off (Best < Grown), the last scores passed to Eval are of all trees.
				if one[c] != want || theirs[c] != want || all[int(r)*k+c] != want || res.Best == res.Grown &&
					math.Abs(last[i*k+c]-want) > 1e-12 {
					t.Fatalf("%s: row %d, class %d: %v by bins, %v row by row, %v in batches, %v by leaves, %v "+
						"passed to Eval; want all the same", name, r, c, want, one[c], all[int(r)*k+c], theirs[c],
						last[i*k+c])
				}
			}
		}
	}
}

// TestClassesLearn: probabilities add up to 1 and on average to the labels' shares, the loss is a fifth less than that
// of predicting these shares, and a class without rows, the fifth one here, stays unlikely.
func TestClassesLearn(t *testing.T) {
	unraced(t)
	const k = 5
	d := ofClasses(tableSpec{rows: 4000, numerical: 5, bins: 40, seed: 6}, k-1)
	p := small()
	p.Objective, p.NumClass, p.NumIterations = softmaxName, k, 60
	m := mustTrain(t, &d.Data, p, Options{Threads: 2}).Model
	pred := make([]float64, k*d.Rows)
	must.Do(t, m.PredictAll(d.raw, pred, 1))
	m.Transform(pred)
	var shares, means [k]float64
	loss, prior := 0.0, 0.0
	for r, y := range d.Label {
		shares[int(y)] += 1 / float64(d.Rows)
		sum := 0.0
		for c, v := range pred[r*k : (r+1)*k] {
			sum += v
			means[c] += v / float64(d.Rows)
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Fatalf("the probabilities of row %d add up to %v, want 1", r, sum)
		}
		loss -= math.Log(pred[r*k+int(y)]) / float64(d.Rows)
	}
	for c, s := range shares {
		if s > 0 {
			prior -= s * math.Log(s)
		}
		if math.Abs(means[c]-s) > 0.01 {
			t.Errorf("class %d is predicted %v on average, want %v within .01, its share of the rows", c, means[c], s)
		}
	}
	if !(loss < 0.8*prior) || means[k-1] > 1e-10 {
		t.Errorf("log loss %v, want less than .8 x %v, that of the shares; the class without rows is predicted %v, "+
			"want at most 1e-10", loss, prior, means[k-1])
	}
}

// TestContributionsOfClasses: the contributions to each class add up to the class's raw score.
func TestContributionsOfClasses(t *testing.T) {
	const k = 3
	d := ofClasses(tableSpec{rows: 1500, numerical: 3, categorical: 1, bins: 20, missing: 0.1, seed: 3}, k)
	p := small()
	p.Objective, p.NumClass, p.NumIterations = softmaxName, k, 6
	m := mustTrain(t, &d.Data, p, Options{}).Model
	rows, f := 50, m.Features()
	out, raw := make([]float64, rows*k*(f+1)), make([]float64, k)
	must.Do(t, m.Contributions(d.raw[:rows*f], out, 2))
	for r := range rows {
		m.PredictRow(d.row(r), raw)
		for c, want := range raw {
			sum := 0.0
			for _, v := range out[(r*k+c)*(f+1):][:f+1] {
				sum += v
			}
			if math.Abs(sum-want) > 1e-9 {
				t.Fatalf("row %d, class %d: contributions add up to %v, want the raw score %v", r, c, sum, want)
			}
		}
	}
}

// TestClassSlopes: gradients are difference quotients of the softmax loss, and hessians are LightGBM's definition.
func TestClassSlopes(t *testing.T) {
	const k = 3
	rng := rand.New(rand.NewPCG(1, 2))
	d := &Data{Rows: 6, Label: []float32{0, 1, 2, 2, 0, 1}, Weight: []float32{1, 2, 0.5, 1, 3, 1}}
	p := Defaults()
	p.Objective, p.NumClass = softmaxName, k
	each := must.Get(newObjectives(&p, d))(t)
	raw := make([][]float64, k)
	for c := range raw {
		for range d.Rows {
			raw[c] = append(raw[c], 3*rng.NormFloat64())
		}
		each[c].(*class).raw = raw
	}
	each[0].prepare(0, raw[0], nil, newPoolOfSize(2))
	loss := func(r, c int, by float64) float64 {
		sum := 0.0
		for j := range raw {
			s := raw[j][r]
			if j == c {
				s += by
			}
			sum += math.Exp(s)
		}
		own := raw[int(d.Label[r])][r]
		if int(d.Label[r]) == c {
			own += by
		}
		return float64(d.Weight[r]) * (math.Log(sum) - own)
	}
	const e = 1e-4
	for r := range d.Rows {
		for c := range raw {
			g, h := gradientOf(each[c], uint32(r), raw[c][r])
			wantG := (loss(r, c, e) - loss(r, c, -e)) / (2 * e)
			// K/(K-1) of the second derivative
			wantH := 1.5 * (loss(r, c, e) - 2*loss(r, c, 0) + loss(r, c, -e)) / (e * e)
			if math.Abs(g-wantG) > 1e-6 || math.Abs(h-wantH) > 1e-5 {
				t.Errorf("row %d, class %d: got %v and %v, want %v and %v", r, c, g, h, wantG, wantH)
			}
		}
	}
}

// TestMergeOfClasses: a model of classes that is merged with itself predicts the same scores.
func TestMergeOfClasses(t *testing.T) {
	const k = 3
	d := ofClasses(tableSpec{rows: 2000, numerical: 4, bins: 20, seed: 4}, k)
	p := small()
	p.Objective, p.NumClass = softmaxName, k
	one := mustTrain(t, &d.Data, p, Options{}).Model
	twice := must.Get(Merge([]*Model{one, one}))(t)
	want, got := make([]float64, k), make([]float64, k)
	one.PredictRow(d.row(7), want)
	twice.PredictRow(d.row(7), got)
	for c := range want {
		if math.Abs(got[c]-want[c]) > 1e-12 {
			t.Errorf("class %d: the model merged with itself predicts %v, want %v", c, got[c], want[c])
		}
	}
}

// TestStartIgnoresClassWeights: boosting starts from the share of positive rows whatever scale_pos_weight and
// is_unbalance say; what LightGBM 4.7 starts from was read off a model with a learning rate of 1e-9. The positive row
// has the weight 2, the others 4 together, which is the odds .5.
func TestStartIgnoresClassWeights(t *testing.T) {
	d := &Data{Rows: 4, Label: []float32{1, 0, 0, 0}, Weight: []float32{2, 1, 1, 2}}
	for _, change := range []func(*Params){func(*Params) {}, func(p *Params) { p.ScalePosWeight = 3 },
		func(p *Params) { p.IsUnbalance = true }} {
		p := Defaults()
		change(&p)
		each := must.Get(newObjectives(&p, d))(t)
		if got, want := each[0].init(true), exact.Log(0.5); got != want {
			t.Errorf("%+v: boosting starts from %v, want %v", p, got, want)
		}
	}
}

// TestModelsOfClassesRefused: a file whose lines disagree on the number of classes is refused, and so is one that says
// the objective in another way than LightGBM, or has more than 1,000 classes (mostClasses).
func TestModelsOfClassesRefused(t *testing.T) {
	d := ofClasses(tableSpec{rows: 500, numerical: 2, bins: 10, seed: 4}, 3)
	p := small()
	p.Objective, p.NumClass, p.NumIterations = softmaxName, 3, 2
	good := string(text(t, mustTrain(t, &d.Data, p, Options{}).Model))
	for _, change := range [][2]string{
		{"num_class=3", "num_class=2"}, {"num_tree_per_iteration=3", "num_tree_per_iteration=1"},
		{"num_class:3", "num_class:03"}, {"num_class:3", "num_class:4"}, {"num_class:3", "num_class:3 sigmoid:1"},
		{"=multiclass num", "=softmax num"}, {"num_class:3", "num_class:1001"},
	} {
		if _, err := ReadModel(strings.NewReader(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("a model with %q instead of %q was read, want an error", change[1], change[0])
		}
	}
}

// TestClassesContinueWithoutAClass: if a model is continued on rows that lack one of its classes, it predicts, for that
// class too, the scores that were passed to Eval.
func TestClassesContinueWithoutAClass(t *testing.T) {
	const k = 3
	d := ofClasses(tableSpec{rows: 2000, numerical: 4, bins: 20, seed: 4}, k)
	p := small()
	p.Objective, p.NumClass, p.NumIterations = softmaxName, k, 5
	in := must.Get(mustTrain(t, &d.Data, p, Options{}).Model.OnBins(d.Features))(t)
	tonight := d.Data
	for r, y := range d.Label {
		if y < k-1 {
			tonight.Subset = append(tonight.Subset, uint32(r))
		}
	}
	var rated []float64
	m := mustTrain(t, &tonight, p, Options{Input: in, Valid: &d.Data, Eval: func(raw []float64) (float64, error) {
		rated = slices.Clone(raw)
		return 0, nil
	}}).Model
	got := must.Get(m.PredictBinned(&d.Data, 1))(t)
	for i, want := range rated {
		if math.Abs(got[i]-want) > 1e-9 {
			t.Fatalf("row %d, class %d: the model predicts %v, want %v, which was passed to Eval", i/k, i%k, got[i],
				want)
		}
	}
}
