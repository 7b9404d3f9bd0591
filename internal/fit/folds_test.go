package fit

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

const (
	byTime  = "{by: time, column: day, train: 0.8, test: 0.2}"
	byGroup = "{by: hash, key: user_id, train: 0.8, test: 0.2}\ngroup: user_id"
)

func open(t *testing.T, o datasettest.Options) *Table {
	t.Helper()
	o.Encodings = dataset.EncodeNone // statistics of all rows of train do not go with folds
	dir, _ := datasettest.Dir(t, o)
	ds := must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() {
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewTable(ds)
}

func request(t *testing.T) Request {
	t.Helper()
	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf, p.EarlyStoppingRound = 12, 7, 5, 4
	auc := must.Get(metric.Lookup("auc"))(t)
	return Request{Params: p, Metric: auc, Metrics: metric.Standard("binary"), Threads: 1}
}

// rows are the numbers of the train split's rows that satisfy want, found the slow way.
func rows(t *Table, want func(row int) bool) []uint32 {
	var out []uint32
	for r := range t.ds.Split(dataset.TrainSplit).Rows {
		if want(r) {
			out = append(out, uint32(r))
		}
	}
	return out
}

// TestFolds: for every scheme and number of folds each row that can be is rated once, apart from the rows that its
// model was trained on.
func TestFolds(t *testing.T) {
	for _, tc := range []struct {
		scheme Scheme
		split  string
	}{{KFold, ""}, {KFold, byTime}, {GroupKFold, byGroup}, {Forward, byTime}} {
		table := open(t, datasettest.Options{Rows: 900, Split: tc.split})
		s := table.ds.Split(dataset.TrainSplit)
		for k := 2; k <= dataset.Folds; k++ {
			folds := must.Get(Folds(table.ds.Manifest, tc.scheme, k))(t)
			rated, sizes := make([]int, s.Rows), []int{}
			for i, f := range folds {
				train := must.Get(table.maskRows(f.Train))(t)
				test := must.Get(table.Select(f.Rated))(t)
				checkApart(t, fmt.Sprintf("%s %d of %d", tc.scheme, i+1, k), tc.scheme, s, train.Subset,
					test.Data.Subset)
				for _, r := range test.Data.Subset {
					rated[r]++
				}
				sizes = append(sizes, len(f.Rated.Folds))
				if &train.RowMajor[0] != &s.RowMajor[0] || &test.Data.Columns[0][0] != &s.Columns[0][0] {
					t.Error("the table was copied, want its own memory")
				}
			}
			first := 0
			if tc.scheme == Forward {
				first = len(rows(table, func(r int) bool { return int(s.Fold[r])*k/dataset.Folds == 0 }))
			}
			once := len(rows(table, func(r int) bool { return rated[r] == 1 }))
			if once != s.Rows-first || slices.Max(rated) != 1 || slices.Max(sizes)-slices.Min(sizes) > 1 {
				t.Errorf("%s with %d folds: %d of %d rows are rated once; %v of the dataset's folds each", tc.scheme, k,
					once, s.Rows, sizes)
			}
		}
	}
}

// checkApart makes sure that what is rated was not trained on, nor its group, and is later where time matters: the
// tables of these tests are written in the order of their days.
func checkApart(t *testing.T, name string, scheme Scheme, s *dataset.Split, train, rated []uint32) {
	t.Helper()
	if scheme != Forward && len(train)+len(rated) != s.Rows {
		t.Errorf("%s: %d rows train and %d are rated, of %d; want each to be one or the "+
			"other", name, len(train), len(rated), s.Rows)
	}
	trained, groups := make([]bool, s.Rows), map[uint64]bool{}
	for _, r := range train {
		trained[r] = true
		if s.Group != nil {
			groups[s.Group[r]] = true
		}
	}
	for _, r := range rated {
		switch {
		case trained[r]:
			t.Fatalf("%s: row %d trains and is rated", name, r)
		case scheme == Forward && r <= train[len(train)-1]:
			t.Fatalf("%s: row %d is rated by a model that has seen row %d", name, r, train[len(train)-1])
		case s.Group != nil && groups[s.Group[r]]:
			t.Fatalf("%s: row %d's group trains and is rated", name, r)
		}
	}
}

// TestFoldsRefuse: a number of folds, or a scheme, that the dataset cannot serve is ErrScheme.
func TestFoldsRefuse(t *testing.T) {
	plain := open(t, datasettest.Options{Rows: 300})
	grouped := open(t, datasettest.Options{Rows: 300, Split: byTime + "\ngroup: user_id"})
	for name, try := range map[string]func() ([]sweep.Round, error){
		"one fold":        func() ([]sweep.Round, error) { return Folds(plain.ds.Manifest, KFold, 1) },
		"too many":        func() ([]sweep.Round, error) { return Folds(plain.ds.Manifest, KFold, dataset.Folds+1) },
		"no groups":       func() ([]sweep.Round, error) { return Folds(plain.ds.Manifest, GroupKFold, 5) },
		"no time":         func() ([]sweep.Round, error) { return Folds(plain.ds.Manifest, Forward, 5) },
		"time and groups": func() ([]sweep.Round, error) { return Folds(grouped.ds.Manifest, Forward, 5) },
		"scheme":          func() ([]sweep.Round, error) { return Folds(plain.ds.Manifest, "loo", 5) },
	} {
		if folds, err := try(); !errors.Is(err, ErrScheme) || folds != nil {
			t.Errorf("%s: got folds %v (error %v); want ErrScheme and no folds", name, folds, err)
		}
	}
	if _, err := Folds(grouped.ds.Manifest, GroupKFold, 5); err != nil {
		t.Error(err)
	}
	// Two days make two folds that have rows.
	few := open(t, datasettest.Options{Rows: 40, Split: "{by: time, column: day, train: 0.2, test: 0.8}"})
	folds := must.Get(Folds(few.ds.Manifest, Forward, 10))(t)
	q := request(t)
	q.Rows, q.Valid = []sweep.Rows{folds[0].Train}, &folds[0].Rated
	if _, err := few.Train(t.Context(), q); !errors.Is(err, ErrNoRows) {
		t.Errorf("training on folds without rows: got error %v; want ErrNoRows", err)
	}
}

// TestTrainOnFolds does each fold by hand: a mask by a loop over the rows, a model, its predictions, the metric.
func TestTrainOnFolds(t *testing.T) {
	for _, tc := range []struct {
		scheme Scheme
		split  string
		k      int
	}{{KFold, "", 10}, {KFold, "", 3}, {GroupKFold, byGroup, 5}, {Forward, byTime, 5}} {
		table := open(t, datasettest.Options{Rows: 1500, Split: tc.split})
		s := table.ds.Split(dataset.TrainSplit)
		folds := must.Get(Folds(table.ds.Manifest, tc.scheme, tc.k))(t)
		if want := map[bool]int{false: tc.k, true: tc.k - 1}[tc.scheme == Forward]; len(folds) != want {
			t.Fatalf("%s of %d: got %d folds, want %d", tc.scheme, tc.k, len(folds), want)
		}
		for i, f := range folds {
			part := tc.k - len(folds) + i
			place := func(r int) int { return int(s.Fold[r]) * tc.k / dataset.Folds }
			data, rated := table.data(s), table.data(s)
			data.Subset = rows(table, func(r int) bool {
				return place(r) < part || place(r) > part && tc.scheme != Forward
			})
			rated.Subset = rows(table, func(r int) bool { return place(r) == part })

			q := request(t)
			q.Rows, q.Valid, q.Threads = []sweep.Rows{f.Train}, &f.Rated, 1+i%3
			o := must.Get(table.Train(t.Context(), q))(t)
			checkFold(t, fmt.Sprintf("%s fold %d with %d threads", tc.scheme, i+1, q.Threads), o, q, data, rated)
		}
	}
}

func (t *Table) data(s *dataset.Split) *gbt.Data {
	return &gbt.Data{Copies: t.ds.Manifest.Copies(), Rows: s.Rows, RowMajor: s.RowMajor, Columns: s.Columns,
		Features: t.features, Label: s.Label, Weight: s.Weight}
}

func checkFold(t *testing.T, name string, o *Evaluated, q Request, data, rated *gbt.Data) {
	t.Helper()
	label := dataset.Pick(data.Label, rated.Subset)
	res := must.Get(gbt.Train(t.Context(), data, q.Params, gbt.Options{Threads: 1, Valid: rated, Maximize: true,
		Eval: func(raw []float64) (float64, error) {
			return q.Metric.Eval(metric.Input{Label: label, Pred: slices.Clone(raw)})
		}}))(t)
	pred := must.Get(res.Model.PredictBinned(rated, 1))(t)
	res.Model.Transform(pred)
	if o.TrainRows != len(data.Subset) || len(o.Model.Trees) != len(res.Model.Trees) || o.Grown != res.Grown ||
		len(o.Metrics) != len(q.Metrics) {
		t.Errorf("%s: got %d rows, %d trees of %d and metrics %v; by hand %d rows, %d trees of %d", name, o.TrainRows,
			len(o.Model.Trees), o.Grown, o.Metrics, len(data.Subset), len(res.Model.Trees), res.Grown)
	}
	for _, m := range q.Metrics {
		want, err := m.Eval(metric.Input{Label: label, Pred: pred})
		if err != nil || o.Metrics[m.Name] != want {
			t.Errorf("%s: %s is %v, by hand %v (%v)", name, m.Name, o.Metrics[m.Name], want, err)
		}
	}
}

// TestSelectAgreesWithMask holds the two ways to a part's rows against each other.
func TestSelectAgreesWithMask(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 400})
	part := sweep.Rows{Split: dataset.TrainSplit, Folds: []uint8{1, 7}}
	a, err1 := table.Select(part)
	b, err2 := table.maskRows(part)
	if err := errors.Join(err1, err2); err != nil || !slices.Equal(a.Data.Subset, b.Subset) {
		t.Errorf("the same fold twice: error %v, or other rows than the first time", err)
	}
	if _, err := table.maskRows(sweep.Rows{Split: "nowhere", Folds: []uint8{1}}); !errors.Is(err, ErrNoRows) {
		t.Errorf("a split without rows: got error %v; want ErrNoRows", err)
	}
}

