package fit

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// night stages a night's table and opens it.
func night(t *testing.T, o datasettest.Options) *Table {
	t.Helper()
	dir, _ := datasettest.Dir(t, o)
	ds := must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() { ds.Close() })
	return NewTable(ds)
}

// sampleOf is a dataset's sample of raw rows.
func sampleOf(t *testing.T, ds *dataset.Dataset) *dataset.Sample {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(ds.Dir(), dataset.SampleFile)))(t)
	s := must.Get(dataset.ReadSample(data))(t)
	return s
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

// predicted are a model's scores of raw rows, by its own encoding.
func predicted(t *testing.T, m *gbt.Model, e *dataset.Encoding, rows *dataset.Sample) []float64 {
	t.Helper()
	return predictedWith(t, m, e, nil, rows)
}

// predictedWith is predicted where the encoding has statistics.
func predictedWith(t *testing.T, m *gbt.Model, e *dataset.Encoding, levels *dataset.Levels,
	rows *dataset.Sample) []float64 {
	t.Helper()
	encoder := must.Get(cell.NewEncoder(e, levels))(t)
	values := must.Get(encoder.EncodeSample(rows))(t)
	out := make([]float64, len(rows.Row))
	must.Do(t, m.PredictAll(values, out, 1))
	return out
}

// TestInput continues and refits last night's model on a table whose bins are others and whose categories come in
// another order.
func TestInput(t *testing.T) {
	options := datasettest.Options{Rows: 6000, Encodings: dataset.EncodeNone}
	yesterday := night(t, options)
	options.Seed = 1
	tonight := night(t, options)
	old, text := trained(t, yesterday, Request{Params: few()})

	in := must.Get(Input(tonight.ds.Manifest, yesterday.ds.Manifest, text))(t)
	if slices.Equal(yesterday.ds.Manifest.Features[0].Categories, tonight.ds.Manifest.Features[0].Categories) ||
		in.Moved == 0 {
		t.Fatalf("the two nights do not differ: categories %q, %d thresholds moved",
			tonight.ds.Manifest.Features[0].Categories, in.Moved)
	}

	// Raw rows get nearly the scores that they had: a threshold moves by less than a bin, of which there are 254.
	rows := sampleOf(t, tonight.ds)
	before := predicted(t, old.Model, yesterday.ds.Manifest.Encoding(), rows)
	after := predicted(t, in.Model, tonight.ds.Manifest.Encoding(), rows)
	apart := 0.0
	for r := range before {
		apart += math.Abs(before[r]-after[r]) / float64(len(before))
	}
	if apart > 0.01 {
		t.Errorf("scores of raw rows are %.4f apart on average", apart)
	}

	o, text := trained(t, tonight, Request{Params: few(), Input: in})
	if len(o.Model.Trees) != 30 || o.Score < 0.6 {
		t.Errorf("%d trees with AUC %.3f, expected 30 and 0.6 at least", len(o.Model.Trees), o.Score)
	}

	// What is rated on bins is what the version predicts of raw rows.
	read := must.Get(gbt.ReadModel(bytes.NewReader(text)))(t)
	split := must.Get(tonight.Select(sweep.Rows{Split: rows.Split}))(t)
	binned := must.Get(o.Model.PredictBinned(&split.Data, 1))(t)
	for i, raw := range predicted(t, read, tonight.ds.Manifest.Encoding(), rows) {
		if raw != binned[rows.Row[i]] {
			t.Fatalf("row %d: %v of bins, %v of raw values", i, binned[rows.Row[i]], raw)
		}
	}
}

