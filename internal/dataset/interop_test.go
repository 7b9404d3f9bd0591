package dataset_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// golden is the folder of the golden dataset; golden_test.go keeps it as it is.
const golden = "testdata/golden/want"

// arrowBatch reads the only batch of an Arrow file with Apache's own reader.
func arrowBatch(t *testing.T, name string) arrow.Record {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(golden, filepath.FromSlash(name))))(t)
	r, err := ipc.NewFileReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: Arrow's own reader: got error %v opening it, expected none", name, err)
	}
	if r.NumRecords() != 1 {
		t.Fatalf("%s: %d batches, want one", name, r.NumRecords())
	}
	batch, err := r.RecordAt(0)
	if err != nil {
		t.Fatalf("%s: Arrow's own reader: got error %v at the record batch, expected none", name, err)
	}
	return batch
}

// TestApacheReadsOurFiles reads the golden dataset with Apache's Arrow reader, and expects the bins and targets that
// this package reads.
func TestApacheReadsOurFiles(t *testing.T) {
	d := must.Get(dataset.Open(golden))(t)
	defer d.Close()
	for _, s := range d.Splits {
		rows := arrowBatch(t, s.Name+"/rows.arrow").Column(0).(*array.FixedSizeBinary)
		columns := arrowBatch(t, s.Name+"/columns.arrow")
		if rows.Len() != s.Rows || int(columns.NumRows()) != s.Rows ||
			int(columns.NumCols()) != len(d.Manifest.Features) {
			t.Fatalf("%s: %d and %d rows, %d columns; want those of the "+
				"manifest", s.Name, rows.Len(), columns.NumRows(), columns.NumCols())
		}
		for j, f := range d.Manifest.Features {
			must.Equal(t, columns.ColumnName(j), f.Name, "%s: column %d is called", s.Name, j)
			values := columns.Column(j).(*array.Uint8).Uint8Values()
			if !bytes.Equal(values, s.Columns[j]) {
				t.Errorf("%s: column %q has bins %v, want %v", s.Name, f.Name, values, s.Columns[j])
			}
			for r := range s.Rows {
				if rows.Value(r)[j] != values[r] {
					t.Fatalf("%s: row %d of %q has bin %d in its row, want %d as in its column", s.Name, r, f.Name,
						rows.Value(r)[j], values[r])
				}
			}
		}
		targets := arrowBatch(t, dataset.TargetsFile(s.Name))
		for r := range s.Rows {
			if targets.Column(0).(*array.Float32).Value(r) != s.Label[r] ||
				targets.Column(1).(*array.Float32).Value(r) != s.Weight[r] ||
				targets.Column(2).(*array.Uint64).Value(r) != s.Group[r] ||
				targets.Column(3).(*array.Uint8).Value(r) != s.Fold[r] {
				t.Fatalf("%s: row %d has targets %v, %v, %v and %v; want %v, %v, %v and %v", s.Name, r,
					targets.Column(0).(*array.Float32).Value(r), targets.Column(1).(*array.Float32).Value(r),
					targets.Column(2).(*array.Uint64).Value(r), targets.Column(3).(*array.Uint8).Value(r),
					s.Label[r], s.Weight[r], s.Group[r], s.Fold[r])
			}
		}
	}
}

// TestApacheReadsOurSample reads the golden sample with Apache's Arrow reader, and expects the rows, values and nulls
// that this package reads.
func TestApacheReadsOurSample(t *testing.T) {
	data := must.Get(os.ReadFile(filepath.Join(golden, dataset.SampleFile)))(t)
	s := must.Get(dataset.ReadSample(data))(t)
	batch := arrowBatch(t, dataset.SampleFile)
	if split, _ := batch.Schema().Metadata().GetValue("split"); split != s.Split ||
		int(batch.NumCols()) != len(s.Names)+1 {
		t.Errorf("split %q and %d columns; want %q and %d", split, batch.NumCols(), s.Split, len(s.Names)+1)
	}
	for r, row := range s.Row {
		must.Equal(t, batch.Column(0).(*array.Uint32).Value(r), row, "row %d of the sample has number", r)
	}
	for i := range s.Columns {
		v, column := &s.Columns[i], batch.Column(i+1)
		for r := range v.Len() {
			if column.IsNull(r) != v.IsNull(r) {
				t.Fatalf("%q, row %d: null %t, want %t", s.Names[i], r, column.IsNull(r), v.IsNull(r))
			}
			if v.IsNull(r) {
				continue
			}
			same := false
			switch c := column.(type) {
			case *array.String:
				same = c.Value(r) == v.Text[r]
			case *array.Float64:
				same = c.Value(r) == v.Float[r]
			case *array.Int64:
				same = c.Value(r) == v.Int[r]
			}
			if !same {
				t.Errorf("%q, row %d: got %s, want %s", s.Names[i], r, column.ValueStr(r), v.TextOf(r))
			}
		}
	}
}
