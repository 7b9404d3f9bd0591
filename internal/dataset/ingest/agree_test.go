package ingest

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// For random tables, the bin of every cell's model value is the bin that Stage wrote, whether the encoder reads the
// source again or the sample.
func TestEncoderAgreesWithStage(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, spec := range randomSpecs {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, "t.csv", randomTable(seed, 2000))
			s := stageFiles(t, spec, []table.File{file}, Options{})
			checkEncoder(t, s, []table.File{file}, dataset.CSVSpec{})
		})
	}
}

// checkEncoder encodes the sample and the source again and compares with what Stage wrote.
func checkEncoder(t *testing.T, s *staged, files []table.File, csv dataset.CSVSpec) {
	t.Helper()
	data := must.Get(s.Manifest.Encode())(t)
	m, err := dataset.DecodeManifest(data) // the encoder is made of JSON alone
	if err != nil {
		t.Fatal(err)
	}
	enc := mustEncode(t, m.Encoding(), s.levels(t))
	checkSample(t, s, enc)
	rows := 0
	for _, split := range s.Splits {
		rows += split.Rows
	}
	if rows < 150_000 {
		checkSource(t, s, enc, files, csv)
	}
}

// checkSample compares every cell of the sample.
func checkSample(t *testing.T, s *staged, enc *cell.Encoder) {
	t.Helper()
	features := s.Manifest.Features
	width := len(features)
	sample := s.sample(t)
	split := s.Split(sample.Split)
	train := sample.Split == "train"
	values := must.Get(enc.EncodeSample(sample))(t)
	for i, row := range sample.Row {
		for j := range features {
			if train && ofTable(&features[j]) {
				continue // a row of train has not seen all rows of train
			}
			x := values[i*width+j]
			if got, want := features[j].BinOfNumber(x), split.Columns[j][row]; got != want {
				t.Fatalf("sampled row %d, %s: value %v in bin %d, staged in %d", row, features[j].Name, x, got, want)
			}
			if split.RowMajor[int(row)*width+j] != split.Columns[j][row] {
				t.Fatalf("row %d, %s: the layouts differ", row, features[j].Name)
			}
		}
	}
}

// isNumber reports whether a text is a number that stands for a missing value, however it is written.
func isNumber(text string, t *cell.Markers) bool {
	x, err := strconv.ParseFloat(text, 64)
	return err == nil && t.HasNumber(x)
}

// ofTable reports whether a feature is a statistic of levels.
func ofTable(f *dataset.Feature) bool { return f.From != nil && f.From.Table >= 0 }

// checkSource makes sure that every row of bins that the source has is there, as often as in the dataset. Rows of train
// are compared without statistics of levels, because each has only seen those before it.
func checkSource(t *testing.T, s *staged, enc *cell.Encoder, files []table.File, csv dataset.CSVSpec) {
	t.Helper()
	m := s.Manifest
	width := len(m.Features)
	columns := func(bins []byte) string {
		var some []byte
		for j, b := range bins {
			if !ofTable(&m.Features[j]) {
				some = append(some, b)
			}
		}
		return string(some)
	}
	counts, whole := map[string]int{}, map[string]int{}
	for _, split := range s.Splits {
		rows := split.Rows
		if split.Name == "train" {
			rows /= m.Copies()
		}
		for r := range rows {
			bins := split.RowMajor[r*width : (r+1)*width]
			counts[columns(bins)]++
			if split.Name != "train" {
				whole[string(bins)]++
			}
		}
	}
	rows := must.Get(table.Open(files, table.Options{CSV: csv}))(t)
	unlabelled, tok := int64(0), cell.NewMarkers(m.Missing)
	must.Do(t, rows.Read(context.Background(), append(enc.Columns(), m.Label.Column), 333, func(b *table.Batch) error {
		out, err := enc.Encode(b, nil, nil, 1)
		if err != nil {
			return err
		}
		for i := range b.Rows {
			if label := b.Column(m.Label.Column); cell.Missing(label, i, tok) || label.Type == dataset.Text &&
				isNumber(label.Text[i], tok) {
				unlabelled++
				continue
			}
			bins := make([]byte, width)
			for j := range m.Features {
				x := out[i*width+j]
				bins[j] = m.Features[j].BinOfNumber(x)
				if math.IsInf(x, 0) || m.Features[j].Kind == dataset.Categorical && x != float64(bins[j]) {
					return fmt.Errorf("the model value of %s is %v", m.Features[j].Name, x)
				}
			}
			counts[columns(bins)]--
			whole[string(bins)]--
		}
		return nil
	}))
	thinned := 0
	for bins, n := range counts {
		if thinned -= min(n, 0); n > 0 || n < 0 && m.Thinned == 0 {
			t.Fatalf("the row of bins %v is %d times more in the dataset than in the source", []byte(bins), n)
		}
	}
	if thinned != int(m.Thinned) {
		t.Errorf("%d rows of the source are not in the dataset, and %d negative ones were left out", thinned, m.Thinned)
	}
	for bins, n := range whole {
		if n > 0 {
			t.Fatalf("the held-out row of bins %v is %d times more in the dataset than in the source", []byte(bins), n)
		}
	}
	if unlabelled != m.LeftOut {
		t.Errorf("%d rows left out, %d have no label", m.LeftOut, unlabelled)
	}
}
