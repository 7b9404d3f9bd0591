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

// openPlain stages a generated table without statistics of ids and opens it, until the test ends. Statistics of all of
// train would rule out some of the cross-validations.
func openPlain(t *testing.T, o datasettest.Options) *Table {
	t.Helper()
	o.Encodings = dataset.EncodeNone
	return openTable(t, o)
}

// request returns a request for up to 12 small trees with auc, on all of train.
func request(t *testing.T) Request {
	t.Helper()
	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf, p.EarlyStoppingRound = 12, 7, 5, 4
	auc := must.Get(metric.Lookup("auc"))(t)
	return Request{Params: p, Metric: auc, Metrics: metric.Standard("binary"), Threads: 1}
}

// rowsWhere returns the numbers of the rows of train that satisfy want.
func rowsWhere(t *Table, want func(row int) bool) []uint32 {
	var out []uint32
	for r := range t.ds.Split(dataset.TrainSplit).Rows {
		if want(r) {
			out = append(out, uint32(r))
		}
	}
	return out
}

// TestFolds checks all schemes with all numbers of folds: each row that can be evaluated is evaluated once, by a model
// that has not learnt from it, and no bins are copied. The ten folds of the dataset are joined as evenly as possible.
func TestFolds(t *testing.T) {
	for _, tc := range []struct {
		scheme Scheme
		split  string
	}{{KFold, ""}, {KFold, byTime}, {GroupKFold, byGroup}, {Forward, byTime}} {
		table := openPlain(t, datasettest.Options{Rows: 900, Split: tc.split})
		s := table.ds.Split(dataset.TrainSplit)
		for k := 2; k <= dataset.Folds; k++ {
			folds := must.Get(Folds(table.ds.Manifest, tc.scheme, k))(t)

			// Check each round, and count how often each row is evaluated.
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
					t.Errorf("%s %d of %d: the bins were copied, want the dataset's memory", tc.scheme, i+1, k)
				}
			}

			// Going forward, the rows of the first fold are never evaluated.
			first := 0
			if tc.scheme == Forward {
				first = len(rowsWhere(table, func(r int) bool { return int(s.Fold[r])*k/dataset.Folds == 0 }))
			}
			once := len(rowsWhere(table, func(r int) bool { return rated[r] == 1 }))
			if once != s.Rows-first || slices.Max(rated) != 1 || slices.Max(sizes)-slices.Min(sizes) > 1 {
				t.Errorf("%s with %d folds: %d rows are evaluated once, want %d and none twice; the folds join %v of "+
					"the dataset's, want sizes that differ by 1 at most", tc.scheme, k, once, s.Rows-first, sizes)
			}
		}
	}
}

// checkApart checks the training and the evaluated rows of one round: none is in both, nor is a group, and going
// forward the evaluated rows are later. The tables of these tests are in the order of their days.
func checkApart(t *testing.T, name string, scheme Scheme, s *dataset.Split, train, rated []uint32) {
	t.Helper()
	if scheme != Forward && len(train)+len(rated) != s.Rows {
		t.Errorf("%s: %d rows are trained on and %d evaluated; want %d in all", name, len(train), len(rated), s.Rows)
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
			t.Fatalf("%s: row %d is both trained on and evaluated, want one", name, r)
		case scheme == Forward && r <= train[len(train)-1]:
			t.Fatalf("%s: row %d is evaluated by a model of rows up to %d, want only earlier ones", name, r,
				train[len(train)-1])
		case s.Group != nil && groups[s.Group[r]]:
			t.Fatalf("%s: the group of row %d is both trained on and evaluated, want one", name, r)
		}
	}
}

// TestFoldsRefuse expects ErrScheme for numbers of folds and schemes that a dataset does not support, and ErrNoRows for
// training on folds without rows. A dataset that is split by time and has groups supports folds by group.
func TestFoldsRefuse(t *testing.T) {
	plain := openPlain(t, datasettest.Options{Rows: 300})
	grouped := openPlain(t, datasettest.Options{Rows: 300, Split: byTime + "\ngroup: user_id"})
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
		t.Errorf("five folds by group: got error %v, want none", err)
	}

	// Train has two days, so only two of its ten folds by time have rows.
	few := openPlain(t, datasettest.Options{Rows: 40, Split: "{by: time, column: day, train: 0.2, test: 0.8}"})
	folds := must.Get(Folds(few.ds.Manifest, Forward, 10))(t)
	q := request(t)
	q.Rows, q.Valid = []sweep.Rows{folds[0].Train}, &folds[0].Rated
	if _, err := few.Train(t.Context(), q); !errors.Is(err, ErrNoRows) {
		t.Errorf("training on folds without rows: got error %v; want ErrNoRows", err)
	}
}

