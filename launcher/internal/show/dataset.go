package show

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/launcher/internal/stager"
)

// Dataset writes what a person checks before training on it: the kind of every column, what was made of ids, the
// splits, warnings.
func (w Printer) Dataset(s *stager.Staged) {
	m := s.Manifest
	w.features(m, len(m.Features))
	w.encodings(m)
	w.splits(m)

	if m.LeftOut > 0 {
		w.printf("left out: %s rows without a label in %s%s\n", humanize.Comma(m.LeftOut), m.Label.Column,
			texts(m.About.LeftOut))
	}
	if u := m.About.Unripe; u != nil {
		w.printf("left out: %s rows after %s with labels that are not final (%s matures in %s)\n",
			humanize.Comma(u.Rows), u.Until.Format(time.RFC3339), m.Label.Column, u.Matures)
	}
	if m.Negatives > 0 {
		w.printf("left out: %s of the negative rows; in metrics each remaining one counts %s times, and predictions "+
			"are right for all rows\n", humanize.Comma(m.Thinned), Number(1/m.Negatives))
	}

	if m.Like != "" {
		w.printf("made like %s: models of that dataset can be continued on this one\n", m.Like)
	}

	w.warnings(m.About.Warnings)

	verb := "staged"
	if s.Existed {
		verb = "was staged before"
	}
	w.printf("%s@%s %s: %s, %s\n", m.Name, m.Version, verb, humanize.IBytes(uint64(m.Bytes())), s.Place)
}

// features prints the features that are columns, or are computed from one, up to a number of them.
func (w Printer) features(m *dataset.Manifest, most int) {
	rows := 0
	for _, sp := range m.Splits {
		rows += m.TableRows(sp.Name)
	}

	about := map[string]*dataset.EncodingInfo{}
	for i := range m.About.Encodings {
		about[m.About.Encodings[i].Name] = &m.About.Encodings[i]
	}

	t := w.Table("feature", "kind", "because", "bins", "missing", "min / median / max, or most frequent").
		Least("because", "bins")
	for i := range m.Features {
		f := &m.Features[i]
		if f.IsDerived() && f.From.Table >= 0 {
			continue
		}
		if most--; most < 0 {
			t.Row("...")
			break
		}
		t.Row(f.Name, f.Kind, f.Why, f.Bins, Percent(float64(f.Missing)/float64(max(rows, 1))),
			values(f, about[f.Name]))
	}
	t.Print()
}

// encodings prints what was made of each column of ids, and which columns are combined.
func (w Printer) encodings(m *dataset.Manifest) {
	if len(m.Tables) == 0 {
		return // all features are columns, which the table above lists
	}

	statistics, levels := 0, 0
	for i := range m.Features {
		if f := &m.Features[i]; f.IsDerived() && f.From.Table >= 0 {
			statistics++
		}
	}
	for i := range m.Tables {
		levels += m.Tables[i].Levels
	}

	t := w.Table("ids", "levels", "kept", "lumped", "made of them", "worth", "because").Least("because", "lumped",
		"kept")
	for _, e := range m.About.Encodings {
		kept, lumped := "", ""
		if e.Kept > 0 {
			kept = humanize.Comma(int64(e.Kept))
			lumped = Percent(e.Lumped)
		}
		t.Row(e.Name, humanize.Comma(int64(e.Levels)), kept, lumped, made(&e), worth(e.Gain), e.Why)
	}
	t.Print()
	w.printf("%s statistics of %s levels; worth is the reduction of the loss on sampled rows of train that they "+
		"had not seen\n", humanize.Comma(int64(statistics)), humanize.Comma(int64(levels)))
	if d := m.About.Delay; d != nil && m.Order != nil {
		w.printf("a row of train sees only rows at least %v older, as future rows will: on the latest rows of train "+
			"that reduced the loss by %s; `encodings: {order: {delay: 0s}}` lets it see all rows before it\n",
			time.Duration(m.Order.DelaySeconds*float64(time.Second)), Percent(d.Gain))
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
		rest := strings.TrimPrefix(strings.TrimPrefix(name, e.Name), ":")
		words = append(words, cmp.Or(rest, "categories"))
	}
	return cmp.Or(strings.Join(words, ", "), "nothing")
}

