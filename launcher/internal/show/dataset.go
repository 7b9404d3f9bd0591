package show

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/nights"
	"coppice/internal/page"
	"coppice/launcher/internal/stager"
)

// Dataset writes what a person checks before training on a staged dataset: the kind of every column, the statistics
// made of ids, the splits, warnings, and where it is stored.
func (w Printer) Dataset(s *stager.Staged) {
	m := s.Manifest
	w.features(m, len(m.Features))
	w.printList(page.Encodings(m), len(m.About.Encodings), "because", "lumped", "kept")
	w.printList(page.Splits(m), len(m.Splits))
	for _, note := range page.Made(m) {
		w.Printf("%s\n", note)
	}
	w.warnings(m.About.Warnings, isFirst(s.Night))

	verb := "staged"
	if s.Existed {
		verb = "was staged before"
	}
	w.Printf("%s@%s %s: %s, %s\n", m.Name, m.Version, verb, humanize.IBytes(uint64(m.Bytes())), s.Place)
}

// features writes a table of the features that are columns or are computed from one column, the first most of them.
func (w Printer) features(m *dataset.Manifest, most int) {
	w.printList(page.Features(m, false), most, "because", "bins")
}

// printList writes the first most rows of a table, and how many more there are; of an empty table nothing. least are
// the columns that a narrow terminal leaves out first.
func (w Printer) printList(l page.Listed, most int, least ...string) {
	if len(l.Rows) == 0 {
		return
	}
	cells := func(row []string) (out []any) {
		for _, text := range row {
			out = append(out, text)
		}
		return out
	}
	t := w.Table(cells(l.Head)...).Least(least...)
	for i, row := range l.Rows {
		if i == most {
			t.Row(fmt.Sprintf("... and %d more", len(l.Rows)-most))
			break
		}
		t.Row(cells(row)...)
	}
	t.Print()
}

// useless says in words what the warnings mean, by code, after which nothing can be learned from a column.
var useless = map[string]string{ingest.WarnConstant: "the same value in every row",
	ingest.WarnAllMissing: "no value at all", ingest.WarnIDLike: "nearly every value is unique (looks like an ID)"}

// leaks is said of several columns that know the label.
const leaks = "each alone tells most of the label: are they known before it is? If not, drop them"

// isFirst reports whether a night was compared with no earlier one. The record is nil where none is kept.
func isFirst(r *nights.Record) bool { return r == nil || len(r.Against) == 0 }

// warnings writes what a person should check. Several columns to drop are also written as a list to paste, but only on
// the first night: later ones have versions that need them, and could not be compared without.
func (w Printer) warnings(all []dataset.Warning, first bool) {
	for _, line := range Told(all, first) {
		w.Printf("%s\n", line)
	}
	if drop := dropped(all); len(drop) > 1 && first {
		w.Printf("nothing can be learned from these %d columns; to leave them out, add this to the dataset's YAML, "+
			"or to its existing drop:\n", len(drop))
		w.YAML("drop: [" + strings.Join(drop, ", ") + "]")
	}
}

// dropped are the names, quoted, of the columns from which nothing can be learned. From odd texts, such as numbers with
// a unit, something can, once they are mended.
func dropped(all []dataset.Warning) (names []string) {
	odd := map[string]bool{}
	for _, warning := range all {
		odd[warning.Column] = odd[warning.Column] || warning.Code == ingest.WarnOdd
	}
	for _, warning := range all {
		quoted := strconv.Quote(warning.Column)
		if useless[warning.Code] != "" && !odd[warning.Column] && !slices.Contains(names, quoted) {
			names = append(names, quoted)
		}
	}
	return names
}

// Told returns a table's warnings as lines for people, in the order of all. first says that it is the dataset's first
// night.
//
// Columns from which nothing can be learned share a line for each kind of them if there are several, of whatever kind,
// or if it is a later night: the text of a single one advises to drop it, which later nights cannot. Several columns
// that leak the label share a line, too. Every other warning has its own line; of one code only the first five have,
// and a line at the end counts the rest. A column that was left out because it looks like an ID has both warnings, of
// which one is told.
func Told(all []dataset.Warning, first bool) (told []string) {
	hints := map[string]bool{ingest.HintIDs: true, ingest.HintKey: true, ingest.HintIndex: true}
	columnsOf := map[string][]string{} // by code
	for _, warning := range all {
		columnsOf[warning.Code] = append(columnsOf[warning.Code], warning.Column)
	}

	// together is the line that all columns of a code share; "" if each has its own.
	shareLines := len(dropped(all)) > 1 || !first
	together := func(code string) string {
		switch columns := strings.Join(columnsOf[code], ", "); {
		case useless[code] != "" && shareLines:
			return useless[code] + ": " + columns
		case code == ingest.WarnLeak && len(columnsOf[code]) > 1:
			return columns + ": " + leaks
		}
		return ""
	}
	// A column that looks like an ID may have been left out as one, too. A warning whose column also has its twin is
	// not told: the twin is that it was left out or, where such columns share a line, that it looks like an ID.
	twin := map[string]string{ingest.WarnDropped: ingest.WarnIDLike}
	if together(ingest.WarnIDLike) == "" {
		twin = map[string]string{ingest.WarnIDLike: ingest.WarnDropped}
	}

	const most = 5            // lines of one code; a table of 10,000 columns may have as many warnings
	lines := map[string]int{} // by code: its warnings so far
	for _, warning := range all {
		kind, line := "warning: ", together(warning.Code)
		if hints[warning.Code] {
			kind = "hint: "
		}
		if slices.Contains(columnsOf[twin[warning.Code]], warning.Column) {
			continue
		}
		switch lines[warning.Code]++; {
		case line == "" && lines[warning.Code] <= most:
			told = append(told, kind+strings.TrimPrefix(warning.Column+": "+warning.Text, ": "))
		case line != "" && lines[warning.Code] == 1:
			told = append(told, "warning: "+line)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(lines)) {
		if more := lines[code] - most; more > 0 && together(code) == "" {
			told = append(told, fmt.Sprintf("and %s more with code %s, which the dataset's manifest.json has",
				humanize.Comma(int64(more)), code))
		}
	}
	return told
}
