package fit

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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
		t.Errorf("%d of %d rows were kept", rows, full.Manifest.TableRows("train"))
	}
	if thinLoss > 1.005*fullLoss || math.Abs(thinRatio-1) > 0.02 {
		t.Errorf("log loss %.6f instead of %.6f, mean prediction %.4f of the truth", thinLoss, fullLoss, thinRatio)
	}
	if math.Abs(o.Score/thinLoss-1) > 0.05 { // labels are drawn: 1,000 positive rows
		t.Errorf("log loss on what is left of valid is %.6f; on all of it, it should be about %.6f", o.Score, thinLoss)
	}
}
