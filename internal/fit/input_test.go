package fit

import (
	"bytes"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
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
