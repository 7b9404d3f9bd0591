package stager

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// judged returns CSV of 600 queries of ten rows, each with one of 600 items and a grade. If worth is set, half of the
// items have a higher grade in every query; otherwise grades are random.
func judged(worth bool) []byte {
	rng := rand.New(rand.NewPCG(4, 8))
	var b bytes.Buffer
	b.WriteString("query,item,hour,grade\n")
	for i := range 6000 {
		item := rng.IntN(600)
		grade := rng.IntN(3)
		if worth && item%2 == 0 {
			grade++
		}
		fmt.Fprintf(&b, "q%d,i%d,%d,%d\n", i/10, item, rng.IntN(24), grade)
	}
	return b.Bytes()
}

// stageOrders stages a table of queries as `launcher fit` does, and returns the folder and the manifest.
func stageOrders(t *testing.T, csv []byte, encodings string, threads int) (string, *dataset.Manifest) {
	t.Helper()
	path, dir := filepath.Join(t.TempDir(), "t.csv"), filepath.Join(t.TempDir(), "d")
	must.Do(t, os.WriteFile(path, csv, 0o644))
	spec := must.Get(dataset.ParseSpec("dataset.yaml", []byte("name: t\nsource: t.csv\nlabel: {column: grade, kind: "+
		"regression}\ngroup: query\nencodings: "+encodings+
		"\nsplit: {by: hash, key: query, train: 0.7, valid: 0.2, test: 0.1}\n")))(t)
	files := must.Get(table.Expand(path))(t)
	report := must.Get(ingest.Stage(t.Context(), spec, files, dir, ingest.Options{Threads: threads,
		Learner: (&Stager{Threads: threads}).learner, Orders: compareOrders}))(t)
	return dir, report.Manifest
}

// sameFile reports whether two files have the same name and contents.
func sameFile(a, b dataset.FileInfo) bool {
	return a.Name == b.Name && slices.Equal(a.Blocks, b.Blocks)
}

// TestOrdersOfQueries: in a table of queries, ids have statistics if these help to order the rows of other queries, the
// same for any number of threads. If they do not help, the dataset is what it is without encodings. Statistics that the
// spec asks for are made in any case.
func TestOrdersOfQueries(t *testing.T) {
	const byGroup = "{order: {by: group}}"
	one, m := stageOrders(t, judged(true), byGroup, 1) // a table of this size has four copies, each in a random order
	if o := m.Order; o == nil || o.By != dataset.OrderGroup || o.Copies != 4 || len(m.FinalTables) != 1 {
		t.Fatalf("items of some worth have statistics by %+v, %d tables for a final training; want by group, four "+
			"copies, and one", o, len(m.FinalTables))
	}
	more, again := stageOrders(t, judged(true), byGroup, 3)
	if !slices.EqualFunc(m.Files, again.Files, sameFile) {
		t.Errorf("%s, by one thread, has other files than %s, by three; want the same", one, more)
	}

	without, none := stageOrders(t, judged(false), "none", 2)
	chance, m := stageOrders(t, judged(false), byGroup, 2)
	if m.Order != nil || !slices.EqualFunc(m.Files, none.Files, sameFile) {
		t.Errorf("items of no worth have statistics by %+v in %s; want the files of %s", m.Order, chance, without)
	}

	// The columns of numbers come first among the features, then statistics.
	asked, m := stageOrders(t, judged(false), "{order: {by: group}, columns: {item: [rate]}}", 2)
	if m.Order == nil || m.Features[0].Name != "hour" || m.Features[1].Name != "item:rate" {
		t.Errorf("%s has statistics by %+v of %+v; want the rate that was asked for", asked, m.Order, m.Features)
	}
}
