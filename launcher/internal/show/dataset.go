package show

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/page"
	"coppice/launcher/internal/stager"
)

// Dataset writes what a person checks before training on it: the kind of every column, what was made of ids, the
// splits, warnings.
func (w Printer) Dataset(s *stager.Staged) {
	m := s.Manifest
	w.features(m, len(m.Features))
	w.list(page.Encodings(m), len(m.About.Encodings), "because", "lumped", "kept")
	w.list(page.Splits(m), len(m.Splits))
	for _, note := range page.Made(m) {
		w.Printf("%s\n", note)
	}
	w.warnings(m.About.Warnings)

	verb := "staged"
	if s.Existed {
		verb = "was staged before"
	}
	w.Printf("%s@%s %s: %s, %s\n", m.Name, m.Version, verb, humanize.IBytes(uint64(m.Bytes())), s.Place)
}

// features prints the features that are columns, or are computed from one, up to a number of them.
func (w Printer) features(m *dataset.Manifest, most int) {
	w.list(page.Features(m, false), most, "because", "bins")
}

// list prints a table up to a number of rows; which columns are least worth their room, comes last.
func (w Printer) list(l page.Listed, most int, least ...string) {
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
			t.Row("...")
			break
		}
		t.Row(cells(row)...)
	}
	t.Print()
}

// useless are the codes of columns of which nothing can be learned, in words.
var useless = map[string]string{ingest.WarnConstant: "the same value in every row",
	ingest.WarnAllMissing: "no value at all", ingest.WarnIDLike: "nearly every value is unique (looks like an ID)"}

// warnings writes what a person should check. If several columns should be dropped, they are also written as a list
// to paste.
func (w Printer) warnings(all []dataset.Warning) {
	hints := map[string]bool{ingest.HintIDs: true, ingest.HintKey: true, ingest.HintIndex: true}
	var drop []string
	of := map[string][]string{} // columns by code
	for _, warning := range all {
		if useless[warning.Code] != "" {
			of[warning.Code] = append(of[warning.Code], warning.Column)
			if !slices.Contains(drop, warning.Column) {
				drop = append(drop, warning.Column)
			}
		}
	}

	const most = 5 // lines of one code; a table of 10,000 columns has as many
	lines := map[string]int{}
	for _, warning := range all {
		if lines[warning.Code]++; len(drop) > 1 && useless[warning.Code] != "" || lines[warning.Code] > most {
			continue
		}
		where, kind := "", "warning"
		if warning.Column != "" {
			where = warning.Column + ": "
		}
		if hints[warning.Code] {
			kind = "hint"
		}
		w.Printf("%s: %s%s\n", kind, where, warning.Text)
	}
	for _, code := range slices.Sorted(maps.Keys(lines)) {
		if more := lines[code] - most; len(drop) > 1 && of[code] != nil {
			w.Printf("warning: %s: %s\n", useless[code], strings.Join(of[code], ", "))
		} else if more > 0 {
			w.Printf("and %s more with code %s, which the dataset's manifest.json has\n", humanize.Comma(int64(more)),
				code)
		}
	}
	if len(drop) > 1 {
		for i, column := range drop {
			drop[i] = yamlText(column)
		}
		w.Printf("nothing can be learned from these %d columns; to leave them out, add this to the dataset's YAML, "+
			"or to its existing drop:\n", len(drop))
		w.YAML("drop: [" + strings.Join(drop, ", ") + "]")
	}
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
