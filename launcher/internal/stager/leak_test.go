//go:build !race

// Many rows; what runs at the same time in staging is tested under the race detector by small tables.

package stager

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
)

// A random label must not become predictable by encoding. On leakRows rows, an AUC may differ from a half by leakBound,
// which is three standard errors: one is the root of 1/(3*rows), where half of the rows are positive.
var leakRows, leakBound, leakKeys = 30_000, 0.01, "[[user, site]]"

func init() {
	if os.Getenv("COPPICE_FULL") != "" {
		leakRows, leakBound, leakKeys = 120_000, 0.005, "[[user, site], [user, ad], [site, ad, price~]]"
	}
}

// shuffled stages a table of ids whose labels are random, and returns the dataset and the table. It has leakRows rows
// of train and as many of valid; if twice is set, those of valid are the rows of train again.
func shuffled(t *testing.T, rest string, twice bool) (*dataset.Dataset, []table.File) {
	t.Helper()
	source := rand.NewPCG(1, 12)
	rng := rand.New(source)
	var b bytes.Buffer
	b.WriteString("y,user,site,ad,device,price,ts,part\n")
	for i := range 2 * leakRows {
		if twice && i == leakRows {
			source.Seed(1, 12) // as at the start, so that the same rows come again
		}
		y := 0
		if rng.IntN(2) == 0 {
			y = 1
		}
		skewed := func(n int) int { return int(float64(n) * math.Pow(rng.Float64(), 2)) }
		fmt.Fprintf(&b, "%d,u%d,s%d,a%d,d%d,%.2f,%d,%s\n", y, skewed(60_000), skewed(800), skewed(3000), rng.IntN(5),
			10*rng.Float64(), 1_600_000_000+10*i, []string{"train", "valid"}[i/leakRows])
	}
	path := filepath.Join(t.TempDir(), "t.csv")
	must.Do(t, os.WriteFile(path, b.Bytes(), 0o644))
	files := must.Get(table.Expand(path))(t)
	return stageAndOpen(t, files, rest), files
}