// TestTrainOnFolds compares cross-validation with one done by hand: a mask from a loop over the rows, a training, its
// predictions and their metrics.
func TestTrainOnFolds(t *testing.T) {
	for _, tc := range []struct {
		scheme Scheme
		split  string
		k      int
	}{{KFold, "", 10}, {KFold, "", 3}, {GroupKFold, byGroup, 5}, {Forward, byTime, 5}} {
		table := openPlain(t, datasettest.Options{Rows: 1500, Split: tc.split})
		s := table.ds.Split(dataset.TrainSplit)
		folds := must.Get(Folds(table.ds.Manifest, tc.scheme, tc.k))(t)
		want := tc.k
		if tc.scheme == Forward { // nothing is before the first fold
			want--
		}
		if len(folds) != want {
			t.Fatalf("%s of %d: got %d folds, want %d", tc.scheme, tc.k, len(folds), want)
		}
		for i, f := range folds {
			// By hand: going forward, the first round evaluates fold 1, since there is one round fewer; else fold 0.
			evaluated := tc.k - len(folds) + i
			fold := func(r int) int { return int(s.Fold[r]) * tc.k / dataset.Folds }
			data, rated := table.splitData(s), table.splitData(s)
			data.Subset = rowsWhere(table, func(r int) bool {
				return fold(r) < evaluated || fold(r) > evaluated && tc.scheme != Forward
			})
			rated.Subset = rowsWhere(table, func(r int) bool { return fold(r) == evaluated })

			q := request(t)
			q.Rows, q.Valid, q.Threads = []sweep.Rows{f.Train}, &f.Rated, 1+i%3
			o := must.Get(table.Train(t.Context(), q))(t)
			checkFold(t, fmt.Sprintf("%s fold %d with %d threads", tc.scheme, i+1, q.Threads), o, q, data, rated)
		}
	}
}

// splitData returns all rows of a split for the trainer, put together by hand.
func (t *Table) splitData(s *dataset.Split) *gbt.Data {
	return &gbt.Data{Copies: t.ds.Manifest.Copies(), Rows: s.Rows, RowMajor: s.RowMajor, Columns: s.Columns,
		Features: t.features, Label: s.Label, Weight: s.Weight}
}

// checkFold trains by hand on the rows of data that its mask says, evaluates on those of rated, and compares the trees'
// number and the metrics with those of o, which Train returned for q.
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
		t.Errorf("%s: got %d rows, %d trees of %d grown and metrics %v; want %d rows, %d trees of %d and %d metrics",
			name, o.TrainRows, len(o.Model.Trees), o.Grown, o.Metrics, len(data.Subset), len(res.Model.Trees),
			res.Grown, len(q.Metrics))
	}
	for _, m := range q.Metrics {
		want, err := m.Eval(metric.Input{Label: label, Pred: pred})
		if err != nil || o.Metrics[m.Name] != want {
			t.Errorf("%s: %s is %v, want %v as by hand (error %v)", name, m.Name, o.Metrics[m.Name], want, err)
		}
	}
}

// TestSelectAgreesWithMask checks that both functions that choose rows of folds choose the rows of these folds.
func TestSelectAgreesWithMask(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 400})
	part := sweep.Rows{Split: dataset.TrainSplit, Folds: []uint8{1, 7}}
	selected := must.Get(table.Select(part))(t)
	masked := must.Get(table.maskRows(part))(t)
	fold := table.ds.Split(dataset.TrainSplit).Fold
	want := rowsWhere(table, func(r int) bool { return fold[r] == 1 || fold[r] == 7 })
	if !slices.Equal(selected.Data.Subset, want) || !slices.Equal(masked.Subset, want) {
		t.Errorf("rows of folds 1 and 7: Select returns %v and maskRows %v, want %v", selected.Data.Subset,
			masked.Subset, want)
	}
	if _, err := table.maskRows(sweep.Rows{Split: "nowhere", Folds: []uint8{1}}); !errors.Is(err, ErrNoRows) {
		t.Errorf("a split without rows: got error %v; want ErrNoRows", err)
	}
}

// TestFoldsRefuseStatistics expects ErrScheme where statistics of ids have seen labels that folds keep apart: of the
// same group or key. By time they have not, since they are made from earlier rows only. If the spec has no split, the
// table is divided by a hash of a key.
func TestFoldsRefuseStatistics(t *testing.T) {
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
		_, m := datasettest.Dir(t, datasettest.Options{Rows: 900, Split: tc.split})
		if m.Order == nil {
			t.Fatalf("%s: the dataset has no statistics, want some", name)
		}
		if _, err := Folds(m, tc.scheme, 5); (err == nil) != tc.fits || err != nil && !errors.Is(err, ErrScheme) {
			t.Errorf("%s: five folds: got error %v; want none: %t, or else ErrScheme", name, err, tc.fits)
		}
	}
}

