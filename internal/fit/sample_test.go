package fit

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestOneIn: a sample has one row of every so many, the same for everybody.
func TestOneIn(t *testing.T) {
	for name, d := range map[string]gbt.Data{
		"all rows": {Rows: 1000},
		"some of them": {Rows: 4000, Subset: slices.Collect(func(yield func(uint32) bool) { // every fourth
			for i := uint32(3); i < 4000 && yield(i); i += 4 {
			}
		})},
	} {
		rows := sampleRows(&d, 9, false)
		if want := (d.Used() + 8) / 9; len(rows) != want || !slices.IsSorted(rows) {
			t.Errorf("%s: one in 9 of %d is %d rows, ascending %t; want %d, ascending", name, d.Used(), len(rows),
				slices.IsSorted(rows), want)
		}
		for i, r := range rows {
			place := int(r)
			if d.Subset != nil {
				place = slices.Index(d.Subset, r)
			}
			if place/9 != i {
				t.Fatalf("%s: row %d of the sample is the one at %d; want one of %d to %d", name, i, place, 9*i, 9*i+8)
			}
		}
		if again := sampleRows(&d, 9, false); !slices.Equal(again, rows) {
			t.Errorf("%s: drawn again, other rows; want the same", name)
		}
	}
}

// TestTrainingOnASample: it sees a part of the rows, with parameters that fit so few, and valid rates it whole.
func TestTrainingOnASample(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 3000})
	m := must.Get(metric.Lookup("auc"))(t)
	p := gbt.Defaults()
	p.NumIterations, p.MinDataInLeaf, p.LambdaL2 = 10, 60, 8
	whole := Request{Params: p, Metric: m, Threads: 1, Valid: &sweep.Rows{Split: "valid"}}
	part := whole
	part.OneIn = 4

	all := must.Get(table.Train(t.Context(), whole))(t)
	some := must.Get(table.Train(t.Context(), part))(t)
	if want := (all.TrainRows + 3) / 4; some.TrainRows != want {
		t.Errorf("trained on %d rows of %d; want %d", some.TrainRows, all.TrainRows, want)
	}
	if !(some.Score > 0.5) || some.Score == all.Score {
		t.Errorf("the score of the sample's model is %v, of the whole one %v; want another one above 0.5", some.Score,
			all.Score)
	}
	if a, b := table.Identity(whole), table.Identity(part); a == b {
		t.Errorf("both trainings have the identity %q; want two, or one would go on from the other's checkpoint", a)
	}

	if got := p.ForSample(4); got.MinDataInLeaf != 15 || got.LambdaL2 != 2 ||
		got.LearningRate != p.LearningRate {
		t.Errorf("parameters of a sample: min_data_in_leaf %d, lambda_l2 %v; want 15, 2", got.MinDataInLeaf,
			got.LambdaL2)
	}
	if got := p.ForSample(100); got.MinDataInLeaf != 1 {
		t.Errorf("min_data_in_leaf of one row in 100: %d, want 1", got.MinDataInLeaf)
	}
}

// TestOneOrder: a table whose train has its rows in three orders, taken once, trains what it would with one order.
func TestOneOrder(t *testing.T) {
	open := func(copies int) *Table {
		return night(t, datasettest.Options{Rows: 2000, Encodings: fmt.Sprintf("{columns: {site: [rate, count]}, "+
			"budget: 0, order: {copies: %d}}", copies)})
	}
	one, three := open(1), open(3)
	q := Request{Params: few(), Rows: []sweep.Rows{{Split: sweep.Train}}}
	want, text := trained(t, one, q)
	all, _ := trained(t, three, q)
	q.Rows[0].Once = true
	got, same := trained(t, three, q)
	if all.TrainRows != 3*want.TrainRows || got.TrainRows != want.TrainRows || !bytes.Equal(same, text) {
		t.Errorf("three orders: %d rows, one of them %d; expected three times %d and once, and the same model",
			all.TrainRows, got.TrainRows, want.TrainRows)
	}
	q.Rows[0].Once = false
	if id := three.Identity(q); id == three.Identity(Request{Params: q.Params, Rows: []sweep.Rows{{Split: sweep.Train,
		Once: true}}}) {
		t.Errorf("%s: a checkpoint of one order is taken for one of all", id)
	}
}