// Statistics have seen all rows of train; folds that a group, a key or time keeps apart are not apart in them.
func TestFoldsRefuseStatistics(t *testing.T) {
	const byTime = "{by: time, column: day, train: 0.8, test: 0.2}"
	for name, tc := range map[string]struct {
		scheme Scheme
		split  string
		fits   bool
	}{
		"groups":          {GroupKFold, byTime + "\ngroup: user_id", false},
		"keys":            {KFold, "", false},
		"forward in time": {Forward, byTime, true},
		"rows":            {KFold, byTime, true},
	} {
		dir, m := datasettest.Dir(t, datasettest.Options{Rows: 900, Split: tc.split})
		if m.Order == nil {
			t.Fatal("the dataset has no statistics")
		}
		ds, err := dataset.Open(dir)
		must.Do(t, err)
		if _, err = Folds(m, tc.scheme, 5); (err == nil) != tc.fits || err != nil && !errors.Is(err, ErrScheme) {
			t.Errorf("%s: five folds: got error %v; the scheme fits: %t, and if not it is ErrScheme", name, err,
				tc.fits)
		}
		if err := ds.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGroupsThatCrossFolds plants a row into another fold than its group's.
func TestGroupsThatCrossFolds(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 900, Split: byGroup})
	if err := table.CheckGroups(); err != nil {
		t.Fatalf("a dataset as it was staged: %v; want no error", err)
	}
	s := table.ds.Split(dataset.TrainSplit)
	s.Fold = slices.Clone(s.Fold)
	s.Fold[17] = (s.Fold[17] + 1) % dataset.Folds
	if err := table.CheckGroups(); !errors.Is(err, ErrScheme) {
		t.Errorf("a row that is in another fold than its group: %v; want it refused", err)
	}
}

