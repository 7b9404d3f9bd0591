package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// TestMarksAndNeighbours: in a request and in a file of objects a number has the value that it has alone, whatever
// stands beside it, and in every part of the batch.
func TestMarksAndNeighbours(t *testing.T) {
	rows := []string{`{"x":1.234}`, `{"x":"2,5"}`, `{"x":"1.234"}`, `{"x":null}`, `{}`, `{"x":-0.5}`}
	want := []float64{1.234, 2.5, 1234, 0, 0, -0.5}
	m := forColumns("x")
	m.numbers[0] = true
	for first := range rows {
		order := slices.Concat(rows[first:], rows[:first])
		request := must.Get(readInstances(m, []byte(`{"instances":[`+strings.Join(order, ",")+`]}`), 9))(t)
		objects := must.Get(readText(t.Context(), m, "t.jsonl", []byte(strings.Join(order, "\n")), 9))(t)
		for door, b := range map[string]*table.Batch{"request": request, "objects": objects} {
			v := &b.Columns[0]
			all := []int32{0, 1, 2, 3, 4, 5}
			for part, some := range map[string]dataset.Values{"whole": *v, "picked": v.Pick(all),
				"end": v.Slice(1, 6)} {
				got, wrong := cell.ReadAs(dataset.DecimalComma, &some, cell.NewMarkers(nil))
				if wrong != nil {
					t.Fatalf("%s, %s: %v", door, part, wrong)
				}
				for i, x := range got.Float {
					w := want[(first+i+len(rows)-len(got.Float))%len(rows)]
					if x != w && w != 0 {
						t.Errorf("%s, %s: row %d of %v is %v, expected %v", door, part, i, fmt.Sprint(order), x, w)
					}
				}
			}
		}
	}
}