// rareClicks is a table of rare clicks whose probabilities are known: the first rows are train, the last valid.
type rareClicks struct {
	file         table.File
	held         *table.Batch // the rows of valid
	probability  []float64    // of theirs
	train, valid int
}

func newRareClicks(t *testing.T) *rareClicks {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 12))
	c := &rareClicks{train: 160_000, valid: 60_000}
	sites, ads := make([]float64, 400), make([]float64, 60)
	for i := range sites {
		sites[i] = 0.8 * rng.NormFloat64()
	}
	for i := range ads {
		ads[i] = 0.8 * rng.NormFloat64()
	}
	c.held = &table.Batch{Names: []string{"site", "ad", "x"}, Rows: c.valid,
		Columns: []dataset.Values{{Type: dataset.Text}, {Type: dataset.Text}, {Type: dataset.Float}}}
	var b bytes.Buffer
	b.WriteString("y,site,ad,x,part\n")
	for i := range c.train + c.valid {
		site, ad, x := rng.IntN(len(sites)), rng.IntN(len(ads)), rng.NormFloat64()
		p := 1 / (1 + math.Exp(4.2-sites[site]-ads[ad]-0.6*x))
		y, part := 0, "train"
		if rng.Float64() < p {
			y = 1
		}
		if i >= c.train {
			part = "valid"
			c.probability = append(c.probability, p)
			c.held.Columns[0].Text = append(c.held.Columns[0].Text, fmt.Sprint("s", site))
			c.held.Columns[1].Text = append(c.held.Columns[1].Text, fmt.Sprint("a", ad))
			c.held.Columns[2].Float = append(c.held.Columns[2].Float, x)
		}
		fmt.Fprintf(&b, "%d,s%d,a%d,%v,%s\n", y, site, ad, x, part)
	}
	path := filepath.Join(t.TempDir(), "clicks.csv")
	must.Do(t, os.WriteFile(path, b.Bytes(), 0o644))
	files := must.Get(table.Expand(path))(t)
	c.file = files[0]
	return c
}

// model stages the table with more lines of the spec, trains, and predicts all rows of valid, those that the dataset
// has left out among them.
func (c *rareClicks) model(t *testing.T, rest string) (d *dataset.Dataset, o *Evaluated, predicted []float64) {
	t.Helper()
	spec := must.Get(dataset.ParseSpec("dataset.yaml",
		[]byte("name: t\nsource: t.csv\nlabel: y\nsplit: {by: column, column: part}\n"+rest)))(t)
	dir := filepath.Join(t.TempDir(), "d")
	must.Get(ingest.Stage(t.Context(), spec, []table.File{c.file}, dir, ingest.Options{}))(t)
	d = must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() { d.Close() })
	q := Request{Params: gbt.Defaults(), Threads: 2, Valid: &sweep.Rows{Split: dataset.ValidSplit}}
	q.Params.NumIterations, q.Params.NumLeaves = 80, 15
	q.Metric = must.Get(metric.Lookup("log_loss"))(t)
	o = must.Get(NewTable(d).Train(t.Context(), q))(t)
	values := must.Get(datasettest.Encoder(t, d).Encode(c.held, nil, nil, 1))(t)
	predicted = make([]float64, c.valid)
	must.Do(t, o.Model.PredictAll(values, predicted, 2))
	gbt.Probabilities(predicted)
	return d, o, predicted
}

// expectedLoss is the log loss that predictions have on average over labels of the known probabilities, and calibration
// the ratio of means.
func (c *rareClicks) expectedLoss(predicted []float64) (loss, calibration float64) {
	sum, want := 0.0, 0.0
	for r, q := range predicted {
		p := c.probability[r]
		loss -= p*math.Log(q) + (1-p)*math.Log(1-q)
		sum, want = sum+q, want+p
	}
	return loss / float64(len(predicted)), sum / want
}