func (w Printer) splits(m *dataset.Manifest) {
	t := w.Table("split", "rows", "label")
	for _, sp := range m.Splits {
		label := fmt.Sprintf("mean %s", Number(sp.LabelMean))
		if m.Label.Kind == dataset.Binary {
			label = Percent(sp.LabelMean) + " positive"
		}
		if n := len(m.Label.Classes); n > 0 {
			label = fmt.Sprintf("%d classes", n)
		}
		if m.Negatives > 0 {
			label += fmt.Sprintf(", %s before negative rows were left out",
				Percent(sp.LabelMean/(sp.LabelMean+(1-sp.LabelMean)/m.Negatives)))
		}

		rows := humanize.Comma(int64(m.TableRows(sp.Name)))
		if sp.Name == dataset.TrainSplit && m.Copies() > 1 {
			rows += fmt.Sprintf(", in %d orders", m.Copies())
		}
		t.Row(sp.Name, rows, label)
	}
	t.Print()
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
		return strings.Join([]string{Number(f.Range.Min), Number(f.Range.Median), Number(f.Range.Max)}, " / ")
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
			text += " " + Percent(float64(f.Counts[i])/float64(max(kept, 1))*(1-about.Lumped))
		}
		top = append(top, text)
	}
	text := strings.Join(top, ", ")

	switch {
	case about == nil:
	case about.Levels > len(f.Categories):
		text += fmt.Sprintf("; %s of %s levels, all others together %s", humanize.Comma(int64(len(f.Categories))),
			humanize.Comma(int64(about.Levels)), Percent(about.Lumped))
	default:
		text += fmt.Sprintf("; %s %s", humanize.Comma(int64(about.Levels)),
			english.PluralWord(about.Levels, "level", ""))
	}
	return text
}

// warnings writes what a person should check. If several columns should be dropped, they are also written as a list
// to paste.
func (w Printer) warnings(all []dataset.Warning) {
	useless := map[string]bool{ingest.WarnConstant: true, ingest.WarnAllMissing: true, ingest.WarnIDLike: true}
	hints := map[string]bool{ingest.HintIDs: true, ingest.HintKey: true, ingest.HintIndex: true}

	var drop []string
	for _, warning := range all {
		if useless[warning.Code] && !slices.Contains(drop, warning.Column) {
			drop = append(drop, warning.Column)
		}
	}
	together := len(drop) > 1

	const most = 5 // lines of one code; a table of 10,000 columns has as many
	lines := map[string]int{}
	for _, warning := range all {
		if together && useless[warning.Code] {
			continue
		}
		if lines[warning.Code]++; lines[warning.Code] > most {
			continue
		}
		where, kind := "", "warning"
		if warning.Column != "" {
			where = warning.Column + ": "
		}
		if hints[warning.Code] {
			kind = "hint"
		}
		w.printf("%s: %s%s\n", kind, where, warning.Text)
	}
	for _, code := range slices.Sorted(maps.Keys(lines)) {
		if more := lines[code] - most; more > 0 {
			w.printf("and %s more with code %s, which the dataset's manifest.json has\n",
				humanize.Comma(int64(more)), code)
		}
	}

	if !together {
		return
	}
	for _, reason := range []struct{ code, text string }{
		{ingest.WarnAllMissing, "no value at all"},
		{ingest.WarnConstant, "the same value in every row"},
		{ingest.WarnIDLike, "nearly every value is unique (looks like an ID)"},
	} {
		var of []string
		for _, warning := range all {
			if warning.Code == reason.code {
				of = append(of, warning.Column)
			}
		}
		if len(of) > 0 {
			w.printf("warning: %s: %s\n", reason.text, strings.Join(of, ", "))
		}
	}

	for i, column := range drop {
		drop[i] = yamlText(column)
	}
	w.printf("nothing can be learned from these %d columns; to leave them out, add this to the dataset's YAML, or to "+
		"its existing drop:\ndrop: [%s]\n", len(drop), strings.Join(drop, ", "))
}

// plainYAML matches texts that YAML always reads as themselves, not as other words or numbers.
var plainYAML = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// yamlText formats a text so that YAML reads it back unchanged.
func yamlText(s string) string {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	if !plainYAML.MatchString(s) {
		return strconv.Quote(s)
	}
	return s
}
