package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

func TestSamplerIsFairAndStable(t *testing.T) {
	const rows, size = 20_000, 2000
	take := func(order []int64) map[int64]bool {
		s := newSampler(size)
		slots := make([]int64, s.slots())
		for _, row := range order {
			if place, ok := s.offerRow(row); ok {
				slots[place] = row
			}
		}
		out := map[int64]bool{}
		last := uint64(0)
		for _, slot := range s.sorted() {
			if slot.hash < last {
				t.Error("the hashes are not in order")
			}
			last = slot.hash
			out[slots[slot.place]] = true
		}
		return out
	}
	order := make([]int64, rows)
	for i := range order {
		order[i] = int64(i)
	}
	got := take(order)
	slices.Reverse(order)
	if !reflect.DeepEqual(got, take(order)) || len(got) != size {
		t.Errorf("%d rows, and others in the other order", len(got))
	}
	var parts [10]int
	for row := range got {
		parts[row*10/rows]++
	}
	for i, n := range parts { // 200 expected, standard deviation 13.4
		if n < 140 || n > 260 {
			t.Errorf("%d rows from tenth %d", n, i)
		}
	}
}

// Texts that are too long for a category are others, and are told apart all the same.
func TestLongTextsAreOthers(t *testing.T) {
	long := strings.Repeat("x", dataset.MaxCategory)
	var b strings.Builder
	b.WriteString("y,s,id\n")
	for i := range 600 {
		fmt.Fprintf(&b, "%d,%s,%s%03d\n", i%2, []string{long, long + "y", "short"}[i%3], long, i)
	}
	s := mustStage(t, "label: y\nencodings: none\n", b.String())
	if f := s.feature(t, "s"); len(f.Categories) != 2 || f.Categories[0] != "short" || f.Categories[1] != long ||
		f.OtherBin != 2 {
		t.Errorf("%d categories, other_bin %d", len(f.Categories), f.OtherBin)
	}
	if column := s.Split("train").Columns[0]; column[0] != 1 || column[1] != 2 || column[2] != 0 {
		t.Errorf("bins %v", column[:3])
	}
	if f := s.feature(t, "id"); len(f.Categories) != 0 || f.Bins != 1 {
		t.Errorf("%d categories of long ids", len(f.Categories))
	}
	if got := codes(s); !slices.Contains(got, "id_like id") {
		t.Errorf("warnings %v", got)
	}
	if v := s.sample(t).Column("s"); v.Text[1] != long+"y" {
		t.Error("the sample is not raw")
	}
}

// A Parquet table says how many rows it has, but not how many of them are train and have a label.
func TestBinsAreMadeOfAllTrainRowsThereAre(t *testing.T) {
	var out bytes.Buffer
	w := must.Get(table.NewParquetWriter(&out, []table.Column{{Name: "y", Type: dataset.Int},
		{Name: "x", Type: dataset.Int}}, table.Plain))(t)
	b := &table.Batch{Names: []string{"y", "x"}, Rows: 5000,
		Columns: []dataset.Values{{Type: dataset.Int, Null: make([]bool, 5000)}, {Type: dataset.Int}}}
	for i := range b.Rows {
		b.Columns[0].Int = append(b.Columns[0].Int, int64(i/10%2))
		b.Columns[0].Null[i] = i%10 > 0
		b.Columns[1].Int = append(b.Columns[1].Int, int64(i))
	}
	must.Do(t, errors.Join(w.Write(b), w.Close()))
	s, err := tryStage(t, "label: y\nsample_rows_for_bins: 400\n",
		[]table.File{writeFile(t, "t.parquet", out.String())}, Options{})
	if err != nil || s.Manifest.BinRows != 400 {
		t.Errorf("staging with sample_rows_for_bins 400: got error %v and %+v, expected bins from 400 rows", err, s)
	}
}
