package page

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/nights"
	"coppice/internal/page/plot"
)

// DatasetPage is what a page about a dataset shows: its nights, and the table of the newest one.
type DatasetPage struct {
	Name   string
	Pinned bool              // it is of a version that was asked for, and of the nights up to that
	Metric string            // of Night.Value: the newest sweep's
	Nights []Night           // oldest first
	More   int               // nights that are not shown
	Table  *dataset.Manifest // nil where it cannot be read
	Stats  []nights.Column   // of the table's columns, from the night's record; none where there is none
	Notes  []string
}

// Night is one version of a dataset and what became of it. Numbers that are not known are NaN.
type Night struct {
	Version   string
	At        time.Time
	State     string // good, accepted, blocked
	Accepted  string // by whom and why
	Rows      float64
	LabelRate float64
	Positive  string // of several classes, the one whose share LabelRate is
	Findings  []nights.Finding
	Drift     map[string]float64 // of each column, its distance to the night before; 0 is the same distribution

	// Of the newest sweep with a winner that trained on it, else of the newest one; empty where there is none.
	Sweep, Verdict, Reason, Model string
	Number                        int // of the model's version
	Value                         float64
	Ratio                         float64 // predictions / labels on tonight's test rows
	Caution                       bool    // that is off beyond chance, within the limit
}

// datasetPage is a dataset with its drawings.
type datasetPage struct {
	*DatasetPage
	Newest []Night // newest first
	Answer answer
	Trends []trend
	Drifts []trend // of the columns, which moved most first

	Columns, Splits, Encodings, Features Listed
	Made                                 []string

	data *data
}

// Write writes the page of a dataset.
func (s *DatasetPage) Write(w io.Writer) error {
	p := s.lay()
	return write(w, p.Name, "dataset.html", p, p.data)
}

func (s *DatasetPage) lay() *datasetPage {
	s = cleaned(s)
	p := &datasetPage{DatasetPage: s, data: newData("still", s.Name), Newest: slices.Clone(s.Nights)}
	slices.Reverse(p.Newest)
	p.Answer = p.answer()
	p.columns()
	p.Trends, p.Drifts = p.trends(), p.drifts()
	if s.Table != nil {
		p.Columns = p.holds()
		p.Splits, p.Encodings, p.Features = Splits(s.Table), Encodings(s.Table), Features(s.Table, true)
		p.Made = Made(s.Table)
	}
	return p
}

// answer says how the newest night went, with the numbers at the top.
func (p *datasetPage) answer() answer {
	v := answer{Class: answerOpen, Title: "No night has been recorded"}
	v.add("nights", strconv.Itoa(len(p.Nights)+p.More))
	if t := p.Table; t != nil {
		v.add("rows", comma(RowsOf(t)))
		v.add("features", strconv.Itoa(len(t.Features)))
		v.add("size", plot.Bytes.Format(float64(t.Bytes())))
		if train, ok := t.FindSplit(dataset.TrainSplit); ok {
			v.add(labelIn(t, &train))
		}
	}
	n := len(p.Nights)
	if n == 0 {
		return v
	}
	promoted := 0
	for _, night := range p.Nights {
		if night.Verdict == "promoted" {
			promoted++
		}
	}
	v.add("made a champion", fmt.Sprintf("%d of the last %s", promoted, english.Plural(n, "night", "")))

	last := p.Nights[n-1]
	v.Class, v.Title = answerLive, fmt.Sprintf("The newest night is %s", last.State)
	if last.State == contractBlocked {
		v.Class = answerNone
		v.Command = "launcher datasets show " + p.Name + "@" + last.Version
	}
	if why := nights.Reason(last.Findings); why != "" {
		v.Text += " Found: " + sentence(why)
	}
	if last.State == contractBlocked {
		v.Text += " " + leftBlocked
	}
	if v.Text = strings.TrimSpace(v.Text); last.Sweep != "" {
		v.Text = fmt.Sprintf("Its sweep %s: %s.", last.Sweep, cmp.Or(words(last.Verdict), "not ended"))
		if last.Reason != "" {
			v.Text += " " + sentence(capital(last.Reason))
		}
	}
	return v
}