// A tenth of the negative rows makes nearly the model that all of them make: its probabilities are those of the whole
// table, and so are the metrics that are measured on what is left of valid.
func TestThinnedNegatives(t *testing.T) {
	c := newRareClicks(t)
	full, _, all := c.model(t, "")
	thin, o, some := c.model(t, "sample: {rows: 1000, negatives: 0.1}\n")
	fullLoss, fullRatio := c.expectedLoss(all)
	thinLoss, thinRatio := c.expectedLoss(some)
	t.Logf("all rows: log loss %.6f, mean prediction %.4f of the truth; a tenth of the negative ones: %.6f and %.4f",
		fullLoss, fullRatio, thinLoss, thinRatio)
	if rows, most := thin.Manifest.TableRows("train"), full.Manifest.TableRows("train")/6; rows > most {
		t.Errorf("%d of %d rows were kept, want at most a sixth", rows, full.Manifest.TableRows("train"))
	}
	if thinLoss > 1.005*fullLoss || math.Abs(thinRatio-1) > 0.02 {
		t.Errorf("log loss %.6f instead of %.6f, mean prediction %.4f of the truth", thinLoss, fullLoss, thinRatio)
	}
	if math.Abs(o.Score/thinLoss-1) > 0.05 { // labels are drawn: 1,000 positive rows
		t.Errorf("log loss on what is left of valid is %.6f; on all of it, it should be about %.6f", o.Score, thinLoss)
	}
}

// TestStandardErrorOfSomeRows: a fraction of the rows gives about the error of all, with a formula and by resampling,
// weighted or not.
func TestStandardErrorOfSomeRows(t *testing.T) {
	const rows = 40_000
	rng := rand.New(rand.NewPCG(1, 2))
	in := metric.Input{}
	for range rows {
		p := rng.Float64() * 0.4
		y := float32(0)
		if rng.Float64() < p {
			y = 1
		}
		in.Label, in.Pred, in.Weight = append(in.Label, y), append(in.Pred, p), append(in.Weight, 1+rng.Float32())
	}

	for _, name := range []string{"auc", "log_loss", "average_precision"} {
		m := must.Get(metric.Lookup(name))(t)
		for weighted, in := range map[bool]metric.Input{true: in, false: {Label: in.Label, Pred: in.Pred}} {
			whole, some := standardError(m, in, 3, rows), standardError(m, in, 3, rows/7)
			if !(math.Abs(some/whole-1) < 0.3) {
				t.Errorf("%s, weighted %t: the standard error is %.4g from all rows and %.4g from a seventh of "+
					"them; want them within 30 %%", name, weighted, whole, some)
			}
		}
	}

	m := must.Get(metric.Lookup("auc"))(t)
	if se := standardError(m, metric.Input{Label: []float32{0, 0}, Pred: []float64{1, 2}}, 3, rows); !math.IsNaN(se) {
		t.Errorf("without positives the standard error of auc is %v; want NaN", se)
	}
}

// night stages a night's table and opens it.
func night(t *testing.T, o datasettest.Options) *Table {
	t.Helper()
	dir, _ := datasettest.Dir(t, o)
	ds := must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() { ds.Close() })
	return NewTable(ds)
}

// trained is a model of a table, as text.
func trained(t *testing.T, table *Table, q Request) (*Evaluated, []byte) {
	t.Helper()
	auc := must.Get(metric.Lookup("auc"))(t)
	q.Metric, q.Threads, q.Valid = auc, 1, &sweep.Rows{Split: dataset.ValidSplit}
	o := must.Get(table.Train(t.Context(), q))(t)
	var text bytes.Buffer
	must.Get(o.Model.WriteTo(&text))(t)
	return o, text.Bytes()
}

func few() gbt.Params {
	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves = 15, 7
	return p
}

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
		return must.Get(table.Train(t.Context(), q))(t)
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
		must.Do(t, err)
		o := must.Get(table.Train(t.Context(), q))(t)

		rows := must.Get(table.Select(*q.Valid))(t)
		pred := must.Get(o.Model.PredictBinned(&rows.Data, 1))(t)
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
