package fit

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// TestOneIn checks that sampleRows takes one row of each nine neighbours in use, the same ones each time.
func TestOneIn(t *testing.T) {
	for name, d := range map[string]gbt.Data{
		"all rows": {Rows: 1000},
		"some of them": {Rows: 4000, Subset: slices.Collect(func(yield func(uint32) bool) { // every fourth
			for i := uint32(3); i < 4000 && yield(i); i += 4 {
			}
		})},
	} {
		// A ninth of the rows, rounded up.
		rows := sampleRows(&d, 9, false)
		if want := (d.Used() + 8) / 9; len(rows) != want || !slices.IsSorted(rows) {
			t.Errorf("%s: one in 9 of %d is %d rows, ascending %t; want %d, ascending", name, d.Used(), len(rows),
				slices.IsSorted(rows), want)
		}

		// One of each nine neighbours.
		for i, r := range rows {
			position := int(r) // among the rows in use
			if d.Subset != nil {
				position = slices.Index(d.Subset, r)
			}
			if position/9 != i {
				t.Fatalf("%s: row %d of the sample is at %d of those in use; want one of %d to %d", name, i, position,
					9*i, 9*i+8)
			}
		}

		if again := sampleRows(&d, 9, false); !slices.Equal(again, rows) {
			t.Errorf("%s: drawn again: %v; want the same rows %v", name, again, rows)
		}
	}
}

// TestTrainingOnASample trains on one row in four: the trainer must get a quarter of the rows, with parameters adapted
// to so few, and all of valid to evaluate on. The training must have another identity than one on all rows.
func TestTrainingOnASample(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 3000})
	whole := request(t)
	whole.Params.MinDataInLeaf, whole.Params.LambdaL2, whole.Valid = 60, 8, &sweep.Rows{Split: "valid"}
	part, p := whole, whole.Params
	part.OneIn = 4
	train, valid := table.ds.Split("train"), table.ds.Split("valid")
	part.Grow = func(ctx context.Context, d *gbt.Data, got gbt.Params, o gbt.Options) (*gbt.Result, error) {
		if want := (train.Rows + 3) / 4; d.Used() != want || o.Valid.Used() != valid.Rows ||
			got.MinDataInLeaf != 15 || got.LambdaL2 != 2 {
			t.Errorf("one row in 4: trains on %d rows of %d, rated on %d of %d, min_data_in_leaf %d, lambda_l2 %v; "+
				"want %d rows, all, 15 and 2", d.Used(), train.Rows, o.Valid.Used(), valid.Rows, got.MinDataInLeaf,
				got.LambdaL2, want)
		}
		return gbt.Train(ctx, d, got, o)
	}
	if got := must.Get(table.Train(t.Context(), part))(t); got.TrainRows != (train.Rows+3)/4 || !(got.Score > 0.5) {
		t.Errorf("one row in 4: trained on %d rows of %d with score %v; want a quarter, and above 0.5", got.TrainRows,
			train.Rows, got.Score)
	}
	if a, b := table.Identity(whole), table.Identity(part); a == b {
		t.Errorf("both trainings have the identity %q; want two, or one would resume the other's checkpoint", a)
	}

	// The least number of rows and the penalty are divided by four: 60 / 4 and 8 / 4. The number stays at least 1.
	if got := p.ForSample(4); got.MinDataInLeaf != 15 || got.LambdaL2 != 2 ||
		got.LearningRate != p.LearningRate {
		t.Errorf("parameters of a sample: min_data_in_leaf %d, lambda_l2 %v, learning_rate %v; want 15, 2 and %v",
			got.MinDataInLeaf, got.LambdaL2, got.LearningRate, p.LearningRate)
	}
	if got := p.ForSample(100); got.MinDataInLeaf != 1 {
		t.Errorf("min_data_in_leaf of one row in 100: %d, want 1", got.MinDataInLeaf)
	}
}