// TestGroupsThatCrossFolds moves one row to another fold than its group's, and expects CheckGroups to refuse it.
func TestGroupsThatCrossFolds(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 900, Split: byGroup})
	if err := table.CheckGroups(); err != nil {
		t.Fatalf("a dataset as it was staged: %v; want no error", err)
	}
	s := table.ds.Split(dataset.TrainSplit)
	s.Fold = slices.Clone(s.Fold)
	s.Fold[17] = (s.Fold[17] + 1) % dataset.Folds // any row
	if err := table.CheckGroups(); !errors.Is(err, ErrScheme) {
		t.Errorf("a row that is in another fold than its group: got error %v, want ErrScheme", err)
	}
}

// TestJoinedRows trains on train and some folds of valid together. The model must be the one of a table made by hand
// that has these rows one after the other.
func TestJoinedRows(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 900})
	q := request(t)
	q.Params.EarlyStoppingRound = 0
	q.Rows = []sweep.Rows{{Split: "train"}, {Split: "valid", Folds: []uint8{0, 2, 3, 7}}}
	got := must.Get(table.Train(t.Context(), q))(t)

	// The same table by hand, in both layouts.
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
	a, b := modelText(t, got.Model), modelText(t, res.Model)
	if a != b || got.TrainRows != want.Rows || want.Rows == train.Rows {
		t.Errorf("joined: a model of %d rows and %d bytes of text; want the same as by hand, of %d rows (train has "+
			"%d) and %d bytes", got.TrainRows, len(a), want.Rows, train.Rows, len(b))
	}
}

// modelText returns a model in LightGBM's text format.
func modelText(t *testing.T, m *gbt.Model) string {
	t.Helper()
	var out strings.Builder
	must.Get(m.WriteTo(&out))(t)
	return out.String()
}

// byUser divides rows by user, and makes a user's rows a group.
const byUser = "{by: hash, key: user_id, train: 0.6, valid: 0.2, test: 0.2}\ngroup: user_id"

// ranking returns a request that ranks the rows of each group by NDCG, evaluated on valid.
func ranking(t *testing.T) Request {
	t.Helper()
	q := request(t)
	m := must.Get(metric.Lookup("ndcg@5"))(t)
	q.Params.Objective, q.Metric, q.Metrics = "lambdarank", m, metric.Standard("lambdarank")
	q.Valid = &sweep.Rows{Split: "valid"}
	return q
}

// TestRanking trains a ranking whose queries are the users and whose grades are their clicks. It is evaluated by the
// five standard metrics of rankings, samples whole queries, trains on two splits joined, and is refused if valid is
// both trained on and evaluated.
func TestRanking(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 3000, Split: byUser})
	q := ranking(t)
	got := must.Get(table.Train(t.Context(), q))(t)
	if len(got.Metrics) != 5 || !(got.Score > 0.5) || got.Model.Objective != "lambdarank" {
		t.Errorf("metrics %v, score %v, objective %s; want five metrics, a score above .5 and lambdarank", got.Metrics,
			got.Score, got.Model.Objective)
	}

	// A sample of one query in three: all rows of some queries, and none of the others.
	train := table.ds.Split("train")
	data := table.splitData(train)
	data.Group = train.Group
	rows := sampleRows(data, 3, true)
	drawn := map[uint64]bool{}
	for _, r := range rows {
		drawn[train.Group[r]] = true
	}
	if n := len(rows); n < train.Rows/6 || n > train.Rows/2 {
		t.Errorf("%d of %d rows drawn; want about a third, from a sixth to a half", n, train.Rows)
	}
	for r, g := range train.Group {
		if drawn[g] != slices.Contains(rows, uint32(r)) {
			t.Fatalf("row %d is drawn: %t; want %t, as other rows of its query are", r, !drawn[g], drawn[g])
		}
	}

	// Two splits joined, evaluated on a third one and then on one of the two.
	q.Rows = []sweep.Rows{{Split: "train"}, {Split: "valid"}}
	q.Valid = &sweep.Rows{Split: "test"}
	if joined, err := table.Train(t.Context(), q); err != nil || joined.TrainRows <= train.Rows {
		t.Errorf("train and valid joined: got %v, error %v; want more than the %d rows of train", joined, err,
			train.Rows)
	}
	q.Valid = &sweep.Rows{Split: "valid"}
	if _, err := table.Train(t.Context(), q); !errors.Is(err, ErrQueries) {
		t.Errorf("trained and evaluated on valid: got error %v, want ErrQueries", err)
	}
}

