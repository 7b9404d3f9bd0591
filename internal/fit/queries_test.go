package fit

import (
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestQueriesOfCopies stages a dataset with three copies of train, each in another random order of its queries. A
// query's rows in each copy must be a query of their own, which keeps the hash of the query in the first copy, and so
// must rows of another split that are joined. A ranking must train on such a dataset. There must be folds at random and
// by group, but none forward in time.
func TestQueriesOfCopies(t *testing.T) {
	const copies = 3
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 3000, Split: byUser,
		Encodings: "{order: {by: group, copies: 3}, columns: {site: [rate, count]}}"})
	ds := must.Get(dataset.Open(dir))(t)
	defer ds.Close()
	table := NewTable(ds)
	for name, parts := range map[string][]sweep.Rows{
		"train":           {{Split: "train"}},
		"train and valid": {{Split: "train"}, {Split: "valid"}},
	} {
		rows := must.Get(table.trainingRows(parts, true, true))(t)

		// Each group that the trainer gets must stand for one query in one copy.
		type queryCopy struct {
			query uint64
			copy  int
		}
		meaning, at := map[uint64]queryCopy{}, 0 // by group; at is the row
		for _, part := range parts {
			group, n := ds.Split(part.Split).Group, m.TableRows(part.Split)
			for i := range n * copies {
				got, want := rows.Group[at], queryCopy{group[i%n], i / n}
				if _, known := meaning[got]; !known {
					meaning[got] = want
				}
				if meaning[got] != want || want.copy == 0 && got != want.query {
					t.Fatalf("%s: row %d, in copy %d of query %x, has group %x, which stands for copy %d of query %x",
						name, at, want.copy, want.query, got, meaning[got].copy, meaning[got].query)
				}
				at++
			}
		}
		if at != rows.Rows || len(meaning)%copies != 0 {
			t.Errorf("%s: %d rows and %d groups; want %d rows, and a multiple of %d groups", name, rows.Rows,
				len(meaning), at, copies)
		}
	}

	// Train, and divide train into folds.
	q := ranking(t)
	if got := must.Get(table.Train(t.Context(), q))(t); !(got.Score > 0.5) {
		t.Errorf("NDCG is %v, want it above .5", got.Score)
	}
	for _, scheme := range []Scheme{KFold, GroupKFold} {
		if rounds, err := Folds(m, scheme, 5); err != nil || len(rounds) != 5 {
			t.Errorf("%s of queries whose statistics have not seen their labels: %d rounds, error %v; want five",
				scheme, len(rounds), err)
		}
	}
	if _, err := Folds(m, Forward, 5); err == nil {
		t.Error("folds forward in time, with statistics of all rows, got no error; want one")
	}
}

// TestOneOrderOfQueries checks that with a single copy of train, Select returns the dataset's own groups, not a copy.
func TestOneOrderOfQueries(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 3000, Split: byUser,
		Encodings: "{order: {by: group, copies: 1}, columns: {site: [rate, count]}}"})
	ds := must.Get(dataset.Open(dir))(t)
	defer ds.Close()
	rows := must.Get(NewTable(ds).Select(sweep.Rows{Split: "train"}))(t)
	if group := ds.Split("train").Group; len(rows.Group) != len(group) || &rows.Group[0] != &group[0] {
		t.Errorf("%d groups, of which the dataset has %d, are a copy; want the dataset's memory", len(rows.Group),
			len(group))
	}
}
