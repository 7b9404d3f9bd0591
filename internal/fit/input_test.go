package fit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
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