// TestRankingRefuses expects an error that says how to stage the dataset if queries are divided between splits, missing
// or sampled, or if statistics have seen labels of the same query. Objective binary, which ranks nothing, is accepted.
func TestRankingRefuses(t *testing.T) {
	for want, o := range map[string]datasettest.Options{
		"stage it with group: COLUMN": {Rows: 900},
		"is also trained on": {Rows: 900,
			Split: "{by: time, column: day, train: 0.7, valid: 0.3}\ngroup: user_id"},
		"split: {by: hash, key: user_id": {Rows: 900, Split: "{by: random, train: 0.7, valid: 0.3}\ngroup: user_id"},
		"without sample.negatives":       {Rows: 900, Split: byUser + "\nsample: {negatives: 0.5}"},
	} {
		table := openPlain(t, o)
		if _, err := table.Train(t.Context(), ranking(t)); !errors.Is(err, ErrQueries) || !strings.Contains(err.Error(),
			want) {
			t.Errorf("got error %v, want one that says %q", err, want)
		}
	}
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 900, Split: byUser})
	must.Say(t, fmt.Sprintf("dataset %s, whose statistics are in a random order", dir), CheckRanking("lambdarank", m,
		false), "encodings: none")
	if err := CheckRanking("binary", m, true); err != nil {
		t.Errorf("objective binary: %v; want no error", err)
	}
}

// TestDividedQueries expects CheckRanking to refuse a dataset with queries both in train and in valid, if models are
// evaluated on valid. Staging must not warn of that, since it does not know that the groups will be queries.
func TestDividedQueries(t *testing.T) {
	for _, test := range []struct {
		split string
		valid bool // models are evaluated on valid, not on folds
		want  string
	}{
		{"{by: time, column: day, train: 0.7, valid: 0.2, test: 0.1}", true, "queries are in several splits"},
		{"{by: time, column: day, train: 0.7, valid: 0.2, test: 0.1}", false, ""},
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
		must.Say(t, fmt.Sprintf("%s, evaluated on valid %t", test.split, test.valid), err, test.want)
	}
}

// TestBag trains a bag of five models on all splits, 900 rows. Its log loss must be that of the scores by models that
// have not learnt from the rows, computed by hand from single models, and the bag must be the same for any number of
// threads.
func TestBag(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 900})
	q := request(t)
	q.Metric = must.Get(metric.Lookup("log_loss"))(t)
	q.Bag, q.Final = 5, true // Final as in a sweep's bag; it changes nothing here, without statistics of ids
	for _, split := range []string{sweep.Train, sweep.Valid, sweep.Calib, sweep.Test} {
		q.Rows = append(q.Rows, sweep.Rows{Split: split})
	}
	one := must.Get(table.Train(t.Context(), q))(t)
	if one.Calibrator == nil || !(one.Score > 0) || one.TrainRows != 900 || one.Best != one.Model.Iterations() {
		t.Errorf("a bag has calibrator %v, score %v, %d rows, best iteration %d; want a calibrator, a score above 0, "+
			"900 rows and %d, all iterations", one.Calibrator, one.Score, one.TrainRows, one.Best,
			one.Model.Iterations())
	}

	// Train each model by itself, and add up the log loss of the rows that it leaves out.
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
				if all.Label[i] == 0 {
					p = 1 - p // the probability of the label that the row has
				}
				sum -= math.Log(p)
				rows++
			} else if b.raw[i] != 0 {
				t.Fatalf("row %d of fold %d has score %v from the model that leaves fold %d out, want none", i, f,
					b.raw[i], k)
			}
		}
	}
	if got := one.Metrics["log_loss"]; rows != 900 || math.Abs(got-sum/900) > 1e-12 || trees != one.Model.Iterations() {
		t.Errorf("the bag has log loss %v and %d trees; want %v, over %d rows, and %d trees, as by hand", got,
			one.Model.Iterations(), sum/900, rows, trees)
	}

	for _, threads := range []int{2, 7} {
		q.Threads = threads
		again := must.Get(table.Train(t.Context(), q))(t)
		if same := modelText(t, again.Model) == modelText(t, one.Model); !same || again.Score != one.Score {
			t.Errorf("with %d threads: score %v, the same model %t; want score %v and the same model", threads,
				again.Score, same, one.Score)
		}
	}
}

// TestBagOfFewKeys has ten users, whose hashes leave some of ten folds empty; the other folds must make the bag. Its
// metrics are not defined for the rows of a fold (ndcg without groups) or jump (f1): they must not stop a training.
func TestBagOfFewKeys(t *testing.T) {
	table := openPlain(t, datasettest.Options{Rows: 900, Edit: func(csv []byte) []byte {
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
		q.Metric = must.Get(metric.Lookup(name))(t)
		o, err := table.Train(t.Context(), q)
		if err != nil || o.Calibrator == nil || len(folds) > 9 || len(folds) < 2 {
			t.Fatalf("%s: error %v, and %d of 10 folds have rows; want a model with a calibrator, from 2 to 9 folds",
				name, err, len(folds))
		}
	}
}
