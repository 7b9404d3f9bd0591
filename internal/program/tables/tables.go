// Package tables prints the tables of the programs, and is the only place that does: cells may contain text from
// untrusted sources, and have to be made visible before they are measured.
package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"coppice/internal/program"
)

// Screen is where tables are printed.
type Screen struct {
	program.Output
	// Width is that of the terminal in characters; in a file or a pipe $COLUMNS, or 0: then nothing is left out.
	Width  int
	Colour bool
}

// On returns the screen of a program. On a terminal, it is as wide as that (80 if it does not tell) and coloured,
// unless NO_COLOR is set or TERM is dumb. Elsewhere there is no colour, and the width is COLUMNS if that is a number of
// at least 40, else 0: no limit.
func On(w program.World) Screen {
	s := Screen{Output: w.Out}
	set := func(name string) string {
		if w.Env == nil {
			return ""
		}
		value, _ := w.Env.Lookup(name)
		return value
	}
	if !w.Terminal {
		if wide, err := strconv.Atoi(set("COLUMNS")); err == nil && wide >= 40 {
			s.Width = wide
		}
		return s
	}
	s.Width = w.Width
	if s.Width <= 0 {
		s.Width = 80 // the terminal does not tell
	}
	s.Colour = set("NO_COLOR") == "" && set("TERM") != "dumb" // https://no-color.org
	return s
}

// Printf writes sentences, wrapped at words to the width.
func (s Screen) Printf(format string, args ...any) {
	fmt.Fprint(s, program.Wrap(fmt.Sprintf(format, args...), s.Width))
}

