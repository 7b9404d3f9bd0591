package fit

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

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
		t.Errorf("metrics %v, score %v, objective %s; want the five of a ranking, of which one is the score", got.Metrics, got.Score,
			got.Model.Objective)
	}

	// All rows of some queries, and none of the others.
	train := table.ds.Split("train")
	data := table.data(train)
	data.Group = train.Group
	rows := oneIn(data, 3, true)
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
		t.Errorf("train and valid joined: %v, %v", joined, err)
	}
	q.Valid = &sweep.Rows{Split: "valid"}
	if _, err := table.Train(t.Context(), q); !errors.Is(err, ErrQueries) {
		t.Errorf("trained and evaluated on valid: got error %v, want ErrQueries", err)
	}
}

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
		t.Errorf("objective binary: %v", err)
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