// TestJoinedRows: a model of train and valid together is that of one table that holds the rows of both, one behind the
// other.
func TestJoinedRows(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 900})
	q := request(t)
	q.Params.EarlyStoppingRound = 0
	q.Rows = []sweep.Rows{{Split: "train"}, {Split: "valid", Folds: []uint8{0, 2, 3, 7}}}
	got := must.Get(table.Train(t.Context(), q))(t)

	train, valid := table.ds.Split("train"), table.ds.Split("valid")
	want := gbt.Data{Features: table.features, RowMajor: slices.Clone(train.RowMajor), Label: slices.Clone(train.Label),
		Rows: train.Rows}
	for r, f := range valid.Fold {
		if slices.Contains(q.Rows[1].Folds, f) {
			want.RowMajor = append(want.RowMajor, valid.RowMajor[r*len(table.features):(r+1)*len(table.features)]...)
			want.Label = append(want.Label, valid.Label[r])
			want.Rows++
		}
	}
	for f := range table.features {
		var column []byte
		for r := range want.Rows {
			column = append(column, want.RowMajor[r*len(table.features)+f])
		}
		want.Columns = append(want.Columns, column)
	}
	res := must.Get(gbt.Train(t.Context(), &want, q.Params, gbt.Options{Threads: 1}))(t)
	if a, b := text(t, got.Model), text(t, res.Model); a != b || got.TrainRows != want.Rows || want.Rows == train.Rows {
		t.Errorf("joined %d rows: models of %d and %d bytes; want the same of %d rows, more than the %d of train",
			got.TrainRows, len(a), len(b), want.Rows, train.Rows)
	}
}

