package fit

import (
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestQueriesOfCopies: where train has each row in several orders of its queries, a query is its rows in one of them,
// also beside another split's, and a ranking is trained and cross-validated on them.
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
		first, at := map[uint64]int{}, 0
		for _, part := range parts {
			of := ds.Split(part.Split)
			for i := range m.TableRows(part.Split) * copies {
				number, own := i/m.TableRows(part.Split), of.Group[i%m.TableRows(part.Split)]
				want, known := first[rows.Group[at]]
				if !known {
					want = int(own%1_000_003)*copies + number
					first[rows.Group[at]] = want
				}
				if want != int(own%1_000_003)*copies+number || number == 0 && rows.Group[at] != own {
					t.Fatalf("%s: row %d, copy %d of a row of query %x, is in %x, which is another's", name, at, number,
						own, rows.Group[at])
				}
				at++
			}
		}
		if at != rows.Rows || len(first)%copies != 0 {
			t.Errorf("%s: %d of %d rows seen, %d queries in %d copies", name, at, rows.Rows, len(first), copies)
		}
	}

	q := ranking(t)
	if got := must.Get(table.Train(t.Context(), q))(t); !(got.Score > 0.5) {
		t.Errorf("NDCG is %v, want it above .5", got.Score)
	}
	for _, scheme := range []Scheme{KFold, GroupKFold} {
		if rounds, err := Folds(m, scheme, 5); err != nil || len(rounds) != 5 {
			t.Errorf("%s of queries that have seen none of their own labels: %v, %v", scheme, rounds, err)
		}
	}
	if _, err := Folds(m, Forward, 5); err == nil {
		t.Error("folds forward in time of statistics that have seen all: want an error")
	}
}

// TestOneOrderOfQueries: where train has its rows once, their queries are those of the file, without a copy.
func TestOneOrderOfQueries(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 3000, Split: byUser,
		Encodings: "{order: {by: group, copies: 1}, columns: {site: [rate, count]}}"})
	ds := must.Get(dataset.Open(dir))(t)
	defer ds.Close()
	rows := must.Get(NewTable(ds).Select(sweep.Rows{Split: "train"}))(t)
	if of := ds.Split("train").Group; len(rows.Group) != len(of) || &rows.Group[0] != &of[0] {
		t.Errorf("%d queries of rows are a copy of %d, want the same memory", len(rows.Group), len(of))
	}
}
