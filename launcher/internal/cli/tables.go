package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"coppice/dataset"
	"coppice/launcher/internal/stager"
)

// barThrottle keeps a bar from drawing more often than anybody can see.
const barThrottle = 100 * time.Millisecond

// pairsOverhead is the width of a pair's label with the table's own lines.
const pairsOverhead = 34

// newTable is a table in the style of all commands.
func (w *World) newTable(header ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Options.SeparateRows = false
	t.SetOutputMirror(w.Out)
	if len(header) > 0 {
		t.AppendHeader(table.Row(header))
	}
	return t
}

// textWidth is how much room the text column of a table has beside other columns of so many characters.
func (w *World) textWidth(others int) int {
	width := 120
	if w.Terminal {
		width = w.Width
	}
	return max(width-others, 40)
}

// pairs prints labels and values, the values wrapped to the terminal's width.
func (w *World) pairs(rows ...[2]string) {
	t := w.newTable()
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, WidthMax: w.textWidth(pairsOverhead), WidthMaxEnforcer: text.WrapSoft}})
	for _, r := range rows {
		if r[1] != "" {
			t.AppendRow(table.Row{r[0], r[1]})
		}
	}
	t.Render()
}

// showDataset prints what a person checks before training on it: what every column is taken for, the splits, warnings.
func (w *World) showDataset(s *stager.Staged) {
	m := s.Manifest
	var rows int64
	for _, sp := range m.Splits {
		rows += int64(sp.Rows)
	}
	t := w.newTable("feature", "kind", "because", "bins", "missing", "min / median / max, or most frequent")
	for i := range m.Features {
		f := &m.Features[i]
		t.AppendRow(table.Row{f.Name, f.Kind, f.Why, f.Bins, percent(float64(f.Missing) / float64(max(rows, 1))), values(f)})
	}
	t.Render()
	splits := w.newTable("split", "rows", "label")
	for _, sp := range m.Splits {
		label := fmt.Sprintf("mean %s", number(sp.LabelMean))
		if m.Label.Kind == dataset.Binary {
			label = percent(sp.LabelMean) + " positive"
		}
		splits.AppendRow(table.Row{sp.Name, humanize.Comma(int64(sp.Rows)), label})
	}
	splits.Render()
	if m.LeftOut > 0 {
		fmt.Fprintf(w.Out, "left out: %s rows without a label in %s%s\n", humanize.Comma(m.LeftOut), m.Label.Column, texts(m.About.LeftOut))
	}
	for _, warning := range m.About.Warnings {
		where := ""
		if warning.Column != "" {
			where = warning.Column + ": "
		}
		fmt.Fprintf(w.Out, "warning: %s%s\n", where, warning.Text)
	}
	verb := "staged"
	if s.Existed {
		verb = "was staged before"
	}
	fmt.Fprintf(w.Out, "%s@%s %s: %s, %s\n", m.Name, m.Version, verb, humanize.IBytes(uint64(m.Bytes())), s.Place)
}

// texts lists the texts that stood for a missing label, so that nobody loses a class to them unseen.
func texts(rows map[string]int64) string {
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(rows)) {
		parts = append(parts, fmt.Sprintf("%q %s", shorten(s), humanize.Comma(rows[s])))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func values(f *dataset.Feature) string {
	if f.Kind != dataset.Categorical {
		if f.Range == nil {
			return ""
		}
		if f.Kind == dataset.Temporal {
			at := func(x float64) string { return time.Unix(int64(x), 0).UTC().Format("2006-01-02 15:04") }
			return strings.Join([]string{at(f.Range.Min), at(f.Range.Median), at(f.Range.Max)}, " / ")
		}
		return strings.Join([]string{number(f.Range.Min), number(f.Range.Median), number(f.Range.Max)}, " / ")
	}
	var total int64
	for _, c := range f.Counts {
		total += c
	}
	var top []string
	for i, c := range f.Categories[:min(3, len(f.Categories))] {
		top = append(top, fmt.Sprintf("%s %s", shorten(c), percent(float64(f.Counts[i])/float64(max(total, 1)))))
	}
	return strings.Join(top, ", ")
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 24 {
		return string(r[:23]) + "…"
	}
	return s
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

// number is x in the fewest digits that tell six apart.
func number(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// metrics are "name value" pairs by name, those that are named first in front.
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
