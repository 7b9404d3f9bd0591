package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"

	"coppice/internal/dataset"
	"coppice/launcher/internal/stager"
)

// showDataset prints what a person checks before training on it: the kind of every column, what was made of ids, the
// splits, warnings.
func (w *World) showDataset(s *stager.Staged) {
	m := s.Manifest
	w.showFeatures(m)
	w.showEncodings(m)
	w.showSplits(m)

	if m.LeftOut > 0 {
		fmt.Fprintf(w.Out, "left out: %s rows without a label in %s%s\n", humanize.Comma(m.LeftOut), m.Label.Column,
			texts(m.About.LeftOut))
	}
	if u := m.About.Unripe; u != nil {
		fmt.Fprintf(w.Out, "left out: %s rows after %s, whose labels are not final: %s matures in %s\n",
			humanize.Comma(u.Rows), u.Until.Format(time.RFC3339), m.Label.Column, u.Matures)
	}
	if m.Negatives > 0 {
		fmt.Fprintf(w.Out, "left out: %s of the negative rows; the others represent them with weight %s in metrics, "+
			"and "+
			"scores are right for all rows\n",
			humanize.Comma(m.Thinned), number(1/m.Negatives))
	}

	if m.Like != "" {
		fmt.Fprintf(w.Out, "made like %s: models of that dataset can be continued on this one\n", m.Like)
	}

	w.showWarnings(m.About.Warnings)

	verb := "staged"
	if s.Existed {
		verb = "was staged before"
	}
	fmt.Fprintf(w.Out, "%s@%s %s: %s, %s\n", m.Name, m.Version, verb, humanize.IBytes(uint64(m.Bytes())), s.Place)
}

// showFeatures prints the features that are columns, or are computed from one.
func (w *World) showFeatures(m *dataset.Manifest) {
	rows := 0
	for _, sp := range m.Splits {
		rows += m.TableRows(sp.Name)
	}

	about := map[string]*dataset.EncodingInfo{}
	for i := range m.About.Encodings {
		about[m.About.Encodings[i].Name] = &m.About.Encodings[i]
	}

	t := w.newTable("feature", "kind", "because", "bins", "missing", "min / median / max, or most frequent")
	for i := range m.Features {
		f := &m.Features[i]
		if f.IsDerived() && f.From.Table >= 0 {
			continue
		}
		t.AppendRow(table.Row{f.Name, f.Kind, f.Why, f.Bins, percent(float64(f.Missing) / float64(max(rows, 1))),
			values(f, about[f.Name])})
	}
	t.Render()
}

// showEncodings prints what was made of each column of ids, and which columns are combined.
func (w *World) showEncodings(m *dataset.Manifest) {
	if len(m.Tables) == 0 {
		return // all features are columns, which the table above lists
	}

	t := w.newTable("ids", "levels", "kept", "lumped", "made of them", "worth", "because")
	for _, e := range m.About.Encodings {
		kept, lumped := "", ""
		if e.Kept > 0 {
			kept = humanize.Comma(int64(e.Kept))
			lumped = percent(e.Lumped)
		}
		t.AppendRow(table.Row{e.Name, humanize.Comma(int64(e.Levels)), kept, lumped, made(&e), worth(e.Gain), e.Why})
	}
	t.Render()
	fmt.Fprintf(w.Out, "%s statistics of %s levels; what they are worth in loss was measured on sampled rows of "+
		"train that they "+
		"had not seen\n",
		humanize.Comma(int64(statistics(m))), humanize.Comma(int64(levels(m))))
	if d := m.About.Delay; d != nil && m.Order != nil {
		fmt.Fprintf(w.Out, "a row of train sees only rows at least %v older, as future rows will: on the latest "+
			"rows of train that reduced the loss by %s; "+
			"`encodings: {order: {delay: 0s}}` lets it see all rows before it\n",
			time.Duration(m.Order.DelaySeconds*float64(time.Second)), percent(d.Gain))
	}
}

// worth formats a share of the loss in percent; empty if not measured.
func worth(gain *float64) string {
	if gain == nil {
		return ""
	}
	return fmt.Sprintf("%.2f %%", 100**gain)
}

// made names the features made of a column or key, without repeating its name.
func made(e *dataset.EncodingInfo) string {
	var words []string
	for _, name := range e.Made {
		switch rest := strings.TrimPrefix(name, e.Name); rest {
		case "":
			words = append(words, "categories")
		default:
			words = append(words, strings.TrimPrefix(rest, ":"))
		}
	}

	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// statistics counts the features that are statistics of levels.
func statistics(m *dataset.Manifest) int {
	n := 0
	for i := range m.Features {
		if f := &m.Features[i]; f.IsDerived() && f.From.Table >= 0 {
			n++
		}
	}
	return n
}

// levels is the number of levels over all tables.
func levels(m *dataset.Manifest) int {
	n := 0
	for i := range m.Tables {
		n += m.Tables[i].Levels
	}
	return n
}

func (w *World) showSplits(m *dataset.Manifest) {
	t := w.newTable("split", "rows", "label")
	for _, sp := range m.Splits {
		label := fmt.Sprintf("mean %s", number(sp.LabelMean))
		if m.Label.Kind == dataset.Binary {
			label = percent(sp.LabelMean) + " positive"
		}
		if m.Negatives > 0 {
			label += fmt.Sprintf(", %s before negative rows were left out",
				percent(sp.LabelMean/(sp.LabelMean+(1-sp.LabelMean)/m.Negatives)))
		}

		rows := humanize.Comma(int64(m.TableRows(sp.Name)))
		if sp.Name == dataset.TrainSplit && m.Copies() > 1 {
			rows += fmt.Sprintf(", in %d orders", m.Copies())
		}
		t.AppendRow(table.Row{sp.Name, rows, label})
	}
	t.Render()
}

// texts lists the texts that were treated as a missing label, so that a class lost to them is noticed.
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

// values describes the range of a feature's numbers, or its most frequent categories with their shares of the rows with
// a value, and what it does not distinguish. about may be nil.
func values(f *dataset.Feature, about *dataset.EncodingInfo) string {
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

	var kept int64
	for _, c := range f.Counts {
		kept += c
	}

	// The counts cover the categories with a bin. How many rows have others is not in the feature.
	var top []string
	for i, c := range f.Categories[:min(3, len(f.Categories))] {
		text := shorten(c)
		if about != nil && about.Lumped < 1 {
			text += " " + percent(float64(f.Counts[i])/float64(max(kept, 1))*(1-about.Lumped))
		}
		top = append(top, text)
	}
	text := strings.Join(top, ", ")

	switch {
	case about == nil:
	case about.Levels > len(f.Categories):
		text += fmt.Sprintf("; %s of %s levels, all others together %s", humanize.Comma(int64(len(f.Categories))),
			humanize.Comma(int64(about.Levels)), percent(about.Lumped))
	default:
		text += fmt.Sprintf("; %s %s", humanize.Comma(int64(about.Levels)), english.PluralWord(about.Levels, "level",
			""))
	}
	return text
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 24 {
		return string(r[:23]) + "…"
	}
	return s
}