// text is a model as LightGBM's text.
func text(t *testing.T, m *gbt.Model) string {
	t.Helper()
	var out strings.Builder
	must.Get(m.WriteTo(&out))(t)
	return out.String()
}

const byUser = "{by: hash, key: user_id, train: 0.6, valid: 0.2, test: 0.2}\ngroup: user_id"

func ranking(t *testing.T) Request {
	t.Helper()
	q := request(t)
	m := must.Get(metric.Lookup("ndcg@5"))(t)
	q.Params.Objective, q.Metric, q.Metrics = "lambdarank", m, metric.Standard("lambdarank")
	q.Valid = &sweep.Rows{Split: "valid"}
	return q
}

// TestRanking: users are the queries, and their clicks the grades.
func TestRanking(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 3000, Split: byUser})
	q := ranking(t)
	got := must.Get(table.Train(t.Context(), q))(t)
	if len(got.Metrics) != 5 || !(got.Score > 0.5) || got.Model.Objective != "lambdarank" {
		t.Errorf("metrics %v, score %v, objective %s; want the five of a ranking, of which one is the score",
			got.Metrics, got.Score,
			got.Model.Objective)
	}

	// All rows of some queries, and none of the others.
	train := table.ds.Split("train")
	data := table.data(train)
	data.Group = train.Group
	rows := sampleRows(data, 3, true)
	drawn := map[uint64]bool{}
	for _, r := range rows {
		drawn[train.Group[r]] = true
	}
	if n := len(rows); n < train.Rows/6 || n > train.Rows/2 {
		t.Errorf("%d of %d rows drawn; want about a third", n, train.Rows)
	}
	for r, g := range train.Group {
		if drawn[g] != slices.Contains(rows, uint32(r)) {
			t.Fatalf("row %d of a query that is drawn %t: drawn %t", r, drawn[g], !drawn[g])
		}
	}

	// Rows of several splits, joined.
	q.Rows = []sweep.Rows{{Split: "train"}, {Split: "valid"}}
	q.Valid = &sweep.Rows{Split: "test"}
	if joined, err := table.Train(t.Context(), q); err != nil || joined.TrainRows <= train.Rows {
		t.Errorf("train and valid joined: %v, %v; want more rows than train has", joined, err)
	}
	q.Valid = &sweep.Rows{Split: "valid"}
	if _, err := table.Train(t.Context(), q); !errors.Is(err, ErrQueries) {
		t.Errorf("trained and evaluated on valid: got error %v, want ErrQueries", err)
	}
}

// TestRankingRefuses: a ranking is refused on rows whose queries are divided, missing or sampled, with how to stage
// them.
func TestRankingRefuses(t *testing.T) {
	for want, o := range map[string]datasettest.Options{
		"stage it with group: COLUMN": {Rows: 900},
		"is also trained on": {Rows: 900,
			Split: "{by: time, column: day, train: 0.7, valid: 0.3}\ngroup: user_id"},
		"split: {by: hash, key: user_id": {Rows: 900, Split: "{by: random, train: 0.7, valid: 0.3}\ngroup: user_id"},
		"without sample.negatives":       {Rows: 900, Split: byUser + "\nsample: {negatives: 0.5}"},
	} {
		table := open(t, o)
		if _, err := table.Train(t.Context(), ranking(t)); !errors.Is(err, ErrQueries) || !strings.Contains(err.Error(),
			want) {
			t.Errorf("got error %v, want one that says %q", err, want)
		}
	}
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 900, Split: byUser})
	if err := CheckRanking("lambdarank", m, false); err == nil || !strings.Contains(err.Error(), "encodings: none") {
		t.Errorf("statistics in %s: got error %v, want one that says encodings: none", dir, err)
	}
	if err := CheckRanking("binary", m, true); err != nil {
		t.Errorf("objective binary: %v; want no error", err)
	}
}