// TestOneOrder stages a table with one copy and with three copies of train. The first copy of the three (Once) must
// train the same model as the table with one.
func TestOneOrder(t *testing.T) {
	// budget: 0 combines no columns, so that statistics of site alone are made.
	open := func(copies int) *Table {
		return openTable(t, datasettest.Options{Rows: 2000, Encodings: fmt.Sprintf("{columns: {site: [rate, count]}, "+
			"budget: 0, order: {copies: %d}}", copies)})
	}
	one, three := open(1), open(3)
	q := Request{Params: fewTrees(), Rows: []sweep.Rows{{Split: sweep.Train}}}
	want, text := trainToText(t, one, q)
	all, _ := trainToText(t, three, q)
	q.Rows[0].Once = true
	got, same := trainToText(t, three, q)
	if all.TrainRows != 3*want.TrainRows || got.TrainRows != want.TrainRows || !bytes.Equal(same, text) {
		t.Errorf("trained on %d rows of three orders and on %d of the first; want %d and %d, and the model of one "+
			"order: got the same %t", all.TrainRows, got.TrainRows, 3*want.TrainRows, want.TrainRows,
			bytes.Equal(same, text))
	}
	q.Rows[0].Once = false
	if id := three.Identity(q); id == three.Identity(Request{Params: q.Params, Rows: []sweep.Rows{{Split: sweep.Train,
		Once: true}}}) {
		t.Errorf("trainings on one order and on all have the same identity %s; want two", id)
	}
}

// rareClicks is a table with few clicks, of which the true probability of each row is known. The first rows are train,
// the others valid.
type rareClicks struct {
	file         table.File
	held         *table.Batch // the columns of valid
	probability  []float64    // of a click, by row of valid
	train, valid int          // numbers of rows
}

// newRareClicks draws the table: a click's log odds are -4.2 (1.5 %) plus effects of a site, an ad and a number. It
// writes the table as CSV, and keeps valid in memory with its probabilities.
func newRareClicks(t *testing.T) *rareClicks {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 12))
	c := &rareClicks{train: 160_000, valid: 60_000}
	sites, ads := make([]float64, 400), make([]float64, 60) // what each adds to the log odds
	for i := range sites {
		sites[i] = 0.8 * rng.NormFloat64()
	}
	for i := range ads {
		ads[i] = 0.8 * rng.NormFloat64()
	}

	// Draw the rows.
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

// model stages the table with more lines of dataset.yaml, trains, and predicts probabilities for all rows of valid,
// with those that the dataset has left out. The dataset d is closed when the test ends.
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

// expectedLoss returns the mean log loss that predictions for valid are expected to have, given the true probabilities,
// and calibration, the mean prediction divided by the mean probability.
func (c *rareClicks) expectedLoss(predicted []float64) (loss, calibration float64) {
	sum, want := 0.0, 0.0
	for r, q := range predicted {
		p := c.probability[r]
		loss -= p*math.Log(q) + (1-p)*math.Log(1-q)
		sum, want = sum+q, want+p
	}
	return loss / float64(len(predicted)), sum / want
}

// TestThinnedNegatives stages a table with a tenth of its negative rows. The model must be nearly as good as that of
// all rows, its probabilities must be those of the whole table, and the log loss on what is left of valid must be about
// that of all of valid.
func TestThinnedNegatives(t *testing.T) {
	c := newRareClicks(t)
	full, _, all := c.model(t, "")
	thin, o, some := c.model(t, "sample: {rows: 1000, negatives: 0.1}\n") // rows: of raw values, not looked at here
	fullLoss, fullRatio := c.expectedLoss(all)
	thinLoss, thinRatio := c.expectedLoss(some)
	t.Logf("all rows: log loss %.6f, mean prediction %.4f of the truth; a tenth of the negative ones: %.6f and %.4f",
		fullLoss, fullRatio, thinLoss, thinRatio)

	// Some 3 % of the rows are positive, so these and a tenth of the others are 13 %, less than a sixth.
	if rows, most := thin.Manifest.TableRows("train"), full.Manifest.TableRows("train")/6; rows > most {
		t.Errorf("%d of %d rows were kept, want at most a sixth", rows, full.Manifest.TableRows("train"))
	}
	if thinLoss > 1.005*fullLoss || math.Abs(thinRatio-1) > 0.02 {
		t.Errorf("with a tenth of the negatives: log loss %.6f, mean prediction %.4f of the truth; want at most .5 %% "+
			"above %.6f, and within 2 %% of the truth", thinLoss, thinRatio, fullLoss)
	}
	if math.Abs(o.Score/thinLoss-1) > 0.05 { // valid has only some 1,000 positive rows, so its log loss is noisy
		t.Errorf("log loss on what is left of valid is %.6f; on all of it, it should be about %.6f", o.Score, thinLoss)
	}
}