// Command writes a command to copy.
func (s Screen) Command(format string, args ...any) {
	fmt.Fprintln(s, program.WrapCode(fmt.Sprintf(format, args...), s.Width, ` \`))
}

// Head writes a sentence. Its beginning, which says how something stands, has the colour of that on a screen with
// colours, unless it is too long for one line.
func (s Screen) Head(state Standing, begin, rest string) {
	lines := program.Visible(program.Wrap(begin+rest, s.Width))
	if end, ok := strings.CutPrefix(lines, begin); ok && s.Colour {
		lines = state.paint(begin) + end
	}
	fmt.Fprintln(s.Raw(), lines)
}

// paint gives a text the colour of how something stands.
func (state Standing) paint(text string) string {
	word, _, _ := strings.Cut(string(state), ":")
	if colour := colours[Standing(strings.TrimLeft(word, "0123456789 "))]; colour != "" {
		return "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	return text
}

// YAML writes lines for a spec to copy.
func (s Screen) YAML(lines string) { fmt.Fprintln(s, program.WrapCode(lines, s.Width, "")) }

// Standing is a cell that says how something stands, up to a colon, which is coloured on a terminal.
type Standing string

// colours are those of states: green, blue, yellow and red, as on pages.
var colours = map[Standing]string{"ok": "32", "winner": "32", "good": "32", "same bytes": "32", "promoted": "32",
	"promoted by hand": "32", "live": "32", "running": "34",
	"warning": "33", "warnings": "33", "paused": "33", "accepted": "33", "not promoted": "33", "not comparable": "33",
	"problem": "31", "blocked": "31", "no winner": "31", "cancelled": "31", "unreadable": "31",
	"failed": "31", "interrupted": "31", "differs": "31", "bad": "31"}

// Table collects rows.
type Table struct {
	screen Screen
	header []any
	rows   [][]any
	wrap   int
	least  []string
}

// Table returns a table with a header, which may be empty.
func (s Screen) Table(header ...any) *Table { return &Table{screen: s, header: header} }

// Wrap wraps the text of a column, counted from 1, to the width that the others leave. Unless told, that is the last
// one, on a screen with a width.
func (t *Table) Wrap(column int) *Table {
	t.wrap = column
	return t
}

// Least names the columns that are left out first if a terminal is too narrow; all others follow from the right.
func (t *Table) Least(names ...string) *Table {
	t.least = names
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...any) { t.rows = append(t.rows, escapeCells(cells)) }

const (
	maxCell   = 1000 // characters of a cell that are shown; three dots replace the middle of a longer one
	paper     = 120  // width to which text is wrapped where there is no terminal
	narrowest = 20   // of a column that is wrapped

	// glue is a space at which no line ends, before a percent sign: a character that means nothing, one column wide,
	// which no visible cell has.
	glue = "\u0378"
)

// gluer keeps numbers on one line with what belongs to them.
var gluer = strings.NewReplacer(" %", glue+"%", " ± ", glue+"±"+glue)

// escapeCells makes cells safe to show, so that their widths are right and no escape sequence is taken for the table's
// own.
func escapeCells(row []any) []any {
	out := make([]any, len(row))
	for i, cell := range row {
		switch cell := cell.(type) {
		case nil, bool, int, int64, uint64, float64:
			out[i] = cell // numbers stay numbers, for alignment
		case Standing:
			out[i] = Standing(program.Middle(program.Visible(string(cell)), maxCell))
		default:
			out[i] = program.Middle(program.Visible(fmt.Sprint(cell)), maxCell)
		}
	}
	return out
}

// column is what the layout knows of a column.
type column struct {
	index       int // in the rows
	name        string
	width, word int // of the widest cell and the longest word, without the header
}

// Print writes the table, without columns whose cells are all empty. One column may be wrapped: it gets the width that
// the others leave (see Wrap). If the table is still wider than the screen, the names of columns are broken between
// their words (folded); if that is not enough, columns are left out one by one, and named below the table.
func (t *Table) Print() {
	t.header = escapeCells(t.header)

	// Without empty columns; but the first one stays, and all of them do in a table without rows.
	empty := func(c column) bool { return len(t.rows) > 0 && c.index > 0 && c.width == 0 }
	columns := slices.DeleteFunc(t.columns(), empty)

	// The column to wrap, by its index in the rows. If it is not there, that is the last one, on a screen with a width.
	wrapped, folded, hidden := t.wrap-1, false, []string(nil)
	screen := t.screen.Width
	kept := slices.ContainsFunc(columns, func(c column) bool { return c.index == wrapped })
	if !kept && len(columns) > 0 && (wrapped >= 0 || screen > 0) {
		wrapped = columns[len(columns)-1].index
	}

	// rest is the width that the other columns leave to the wrapped one. Each column also takes a line and two blanks.
	rest := func() int {
		left := cmp.Or(screen, paper) - 1
		for _, c := range columns {
			left -= 3
			if c.index != wrapped {
				left -= t.columnWidth(c, folded)
			}
		}
		return left
	}

	// Make room until the wrapped column has enough for its longest word, and at least narrowest if it has long text.
	for screen > 0 && len(columns) > 0 {
		i := slices.IndexFunc(columns, func(c column) bool { return c.index == wrapped })
		least := max(columns[i].word, min(t.columnWidth(columns[i], folded), narrowest))
		if rest() >= least {
			break
		}
		if !folded {
			folded = true
			continue
		}
		out := t.leftOut(columns, wrapped)
		if out < 0 {
			break
		}
		hidden = append(hidden, columns[out].name)
		gone := columns[out].index
		columns = slices.Delete(columns, out, out+1)
		if gone == wrapped { // it was named as one of the least; now the last of the others is wrapped
			wrapped = columns[len(columns)-1].index
		}
	}

	t.render(columns, folded, wrapped, max(rest(), narrowest))
	if len(hidden) > 0 {
		t.screen.Printf("left out at %d columns: %s\n", screen, strings.Join(hidden, ", "))
	}
}

// columns measures the table: how wide each column's widest cell and longest word are, in columns of a terminal.
// columnWidth measures the names. A row may be shorter than the header, or longer.
func (t *Table) columns() []column {
	n := len(t.header)
	for _, row := range t.rows {
		n = max(n, len(row))
	}
	columns := make([]column, n)
	for i := range columns {
		c := &columns[i]
		c.index = i
		if i < len(t.header) {
			c.name = fmt.Sprint(t.header[i])
		}
		for _, row := range t.rows {
			if i >= len(row) || row[i] == nil {
				continue
			}
			cell := fmt.Sprint(row[i])
			c.width = max(c.width, text.LongestLineLen(cell))
			for _, word := range strings.Fields(cell) {
				c.word = max(c.word, text.StringWidth(word))
			}
		}
	}
	return columns
}

// parts returns a name with a blank behind every underscore, so that identifiers can be broken there, too.
func parts(name string) string { return strings.ReplaceAll(name, "_", "_ ") }

// columnWidth returns the width of a column that is not wrapped: that of its widest cell or of its name, or if folded
// of the longest word in its name. On a screen with a width it is at most half of that.
func (t *Table) columnWidth(c column, folded bool) int {
	name := 0
	if !folded {
		name = text.StringWidth(c.name)
	} else {
		for _, word := range strings.Fields(parts(c.name)) {
			name = max(name, text.StringWidth(word))
		}
	}
	if width := max(c.width, name); t.screen.Width == 0 || width <= t.screen.Width/2 {
		return width
	}
	return t.screen.Width / 2
}

// leftOut returns the index in columns of the next column to leave out, -1 if there is none. Those that Least names go
// first, then all others from the right. The first column stays, and so does the wrapped one, unless Least names it.
func (t *Table) leftOut(columns []column, wrapped int) int {
	for _, name := range t.least {
		if i := slices.IndexFunc(columns, func(c column) bool { return c.name == name }); i > 0 {
			return i
		}
	}
	for i := len(columns) - 1; i > 0; i-- {
		if columns[i].index != wrapped {
			return i
		}
	}
	return -1
}

// render draws the table with these columns. If folded is true, their names go over several lines. The column whose
// index is wrapped (-1: none) gets the width rest.
func (t *Table) render(columns []column, folded bool, wrapped, rest int) {
	drawn := table.NewWriter()
	drawn.SetStyle(table.StyleLight)
	drawn.Style().Format.Header = text.FormatDefault

	// pick makes a row to draw of the cells of one row, in the order of columns.
	pick := func(row []any, cell func(column, any) any) (out table.Row) {
		for _, c := range columns {
			var value any
			if c.index < len(row) {
				value = row[c.index]
			}
			if value == nil {
				value = ""
			}
			out = append(out, cell(c, value))
		}
		return out
	}
	if len(t.header) > 0 {
		drawn.AppendHeader(pick(t.header, func(c column, _ any) any {
			if folded {
				name := text.WrapSoft(parts(c.name), max(t.columnWidth(c, true), 1))
				return strings.ReplaceAll(name, "_ ", "_")
			}
			return c.name
		}))
	}
	for _, row := range t.rows {
		drawn.AppendRow(pick(row, func(_ column, cell any) any {
			if words, ok := cell.(string); ok {
				return gluer.Replace(words)
			}
			state, ok := cell.(Standing)
			if !ok {
				return cell
			}

			// A state's word has its colour; what follows the colon has none.
			text := gluer.Replace(string(state))
			word, rest, said := strings.Cut(text, ":")
			if said {
				rest = ":" + rest
			}
			if t.screen.Colour {
				word = state.paint(word)
			}
			return word + rest
		}))
	}

	var configs []table.ColumnConfig
	for i, c := range columns {
		width := rest
		if c.index != wrapped {
			width = t.columnWidth(c, folded)
		}
		if c.index == wrapped || t.screen.Width > 0 {
			configs = append(configs, table.ColumnConfig{Number: i + 1, WidthMax: width,
				WidthMaxEnforcer: text.WrapSoft})
		}
	}
	drawn.SetColumnConfigs(configs)

	// Cells have been cleaned, so that the only escape sequences are those of colours. They have to pass unchanged,
	// which the screen itself would not let them.
	if out := strings.ReplaceAll(drawn.Render(), glue, " ") + "\n"; t.screen.Colour {
		fmt.Fprint(t.screen.Raw(), out)
	} else {
		fmt.Fprint(t.screen, out)
	}
}
