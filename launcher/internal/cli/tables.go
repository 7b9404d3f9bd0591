package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"coppice/internal/program/tables"
)

// barThrottle keeps a bar from drawing more often than is visible.
const barThrottle = 100 * time.Millisecond

// pairsOverhead is the width of a pair's label and of the table's lines.
const pairsOverhead = 34

// newTable returns a table in the common style.
func (w *World) newTable(header ...any) table.Writer {
	return tables.New(w.Out, header...)
}

// textWidth is the width left for the text column of a table when the other columns take that many characters.
func (w *World) textWidth(others int) int {
	width := 120
	if w.Terminal {
		width = w.Width
	}
	return max(width-others, 40)
}

// pairs prints labels and values, with the values wrapped to the terminal's width.
func (w *World) pairs(rows ...[2]string) {
	t := w.newTable()
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, WidthMax: w.textWidth(pairsOverhead),
		WidthMaxEnforcer: text.WrapSoft}})
	for _, r := range rows {
		if r[1] != "" {
			t.AppendRow(table.Row{r[0], r[1]})
		}
	}
	t.Render()
}

func percent(x float64) string {
	switch {
	case x == 0:
		return "0 %"
	case x < 0.001:
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

// number formats x with up to six significant digits.
func number(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// metrics formats "name value" pairs, sorted by name, with those in first in front.
func metrics(m map[string]float64, first ...string) string {
	var parts []string
	add := func(name string) {
		if v, ok := m[name]; ok {
			parts = append(parts, name+" "+number(v))
		}
	}

	for _, name := range first {
		add(name)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(first, name) {
			add(name)
		}
	}
	return strings.Join(parts, ", ")
}