// TestDividedQueries: planning refuses what training does, queries in train and valid, and staging warns of nothing,
// since it doesn't know what the groups are for.
func TestDividedQueries(t *testing.T) {
	for _, test := range []struct {
		split string
		valid bool // models are rated on it
		want  string
	}{
		{"{by: time, column: day, train: 0.7, valid: 0.2, test: 0.1}", true, "queries are in several splits"},
		{"{by: time, column: day, train: 0.7, valid: 0.2, test: 0.1}", false, ""}, // but on folds
		{"{by: time, column: day, train: 0.7, test: 0.3}", true, ""},
	} {
		_, m := datasettest.Dir(t, datasettest.Options{Rows: 900, Encodings: dataset.EncodeNone,
			Split: test.split + "\ngroup: user_id"})
		for _, w := range m.About.Warnings {
			if w.Column == "user_id" {
				t.Errorf("%s: staging warns of %+v, want nothing about the group", test.split, w)
			}
		}
		err := CheckRanking("lambdarank", m, test.valid)
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s, rated on valid %t: got error %v, want %q", test.split, test.valid, err, test.want)
		}
	}
}

// TestBag: the model is the mean of models that each leave one fold out, the same for any number of threads, and what
// measures and calibrates them are scores of rows that the scoring model has not learnt from.
func TestBag(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 900})
	var err error
	q := request(t)
	if q.Metric, err = metric.Lookup("log_loss"); err != nil {
		t.Fatal(err)
	}
	q.Bag, q.Final = 5, true
	for _, split := range []string{sweep.Train, sweep.Valid, sweep.Calib, sweep.Test} {
		q.Rows = append(q.Rows, sweep.Rows{Split: split})
	}
	one := must.Get(table.Train(t.Context(), q))(t)
	if one.Calibrator == nil || !(one.Score > 0) || one.TrainRows != 900 || one.Best != one.Model.Iterations() {
		t.Errorf("a bag has calibrator %v, score %v, %d rows and %d trees of %d", one.Calibrator, one.Score,
			one.TrainRows, one.Model.Iterations(), one.Best)
	}

	// Each model by itself, and the loss of what it has not seen, the slow way.
	all := must.Get(table.trainingRows(q.Rows, true, false))(t)
	var fold []uint8
	for _, part := range q.Rows {
		fold = append(fold, table.ds.Split(part.Split).Fold...)
	}
	sum, rows, trees := 0.0, 0, 0
	for k := range 5 {
		b := &bag{q: q, stop: q.Metric, all: all, threads: 1, fold: make([]uint8, len(fold)),
			raw: make([]float64, len(fold))}
		for i, f := range fold {
			b.fold[i] = uint8(int(f) * 5 / dataset.Folds)
		}
		part := must.Get(b.trainWithout(t.Context(), uint8(k), ""))(t)
		trees += part.Model.Iterations()
		for i, f := range b.fold {
			if int(f) == k {
				p := 1 / (1 + math.Exp(-b.raw[i]))
				sum -= math.Log(map[bool]float64{true: p, false: 1 - p}[all.Label[i] == 1])
				rows++
			} else if b.raw[i] != 0 {
				t.Fatalf("row %d of fold %d is scored by the model that leaves fold %d out", i, f, k)
			}
		}
	}
	if got := one.Metrics["log_loss"]; rows != 900 || math.Abs(got-sum/900) > 1e-12 || trees != one.Model.Iterations() {
		t.Errorf("the loss out of fold is %v of %d trees, the slow way %v of %d rows and %d trees", got,
			one.Model.Iterations(), sum/900, rows, trees)
	}

	for _, threads := range []int{2, 7} {
		q.Threads = threads
		again, err := table.Train(t.Context(), q)
		if err != nil || text(t, again.Model) != text(t, one.Model) || again.Score != one.Score {
			t.Errorf("with %d threads: %v, or another model", threads, err)
		}
	}
}

// TestBagOfFewKeys: where folds are empty, the others make the bag, and a metric that is not defined for the rows of a
// fold stops nothing.
func TestBagOfFewKeys(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 900, Edit: func(csv []byte) []byte {
		return regexp.MustCompile(`(?m)^u\d*(\d),`).ReplaceAll(csv, []byte("u$1,")) // ten users
	}})
	q := request(t)
	q.Bag, q.Final, q.Threads = 10, true, 2
	folds := map[uint8]bool{}
	for _, rows := range table.ds.Manifest.Splits {
		q.Rows = append(q.Rows, sweep.Rows{Split: rows.Name})
		for _, f := range table.ds.Split(rows.Name).Fold {
			folds[f] = true
		}
	}
	for _, name := range []string{"ndcg@5", "f1"} {
		m := must.Get(metric.Lookup(name))(t)
		q.Metric = m
		o, err := table.Train(t.Context(), q)
		if err != nil || o.Calibrator == nil || len(folds) > 9 || len(folds) < 2 {
			t.Fatalf("%s, %d of 10 folds have rows: %v; want a calibrator, of 2 to 9", name, len(folds), err)
		}
	}
}
