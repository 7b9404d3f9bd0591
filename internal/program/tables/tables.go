// Package tables formats the tables that the programs print, and is the only place that does: cells may contain text
// from untrusted sources, and have to be made visible before they are measured.
package tables

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"coppice/internal/program"
)

// MaxCell is how many characters of a cell are shown; three dots replace the middle of a longer one.
const MaxCell = 1000

// New returns a table that is rendered onto out.
func New(out program.Output, header ...any) table.Writer {
	t := shown{table.NewWriter()}
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.SetOutputMirror(out)
	if len(header) > 0 {
		t.AppendHeader(table.Row(header))
	}
	return t
}

// shown is a table whose cells are made visible first, so that their widths are right and no escape sequence is taken
// for the table's own.
type shown struct{ table.Writer }

func (s shown) AppendHeader(row table.Row, config ...table.RowConfig) {
	s.Writer.AppendHeader(visible(row), config...)
}

func (s shown) AppendFooter(row table.Row, config ...table.RowConfig) {
	s.Writer.AppendFooter(visible(row), config...)
}

func (s shown) AppendRow(row table.Row, config ...table.RowConfig) {
	s.Writer.AppendRow(visible(row), config...)
}

func (s shown) AppendRows(rows []table.Row, config ...table.RowConfig) {
	for _, row := range rows {
		s.AppendRow(row, config...)
	}
}

func visible(row table.Row) table.Row {
	out := make(table.Row, len(row))
	for i, cell := range row {
		switch cell.(type) {
		case nil, bool, int, int64, uint64, float64:
			out[i] = cell // numbers stay numbers, for alignment
		default:
			out[i] = program.Middle(program.Visible(fmt.Sprint(cell)), MaxCell)
		}
	}
	return out
}