// stageAndOpen stages files with a spec of which rest is all but name and source, and opens the dataset.
func stageAndOpen(t *testing.T, files []table.File, rest string) *dataset.Dataset {
	t.Helper()
	spec := must.Get(dataset.ParseSpec("dataset.yaml", []byte("name: t\nsource: t.csv\n"+rest)))(t)
	dir := filepath.Join(t.TempDir(), "d")
	must.Get(ingest.Stage(t.Context(), spec, files, dir, ingest.Options{Learner: new(Stager).learner}))(t)
	d := must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// leaks returns the columns whose values, alone, predict the label of their own rows, with their AUC.
func leaks(t *testing.T, names []string, label []float32, value func(column, row int) float64) []string {
	t.Helper()
	var found []string
	values := make([]float64, len(label))
	for i, name := range names {
		for r := range values {
			values[r] = value(i, r)
		}
		if auc := aucOf(t, label, values); math.Abs(auc-0.5) > leakBound {
			found = append(found, fmt.Sprintf("%s %.4f", name, auc))
		}
	}
	return found
}

// aucOf returns the AUC of values as predictions of a label.
func aucOf(t *testing.T, label []float32, values []float64) float64 {
	t.Helper()
	m := must.Get(metric.Lookup("auc"))(t)
	return must.Get(m.Eval(metric.Input{Label: label, Pred: values}))(t)
}

// heldOut returns the AUC on valid of a small model that learns from train.
func heldOut(t *testing.T, d *dataset.Dataset) float64 {
	t.Helper()
	train, valid := datasettest.Data(d.Manifest, d.Split("train")), datasettest.Data(d.Manifest, d.Split("valid"))
	p := gbt.Defaults()
	p.NumIterations = 50
	r := must.Get(gbt.Train(t.Context(), train, p, gbt.Options{}))(t)
	scores := must.Get(r.Model.PredictBinned(valid, 2))(t)
	return aucOf(t, valid.Label, scores)
}

// TestEncodingDoesNotLeak: random labels stay unpredictable, by an AUC within leakBound of a half. No statistic
// predicts the label of its own row, in the orders of the four specs below, and no model predicts the labels of rows
// that it has not seen. So that the check means something, it must find statistics that have seen their own row
// (plantedLeak), and a model that has seen the rows it predicts.
func TestEncodingDoesNotLeak(t *testing.T) {
	for name, rest := range map[string]string{
		"classes": "label: {column: y, kind: classes}\ndrop: [ts]\nsplit: {by: column, column: part}\n" +
			"encodings: {keys: " + leakKeys + ", order: {copies: 2}}\n",
		"random orders": "label: y\ndrop: [ts]\nsplit: {by: column, column: part}\n",
		"order of time": "label: y\ndrop: [part]\nsplit: {by: time, column: ts, train: 0.5, valid: 0.5}\n" +
			"encodings: {columns: {user: [rate, count, recency], site: [rate, count], ad: [rate, count]}}\n",
		"asked keys": "label: y\ndrop: [ts]\nsplit: {by: column, column: part}\n" +
			"encodings: {keys: " + leakKeys + ", order: {copies: 2}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			d, files := shuffled(t, rest, false)
			var names []string
			var places []int
			for i := range d.Manifest.Features {
				if f := &d.Manifest.Features[i]; f.From != nil && f.From.Table >= 0 {
					names, places = append(names, f.Name), append(places, i)
				}
			}
			if len(names) < 6 { // each spec makes more; fewer would leave nothing to find
				t.Fatalf("only %d statistics to look at, want 6 or more: %s", len(names), strings.Join(names, ", "))
			}
			t.Logf("%d statistics: %s", len(names), strings.Join(names, ", "))
			for _, split := range []string{"train", "valid"} {
				s := d.Split(split)
				if found := leaks(t, names, s.Label,
					func(c, r int) float64 { return float64(s.Columns[places[c]][r]) }); len(found) > 0 {
					t.Errorf("these predict the random labels of %s, want none: %s", split, strings.Join(found, ", "))
				}
			}
			if auc := heldOut(t, d); math.Abs(auc-0.5) > leakBound {
				t.Errorf("a model has AUC %.4f on random labels, want 0.5 within %v", auc, leakBound)
			}
			plantedLeak(t, d, files, names, places)
		})
	}

	// A model of which valid is train again.
	d, _ := shuffled(t, "label: y\ndrop: [ts]\nsplit: {by: column, column: part}\n", true)
	if auc := heldOut(t, d); auc < 0.5+2*leakBound {
		t.Errorf("a model that has seen the rows it predicts has AUC %.4f, want at least %v: the check finds nothing",
			auc, 0.5+2*leakBound)
	}
}

// plantedLeak encodes rows of train as if they were later rows, so that their statistics have seen their own labels.
// The test fails unless leaks finds every rate.
func plantedLeak(t *testing.T, d *dataset.Dataset, files []table.File, names []string, places []int) {
	t.Helper()
	encoder := datasettest.Encoder(t, d)
	rows := must.Get(table.Open(files, table.Options{}))(t)
	var values []float64
	var label []float32
	must.Do(t, rows.Read(t.Context(), append(encoder.Columns(), "y"), 10_000, func(b *table.Batch) error {
		if len(label) >= leakRows {
			return nil
		}
		out, err := encoder.Encode(b, nil, nil, 1)
		if err != nil {
			return err
		}
		values = append(values, out...)
		for r := range b.Rows {
			y := float32(0)
			if b.Column("y").Text[r] == "1" {
				y = 1
			}
			label = append(label, y)
		}
		return nil
	}))
	width := len(d.Manifest.Features)
	found := leaks(t, names, label, func(c, r int) float64 { return values[r*width+places[c]] })
	rates := 0
	for _, name := range names {
		if strings.Contains(name, ":rate") {
			rates++
		}
	}
	if len(found) < rates {
		t.Errorf("of %d rates that have seen their own row, %d columns are found, want all: %s", rates, len(found),
			strings.Join(found, ", "))
	}
}
