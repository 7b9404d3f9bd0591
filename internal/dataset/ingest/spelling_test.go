package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// An id is one id however a program writes it, at staging and at predicting, as a category and as a level.
func TestSpellingsOfOneID(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	write := func(spell func(i, id int) string) string {
		var b strings.Builder
		b.WriteString("y,id,big,flag\n")
		for i := range 6000 {
			id := encode.Mix(uint64(i)) % 50
			fmt.Fprintf(&b, "%d,%s,%s,%s\n", id%2, spell(i, 1001+int(id)), spell(i, 1234567890123400+int(id)),
				[]string{"True", "true", " TRUE", "no"}[i%4])
		}
		return b.String()
	}
	whole := write(func(_, id int) string { return fmt.Sprint(id) })
	mixed := write(func(i, id int) string { return fmt.Sprintf([]string{"%d", "%d.0", " %d", "+%d", "%d"}[i%5], id) })
	float := write(func(_, id int) string { return fmt.Sprintf("%d.0", id) })

	for name, spec := range map[string]string{
		"categories": "label: y\ncategorical: [id, big]\nencodings: none\nsplit: {by: random, train: 0.8, test: 0.2}\n",
		"levels":     "label: y\ncategorical: [id, big]\nsplit: {by: random, train: 0.8, test: 0.2}\n",
	} {
		t.Run(name, func(t *testing.T) {
			var bins [][]uint8
			for i, rows := range []string{whole, mixed, float} {
				s := mustStage(t, spec, rows)
				for _, feature := range s.Manifest.Features {
					if feature.Kind == dataset.Categorical && feature.Name != "flag" && len(feature.Categories) != 50 {
						t.Errorf("table %d: %s has %d categories, want 50: %q", i, feature.Name,
							len(feature.Categories), feature.Categories)
					}
				}
				if f := s.feature(t, "flag"); !slices.Equal(f.Categories, []string{"True", "no"}) &&
					!slices.Equal(f.Categories, []string{" TRUE", "no"}) {
					t.Errorf("table %d: flag has categories %q, want two", i, f.Categories)
				}
				checkEncoder(t, s, []table.File{writeFile(t, "again.csv", rows)}, dataset.CSVSpec{})
				bins = append(bins, s.Split("test").RowMajor)
			}
			// Of categories that are equally frequent, the first is the first by how it is written.
			if name == "levels" && (!slices.Equal(bins[0], bins[1]) || !slices.Equal(bins[0], bins[2])) {
				t.Error("the bins of the same ids in other spellings differ")
			}
		})
	}

	// What was trained on 1001 predicts on 1001.0, in whatever type.
	s := mustStage(t, "label: y\ncategorical: [id, big]\nencodings: {columns: {id: [categories, rate, count]}}\n",
		whole)
	enc := mustEncode(t, s.Manifest.Encoding(), s.levels(t))
	flags := text("True", "no")
	rows := func(id, big dataset.Values) []float64 {
		t.Helper()
		out := must.Get(enc.Encode(&table.Batch{Names: []string{"id", "big", "flag"},
			Columns: []dataset.Values{id, big, flags},
			Rows:    2}, nil, nil, 1))(t)
		return out
	}
	want := rows(text("1001", "1002"), text("1234567890123401", "1234567890123402"))
	for name, got := range map[string][]float64{
		"floats in text": rows(text("1001.0", "1002.000"), text("1234567890123401.0", "+1234567890123402")),
		"floats": rows(dataset.Values{Type: dataset.Float, Float: []float64{1001, 1002}},
			dataset.Values{Type: dataset.Float, Float: []float64{1234567890123401, 1234567890123402}}),
		"whole numbers": rows(dataset.Values{Type: dataset.Int, Int: []int64{1001, 1002}},
			dataset.Values{Type: dataset.Int, Int: []int64{1234567890123401, 1234567890123402}}),
		"spaces": rows(text(" 1001", "1002\t"), text("1234567890123401 ", " 1234567890123402")),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A number that stands for a missing value does so in categories, too, however it is written.
func TestMissingNumbersAmongCategories(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,id\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "%d,%s\n", i/7%2, []string{"a", "b", "-999.0", "c"}[i%4])
	}
	s := mustStage(t, "label: y\nmissing: ['', '-999']\n", b.String())
	if f := s.feature(t, "id"); len(f.Categories) != 3 || f.MissingBin < 0 || f.Missing != 750 {
		t.Errorf("categories %q, missing bin %d of %d values; want a, b and c, and 750 missing values", f.Categories,
			f.MissingBin, f.Missing)
	}
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", b.String())}, dataset.CSVSpec{})
}
