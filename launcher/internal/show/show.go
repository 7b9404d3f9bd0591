// Package show writes what people read of datasets, sweeps, bills and models: tables as wide as their terminal, and
// the sentences around them. It reads nothing and decides nothing; programs read the --json of the same command.
package show

import (
	"strings"
	"time"

	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/program/tables"
	"coppice/internal/sweep"
)

// Printer writes for a person.
type Printer struct {
	tables.Screen
	Home bool // sweeps run in a local cloud, where nothing is paid for
}

// Pairs writes labels and values, without those whose value is empty.
func (w Printer) Pairs(rows ...[2]string) {
	t := w.Table().Wrap(2)
	for _, r := range rows {
		if r[1] != "" {
			t.Row(r[0], tables.Standing(r[1]))
		}
	}
	t.Print()
}

// Number formats x as pages do.
func Number(x float64) string { return plot.Plain.Format(x) }

// clock is a time in UTC, in a table or before a text that says so.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// measured formats metrics as "NAME VALUE": those named in first come first, in that order, and the others by name. The
// metric first[0], if it is there, has the standard error se; 0 if that is unknown. first has at least one name.
func measured(m map[string]float64, se float64, first ...string) (parts []string) {
	for _, name := range page.MetricNames(m, first...) {
		text := sweep.Score(m[name], 0)
		if name == first[0] {
			text = sweep.Score(m[name], se)
		}
		parts = append(parts, name+" "+text)
	}
	return parts
}

// FirstLine returns a text up to its first line break.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Budget formats a limit in USD.
func Budget(usd float64) string {
	if usd == 0 {
		return "no budget"
	}
	return "a budget of " + plot.USD.Format(usd)
}
