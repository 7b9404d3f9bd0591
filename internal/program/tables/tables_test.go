package tables_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/program/tables"
)

// printed returns how a table with a long sentence and columns of several kinds is printed on a terminal that is width
// columns wide, 0 if there is none.
func printed(width int, colour bool) string {
	var out bytes.Buffer
	t := tables.Screen{Output: program.To(&out), Width: width, Colour: colour}.Table("sweep", "planned",
		"hours of machines", "state", "because").Least("planned")
	t.Row("nightly-ctr-1a2b3c4d", "2026-11-21 03:00:00", 1.5, tables.Standing("ok"),
		"trial 3 has the highest auc on valid")
	t.Row("nightly-ctr-5e6f7a8b", "2026-11-22 03:00:00", 2.5, tables.Standing("problem"),
		strings.Repeat("and more ", 9))
	t.Print()
	return out.String()
}

// TestTablesFitTheTerminal: no line of a table is wider than the terminal. To achieve that, column names are folded,
// then texts are wrapped, and then columns are left out, which a line below the table names: first "planned", of which
// printed says that it is worth least, then others from the right, but not the last one, whose text is wrapped. The
// name of a sweep is never broken. Without a terminal nothing of this is done.
func TestTablesFitTheTerminal(t *testing.T) {
	for width, out := range map[int]string{120: "", 80: "planned", 60: "planned, state",
		50: "planned, state, hours of machines"} {
		text := printed(width, false)
		for _, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("width %d: got a line of %d characters, want no more than the width: %s", width, n, line)
			}
		}
		_, left, _ := strings.Cut(strings.Join(strings.Fields(text), " "), "left out at ")
		if _, names, _ := strings.Cut(left, ": "); names != out {
			t.Errorf("width %d: left out are %q, expected %q\n%s", width, names, out, text)
		}
		if !strings.Contains(text, "nightly-ctr-5e6f7a8b") {
			t.Errorf("width %d: the name nightly-ctr-5e6f7a8b is broken, want it whole:\n%s", width, text)
		}
	}
	if text := printed(0, false); !strings.Contains(text, strings.TrimSpace(strings.Repeat("and more ", 9))) ||
		strings.Contains(text, "left out") {
		t.Errorf("where there is no terminal, got\n%s\nwant every row on one line, and no column left out", text)
	}
}

// TestPercentStaysWithItsNumber: a percent sign stands on the same line as its number, at whatever width the table is
// wrapped. The character U+0378, which the package uses to keep them together, is not printed, not even where a cell
// has it of its own.
func TestPercentStaysWithItsNumber(t *testing.T) {
	for width := 30; width < 60; width++ {
		var text bytes.Buffer
		table := tables.Screen{Output: program.To(&text), Width: width}.Table("feature", "most frequent \u0378")
		table.Row("job", "admin. 25.4 %, blue-collar 22.6 %, technician 16.6 %; 11 levels \u0378")
		table.Print()
		if s := text.String(); strings.Contains(s, "│ %") || strings.Contains(s, "\u0378") ||
			!strings.Contains(s, "22.6 %") {
			t.Errorf("width %d: got\n%s\nwant every percent sign beside its number, and no U+0378", width, s)
		}
	}
}

// TestLastColumnIsLeftOut: the last column, which takes the rest of the width, is left out before others if Least names
// it. A column takes at most half of the width, as the first one does here, and three more for blanks and a line: at 44
// the first three fill 22 + 6 + 6 + 10 columns, and at 34 only two of them fit.
func TestLastColumnIsLeftOut(t *testing.T) {
	for width, out := range map[int]string{80: "", 44: "because", 34: "because, levels"} {
		var text bytes.Buffer
		table := tables.Screen{Output: program.To(&text), Width: width}.Table("ids", "levels", "worth", "because").
			Least("because")
		if width < 44 {
			table.Least("because", "levels")
		}
		table.Row("a key of several columns", 16, "1.12 %", "it has many levels")
		table.Print()
		_, left, _ := strings.Cut(strings.Join(strings.Fields(text.String()), " "), "left out at ")
		if _, names, _ := strings.Cut(left, ": "); names != out {
			t.Errorf("width %d: left out are %q, expected %q\n%s", width, names, out, text.String())
		}
	}
}