// TestInputWithIDs continues a model with statistics of ids on a dataset that was made like its own: every threshold
// stays where it is, and what it splits by is of tonight's rows.
func TestInputWithIDs(t *testing.T) {
	options := datasettest.Options{Rows: 6000,
		Encodings: "{columns: {site: [rate, count], campaign_id: [rate, count]}, keys: [[site, age~]], budget: 0}"}
	yesterday := night(t, options)
	old, text := trained(t, yesterday, Request{Params: few()})
	options.Seed, options.Like = 1, yesterday.ds.Manifest
	tonight := night(t, options)

	in, err := Input(tonight.ds.Manifest, yesterday.ds.Manifest, text)
	if err != nil || in.Moved != 0 {
		t.Fatalf("Input: %v, %d thresholds moved, want none", err, in.Moved)
	}
	if reflect.DeepEqual(datasettest.Levels(t, tonight.ds).Rows, datasettest.Levels(t, yesterday.ds).Rows) {
		t.Fatal("the tables of both nights are the same")
	}

	// Its trees say of a row of tonight what the old ones say of the same numbers, and trees that learn nothing leave
	// it there.
	rows := sampleOf(t, tonight.ds)
	levels := datasettest.Levels(t, tonight.ds)
	scores := func(m *gbt.Model) []float64 { return predictedWith(t, m, tonight.ds.Manifest.Encoding(), levels, rows) }
	before, after := scores(old.Model), scores(in.Model)
	p := few()
	p.LearningRate = 1e-12
	still, _ := trained(t, tonight, Request{Params: p, Input: in})
	for r, s := range scores(still.Model) {
		if before[r] != after[r] || math.Abs(s-after[r]) > 1e-9 {
			t.Fatalf("row %d: %v by the old trees, %v by those on tonight's bins, %v with trees behind them that "+
				"learn nothing", r, before[r], after[r], s)
		}
	}

	// What is rated on bins is what the version predicts of raw rows.
	split := must.Get(tonight.Select(sweep.Rows{Split: rows.Split}))(t)
	o, _ := trained(t, tonight, Request{Params: few(), Input: in})
	if len(o.Model.Trees) != 30 {
		t.Errorf("%d trees, want 30", len(o.Model.Trees))
	}
	binned := must.Get(o.Model.PredictBinned(&split.Data, 1))(t)
	for i, raw := range scores(o.Model) {
		if raw != binned[rows.Row[i]] {
			t.Fatalf("row %d: %v of bins, %v of raw values", i, binned[rows.Row[i]], raw)
		}
	}

	// A dataset that was made like a third one is none of them.
	options.Seed, options.Like = 2, tonight.ds.Manifest
	if _, err := Input(night(t, options).ds.Manifest, yesterday.ds.Manifest, text); err == nil ||
		!strings.Contains(err.Error(), "is not made like the input model's") {
		t.Errorf("a dataset made like a third: %v, want a refusal", err)
	}
}

func TestInputRefused(t *testing.T) {
	plain := datasettest.Options{Rows: 2000, Encodings: dataset.EncodeNone}
	base := night(t, plain)
	_, text := trained(t, base, Request{Params: few()})

	edit := func(old, fresh string) func([]byte) []byte {
		return func(table []byte) []byte { return bytes.ReplaceAll(table, []byte(old), []byte(fresh)) }
	}
	change := func(do func(*datasettest.Options)) *Table {
		o := plain
		do(&o)
		return night(t, o)
	}
	ids := func(seed uint64) *Table {
		return night(t, datasettest.Options{Rows: 6000, Seed: seed, Encodings: "{columns: {site: [rate]}, budget: 0}"})
	}
	first := ids(0)
	_, idText := trained(t, first, Request{Params: few()})

	for name, tc := range map[string]struct {
		here, old *Table
		text      []byte
		want      string
	}{
		"a column that is gone": {change(func(o *datasettest.Options) { o.Edit = edit(",price,", ",cost,") }), base,
			text, `splits by "price", which dataset clicks@`},
		"another kind": {change(func(o *datasettest.Options) { o.Edit = edit(",40,", ",forty,") }), base,
			text, `"age" is categorical in dataset clicks@`},
		"categories of last night": {change(func(o *datasettest.Options) { o.Edit = edit(",site3", ",place3") }), base,
			text, `have categories that now count as other, mainly "site3`},
		"statistics of other rows": {ids(1), first, idText,
			`"site:rate" is a statistic of ids, and its table is of dataset`},
		"a statistic that is one":  {base, first, idText, `which dataset clicks@`},
		"not the model's manifest": {base, first, text, `and has other features`},
	} {
		_, err := Input(tc.here.ds.Manifest, tc.old.ds.Manifest, tc.text)
		if !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, expected %q", name, err, tc.want)
		}
	}

	// The same tables may be gone on from.
	if _, err := Input(first.ds.Manifest, first.ds.Manifest, idText); err != nil {
		t.Error(err)
	}
}

// TestInputKeepsToItsColumns: names that the model file cannot tell apart are those of the datasets, whatever order
// their columns come in.
func TestInputKeepsToItsColumns(t *testing.T) {
	named := func(price, age string) *Table {
		return night(t, datasettest.Options{Rows: 2000, Encodings: dataset.EncodeNone, Edit: func(table []byte) []byte {
			header, rows, _ := strings.Cut(string(table), "\n")
			columns := strings.Split(header, ",")
			columns[slices.Index(columns, "price")], columns[slices.Index(columns, "age")] = price, age
			return []byte(strings.Join(columns, ",") + "\n" + rows)
		}})
	}
	old, here := named("цена", "сайт"), named("сайт", "цена")
	o, text := trained(t, old, Request{Params: few()})
	in := must.Get(Input(here.ds.Manifest, old.ds.Manifest, text))(t)

	seen := map[string]int{}
	for i, tree := range o.Model.Trees {
		for node, f := range tree.Feature {
			was, is := old.ds.Manifest.Features[f].Name, here.ds.Manifest.Features[in.Trees[i].Feature[node]].Name
			if was != is {
				t.Fatalf("tree %d, node %d splits by %q, and on the other table by %q", i, node, was, is)
			}
			seen[was]++
		}
	}
	if seen["цена"] == 0 || seen["сайт"] == 0 {
		t.Errorf("the model splits by %v, expected цена and сайт among them", seen)
	}
}
