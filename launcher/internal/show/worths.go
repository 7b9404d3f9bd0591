package show

import (
	"cmp"
	"fmt"
	"strings"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// Worths writes what groups of columns are worth.
func (w Printer) Worths(v *search.Worths) {
	score := map[string]string{sweep.TryDropOne: "all but it", sweep.TryAddOne: "it alone",
		sweep.TryForward: "with it"}[v.Try]
	header := []any{"group", "worth", "95 %"}
	if score != "" {
		header = append(header, v.Metric+", "+score)
	}
	if v.Try == sweep.TryForward {
		header = append(header, "selected")
	}
	t := w.Table(append(header, "columns")...).Wrap(len(header) + 1)
	for _, g := range v.Groups {
		row := []any{g.Group, signed(g.Worth), "-"}
		if g.Low != nil {
			row[2] = signed(g.Low) + " to " + signed(g.High)
		}
		if score != "" {
			row = append(row, valueOf(g.Score))
		}
		if v.Try == sweep.TryForward {
			row = append(row, map[bool]string{true: fmt.Sprintf("step %d", g.Step)}[g.Step > 0])
		}
		t.Row(append(row, strings.Join(g.Columns, ", "))...)
	}
	t.Print()

	on := "valid"
	if v.Folds > 1 {
		on = fmt.Sprintf("mean of %d folds", v.Folds)
	}
	w.printf("%s, %s: %s with all groups", v.Metric, on, valueOf(v.All))
	if v.None != nil {
		w.printf(", %s with none", Number(*v.None))
	}
	if v.Try == sweep.TryForward {
		w.printf("; selected: %s", cmp.Or(strings.Join(v.Selected, ", "), "none"))
	}
	w.printf("\n%s\n", v.How)
	if v.Missing > 0 {
		w.printf("no score yet: %d of the sets of columns\n", v.Missing)
	}
}