// TestColour: only states are coloured, and only on a terminal, unless the reader has set NO_COLOR to something or the
// terminal is a dumb one. On a terminal of an unknown width a table is 80 columns wide.
func TestColour(t *testing.T) {
	if text := printed(120, true); !strings.Contains(text, "│ \x1b[32mok\x1b[0m      │") ||
		!strings.Contains(text, "\x1b[31mproblem\x1b[0m") || strings.Count(text, "\x1b[") != 4 { // on and off, twice
		t.Errorf("got %q; want ok in green, problem in red, and nothing else coloured", text)
	}
	for _, tc := range []struct {
		terminal bool
		env      map[string]string
		want     bool
	}{{true, nil, true}, {false, nil, false}, {true, map[string]string{"NO_COLOR": "1"}, false},
		{true, map[string]string{"NO_COLOR": ""}, true}, {true, map[string]string{"TERM": "dumb"}, false}} {
		s := tables.On(program.World{Terminal: tc.terminal, Env: envconfig.MapLookuper(tc.env)})
		if s.Colour != tc.want || (s.Width == 80) != tc.terminal {
			t.Errorf("terminal %t, environment %v: colour is %t, width %d; want colour %t, and width 80 on a terminal "+
				"alone", tc.terminal, tc.env, s.Colour, s.Width, tc.want)
		}
	}
}

// TestColumns: in a file or a pipe a table is as wide as $COLUMNS says. Without that, or with a value that is no useful
// width (7 is below the least, 40), the table has no limit: its width is 0. World's own width, 50, is that of a
// terminal, and does not count here.
func TestColumns(t *testing.T) {
	for columns, want := range map[string]int{"": 0, "100": 100, "many": 0, "-3": 0, "7": 0} {
		w := program.World{Env: envconfig.MapLookuper(map[string]string{"COLUMNS": columns}), Width: 50}
		must.Equal(t, tables.On(w).Width, want, "with COLUMNS=%q the width", columns)
	}
}

// TestEmptyTable: a table without columns and rows prints nothing but empty lines, on a terminal as elsewhere.
func TestEmptyTable(t *testing.T) {
	for _, width := range []int{0, 80} {
		var text bytes.Buffer
		tables.Screen{Output: program.To(&text), Width: width}.Table().Print()
		must.Equal(t, strings.TrimSpace(text.String()), "", "an empty table at width %d", width)
	}
}

// TestNamesFoldAtUnderscores: before a column is left out, the names of columns are broken after an underscore.
func TestNamesFoldAtUnderscores(t *testing.T) {
	var out bytes.Buffer
	table := tables.Screen{Output: program.To(&out), Width: 40}.Table("trial", "average_precision", "min_data_in_leaf")
	table.Row(8, "0.117570", 566)
	table.Print()
	for _, want := range []string{"average_ ", "precision ", "min_", "0.117570", "566"} {
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "left out") {
			t.Errorf("at 40 columns got\n%s\nwant %q in it, and no column left out", &out, want)
		}
	}
}

// TestEmptyColumns: a column whose cells are all empty is not printed, even if it is the one that is to be wrapped. A
// table without rows shows all its columns.
func TestEmptyColumns(t *testing.T) {
	for _, width := range []int{0, 80} {
		for rows, want := range map[int]string{0: "night version why", 1: "night version"} {
			var out bytes.Buffer
			// Column 3, why, is the one to be wrapped.
			table := tables.Screen{Output: program.To(&out), Width: width}.Table("night", "version", "why").Wrap(3)
			for range rows {
				table.Row("2026-11-30", 3, "")
			}
			table.Print()
			head := strings.SplitN(out.String(), "\n", 3)[1]
			if got := strings.Join(strings.Fields(strings.ReplaceAll(head, "│", " ")), " "); got != want {
				t.Errorf("width %d, %d rows: got the columns %q, want %q", width, rows, got, want)
			}
		}
	}
}