// columns are what the table of nights is made of.
func (p *datasetPage) columns() {
	d, n := p.data, p.Newest
	add(d, "at", "staged", plot.Plain, n, func(n Night) any { return n.At })
	add(d, "version", "version", plot.Plain, n, func(n Night) any { return n.Version })
	add(d, "state", "night", plot.Plain, n, func(n Night) any { return n.State })
	add(d, "verdict", "verdict", plot.Plain, n, func(n Night) any { return words(n.Verdict) })
	add(d, "sweep", "sweep", plot.Plain, n, func(n Night) any { return n.Sweep })
	keys := []string{"at", "version", "state", "verdict", "sweep"}
	for _, t := range trends {
		if t.id == "ratio" && !p.Calibrated() {
			continue
		}
		add(d, t.id, p.titleOf(t.id, t.title), t.unit, n, func(n Night) any { return t.of(&n) })
		keys = append(keys, t.id)
	}
	d.table("nights", "Nights", keys...)
}

// trends are what is followed from night to night, beside the columns.
var trends = []struct {
	id, title string
	unit      plot.Unit
	of        func(*Night) float64
}{
	{"value", "", plot.Plain, func(n *Night) float64 { return n.Value }},
	{"ratio", "calibration ratio", plot.Plain, func(n *Night) float64 { return n.Ratio }},
	{"label", "label rate", plot.Plain, func(n *Night) float64 { return n.LabelRate }},
	{"rows", "rows", plot.Count, func(n *Night) float64 { return n.Rows }},
}

// Class is how a night is painted.
func (n *Night) Class() string {
	switch {
	case n.State == contractBlocked:
		return "s2x"
	case n.Verdict == "promoted" && !n.Caution:
		return "s8"
	case n.Verdict == "":
		return "s4"
	}
	return "s5"
}

const contractBlocked = "blocked"

// Quiet says that nothing was found in any night.
func (p *datasetPage) Quiet() bool {
	return !slices.ContainsFunc(p.Nights, func(n Night) bool { return len(n.Findings) > 0 })
}

// holds says what the columns hold: those that tell most of the label first.
func (p *datasetPage) holds() Listed {
	columns := slices.Clone(p.Stats)
	slices.SortStableFunc(columns,
		func(a, b nights.Column) int { return cmp.Or(cmp.Compare(b.AUC, a.AUC), cmp.Compare(a.Name, b.Name)) })
	rate := func(rate float64) string {
		if math.IsNaN(rate) {
			return ""
		}
		return " (" + plot.Plain.Format(rate) + ")"
	}
	t := Listed{"What the columns hold", []string{"column", "kind", "values", "missing", "AUC alone", "holds"}, nil}
	for _, k := range columns {
		alone := ""
		if k.AUC > 0 {
			alone = plot.Plain.Format(math.Round(1000*k.AUC) / 1000)
		}
		var parts []string
		listed := len(k.Levels) > 0 && (k.Kind == nights.Text || k.Distinct <= mostLevels)
		if n := len(k.Quantiles) - 1; n > 0 && !listed {
			for i, q := range []int{0, n / 4, n / 2, 3 * n / 4, n} {
				text := plot.Plain.Format(k.Quantiles[q])
				if q = min(q, n-1); i%2 == 0 && q < len(k.Rates) { // of the range that begins there
					text += rate(k.Rates[q])
				}
				parts = append(parts, text)
			}
		} else {
			for _, l := range k.Levels[:min(len(k.Levels), mostLevels)] {
				parts = append(parts, cmp.Or(l.Text, `""`)+" "+plot.Percent.Format(l.Share)+rate(l.Rate))
			}
		}
		t.Rows = append(t.Rows, []string{k.Name, string(k.Kind), comma(k.Distinct), plot.Percent.Format(k.Missing),
			alone, strings.Join(parts, " · ")})
	}
	return t
}

// mostLevels is how many levels of a column are listed.
const mostLevels = 8
