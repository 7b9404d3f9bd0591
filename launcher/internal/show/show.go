// Package show writes what people read of datasets, sweeps, bills and models: tables as wide as their terminal, and
// the sentences around them. It reads nothing and decides nothing; what a program reads instead is the --json of the
// same command.
package show

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
			t.Row(r[0], r[1])
		}
	}
	t.Print()
}

// Percent formats a share.
func Percent(x float64) string { return plot.Percent.Format(x) }

// Number formats x as pages do, with up to five significant digits, or all of a whole number.
func Number(x float64) string { return plot.Plain.Format(x) }

func interval(low, high float64) string { return Number(low) + " to " + Number(high) }

// Metrics formats "name value" pairs, sorted by name, with those in first in front.
func Metrics(m map[string]float64, first ...string) string {
	var parts []string
	names := slices.Sorted(maps.Keys(m))
	for _, name := range append(first, slices.DeleteFunc(names, func(n string) bool {
		return slices.Contains(first, n)
	})...) {
		if v, ok := m[name]; ok {
			parts = append(parts, name+" "+Number(v))
		}
	}
	return strings.Join(parts, ", ")
}

// Settings formats the named parameters, as far as they are known.
func Settings(params map[string]any, names []string) string {
	var parts []string
	for _, n := range names {
		switch v := params[n].(type) {
		case nil:
		case float64:
			parts = append(parts, n+"="+Number(v))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", n, v))
		}
	}
	return strings.Join(parts, " ")
}

// FirstLine returns a text up to its first line break.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Hours formats an estimate in hours: 3 min (2 to 7).
func Hours(r sweep.Range) string {
	return span(sweep.Range{Low: 3600 * r.Low, Expected: 3600 * r.Expected, High: 3600 * r.High}, about)
}

// about is a duration in whole minutes, or a few digits of what is shorter or longer.
func about(s float64) string {
	switch {
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.0f min", s/60)
	}
	return fmt.Sprintf("%.1f h", s/3600)
}

// span formats an estimate with its range; a unit that all three have stands once.
func span(r sweep.Range, say func(float64) string) string {
	text, low, high := say(r.Expected), say(r.Low), say(r.High)
	if _, unit, found := strings.Cut(text, " "); found && strings.HasSuffix(low, " "+unit) &&
		strings.HasSuffix(high, " "+unit) {
		low, high = strings.TrimSuffix(low, " "+unit), strings.TrimSuffix(high, " "+unit)
	}
	if low == high {
		return text
	}
	return fmt.Sprintf("%s (%s to %s)", text, strings.TrimPrefix(low, "$"), strings.TrimPrefix(high, "$"))
}

// Money formats an estimate in USD.
func Money(r *sweep.Range) string {
	if r == nil {
		return "no price"
	}
	return span(*r, plot.USD.Format)
}

// Budget formats a limit in USD.
func Budget(usd float64) string {
	if usd == 0 {
		return "no budget"
	}
	return "a budget of " + plot.USD.Format(usd)
}

func seconds(s float64) string { return plot.Seconds.Format(s) }