// TestStandardErrorOfSomeRows expects about the same standard error from a seventh of the rows as from all, with a
// formula and by resampling, with weights and without.
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

// openTable stages a generated table and opens it, until the test ends.
func openTable(t *testing.T, o datasettest.Options) *Table {
	t.Helper()
	dir, _ := datasettest.Dir(t, o)
	ds := must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() {
		if err := ds.Close(); err != nil {
			t.Errorf("closing the dataset: %v", err)
		}
	})
	return NewTable(ds)
}

// trainToText trains on a table, evaluates on valid with auc, and returns the model also as text.
func trainToText(t *testing.T, table *Table, q Request) (*Evaluated, []byte) {
	t.Helper()
	auc := must.Get(metric.Lookup("auc"))(t)
	q.Metric, q.Threads, q.Valid = auc, 1, &sweep.Rows{Split: dataset.ValidSplit}
	o := must.Get(table.Train(t.Context(), q))(t)
	var text bytes.Buffer
	must.Get(o.Model.WriteTo(&text))(t)
	return o, text.Bytes()
}

// fewTrees returns parameters for 15 trees of 7 leaves.
func fewTrees() gbt.Params {
	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves = 15, 7
	return p
}

// TestValueRatesAndDoesNotStop trains with a value, computed from predictions and labels, as the metric. Training must
// stop after as many trees as with log loss, since values are too noisy to stop by. The score must be the value, and
// the same for any number of threads.
func TestValueRatesAndDoesNotStop(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 900})
	trained := func(name string, threads int) *Evaluated {
		t.Helper()
		q := request(t)
		q.Valid, q.Threads, q.StandardError = &sweep.Rows{Split: sweep.Valid}, threads, true
		q.Params.NumIterations, q.Params.LearningRate, q.Params.EarlyStoppingRound = 60, 0.3, 3
		q.Metric = must.Get(metric.Lookup(name))(t)
		return must.Get(table.Train(t.Context(), q))(t)
	}
	const name = "value(prediction > 0.3 ? 4 * label - 1 : 0)"
	byLoss, byValue, fourThreads := trained("log_loss", 1), trained(name, 1), trained(name, 4)
	if byValue.Grown != byLoss.Grown || byValue.Best != byLoss.Best || byValue.Grown == 60 {
		t.Errorf("with a value, %d trees were grown and %d were best; want %d and %d as with log loss, fewer than 60",
			byValue.Grown, byValue.Best, byLoss.Grown, byLoss.Best)
	}
	if byValue.Score != byValue.Metrics[name] || byValue.Metrics["log_loss"] != byLoss.Score ||
		!(byValue.ScoreSE > 0) || byValue.Score != fourThreads.Score || byValue.ScoreSE != fourThreads.ScoreSE {
		t.Errorf("score %v ± %v, metrics %v; want the value as the score, log loss %v among the metrics, and as with "+
			"four threads %v ± %v", byValue.Score, byValue.ScoreSE, byValue.Metrics, byLoss.Score, fourThreads.Score,
			fourThreads.ScoreSE)
	}
}

// TestValueOfStagedColumns uses a value of staged columns as the metric, and compares the score with the mean computed
// by hand over the rows in use. A value of a column that was not staged must be refused before a tree is grown.
func TestValueOfStagedColumns(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 900,
		Split: "{by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\nvalues: [price, revenue]"})
	for _, folds := range [][]uint8{nil, {0, 1, 2, 3, 4, 5, 6}} {
		q := request(t)
		q.Valid, q.StandardError = &sweep.Rows{Split: sweep.Valid, Folds: folds}, true
		q.Metric = must.Get(metric.Lookup("value(prediction * 2 > price / 4 ? revenue - price * label : 0)"))(t)
		o := must.Get(table.Train(t.Context(), q))(t)

		// The same by hand.
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
			t.Errorf("folds %v: the score is %v ± %v, want %v with an error above 0; %d of %d rows are chosen, want "+
				"some but not all", folds, o.Score, o.ScoreSE, sum/float64(n), chosen, n)
		}
	}

	q := request(t)
	q.Metric, _ = metric.Lookup("value(prediction * bid)")
	_, err := table.Train(t.Context(), q)
	must.Say(t, "a value of a column that was not staged", err, "has no values of \"bid\" (known: price, revenue); "+
		"list it under values: in its dataset.yaml, and stage it again")
}
