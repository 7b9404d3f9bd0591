package page

import (
	"cmp"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

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
	Day       string // of its newest row, whenever it was staged; empty if unknown
	At        time.Time
	State     string // of its record
	Accepted  string // by whom and why
	Rows      float64
	LabelRate float64
	Positive  string // of several classes, the one whose share LabelRate is
	Findings  []nights.Finding
	Drift     map[string]float64 // of each column, its distance to the night before; 0 is the same distribution

	// The newest sweep with a winner that trained on it, else the newest one; without an ID where there is none.
	Sweep IndexSweep
	Value float64
	SE    float64 // of Value; 0 if unknown
	Ratio float64 // predictions / labels on tonight's test rows
}

// datasetPage is a dataset as its template wants it.
type datasetPage struct {
	*DatasetPage
	Newest          []Night // newest first
	Answer          answer
	Rows            int    // of the table
	Rate, Predicted string // names of what is followed of the labels, and of what columns tell
	Dated           bool   // some night's newest row has a day
	Calibrated      bool   // some night's predictions were held against its labels in total
	Quiet           bool   // nothing was found in any night
	Trends, Drifts  []trend

	Columns, Splits, Encodings, Features Listed
	Made                                 []string
}

// Write writes the page of a dataset to w, with the newest night first. The table of nights begins with the day of each
// and has a column for when it was staged, if some night has a day (Dated), or else begins with that time. It has a
// column for calibration if that is known of some night (Calibrated).
func (s *DatasetPage) Write(w io.Writer) error {
	s = cleaned(s)
	p := &datasetPage{DatasetPage: s, Newest: slices.Clone(s.Nights), Rate: "label rate", Predicted: "the label",
		Quiet: true}
	slices.Reverse(p.Newest)
	for i, n := range p.Newest {
		if i == 0 && n.Positive != "" { // several classes: the page's label rate is that of one of them
			p.Rate, p.Predicted = "share of "+n.Positive, n.Positive
		}
		p.Dated = p.Dated || n.Day != ""
		p.Calibrated = p.Calibrated || !math.IsNaN(n.Ratio)
		p.Quiet = p.Quiet && len(n.Findings) == 0
	}
	p.Answer, p.Trends, p.Drifts = p.answer(), p.trends(), p.drifts()
	if s.Table != nil {
		p.Columns, p.Rows = p.holds(), RowsOf(s.Table)
		p.Splits, p.Encodings, p.Features = Splits(s.Table), Encodings(s.Table), Features(s.Table, true)
		p.Made = Made(s.Table)
	}
	return writePage(w, p.Name, "dataset.html", p, newData("still", s.Name))
}

// answer says whether the newest night's table is as usual, unusual (staged, with findings) or something worse.
func (p *datasetPage) answer() answer {
	if len(p.Nights) == 0 {
		return answer{answerOpen, "No night has been recorded"}
	}
	n := &p.Newest[0]
	is := n.Word()
	switch {
	case is == nights.Good:
		is = "as usual"
	case n.State == nights.Good:
		is = "unusual: " + is
	}
	return answer{n.Class(), "The newest table is " + is}
}

// Found lists what staging found unusual in the night's table.
func (n *Night) Found() string { return nights.Found(n.Findings) }

// Word is what came of the night's staging.
func (n *Night) Word() string { return nights.Word(n.State, n.Findings) }

// Class is the CSS class by which Word is painted: red if the table is blocked, green if it is good, amber otherwise.
func (n *Night) Class() string {
	return cmp.Or(map[string]string{nights.Held: answerNone, nights.Good: answerLive}[n.Word()], answerHeld)
}

// NightsHead is what the table of nights begins with.
func (p *datasetPage) NightsHead() heading {
	h := newHeading("nights", "Nights, newest first", "", "night", "version", "staging", "rows#", p.Rate+"#", "sweep",
		"verdict", cmp.Or(p.Metric, "metric")+"#")
	if p.Calibrated {
		h.Names = append(h.Names, "calibration#")
	}
	h.Names = append(h.Names, "why")
	if p.Dated { // otherwise a night's first cell is when it was staged
		h.Names = append(h.Names, "staged")
	}
	return h
}

// trend is a number night by night. Numbers that are not known are NaN.
type trend struct {
	Name              string
	Unit              plot.Unit
	Last, Least, Most float64 // of the newest night, and of all
	Found             int     // nights in which something was found of it
	Spark             string
	values            []float64
}

// follow makes the trend of a number over all nights, oldest first: value returns it for one night, NaN if it is not
// known. Last is that of the newest night, which may be NaN. Least and Most are of the known numbers, NaN without any.
func follow[N any](name string, unit plot.Unit, all []N, value func(*N) float64) trend {
	t := trend{Name: name, Unit: unit, Last: math.NaN(), Least: math.NaN(), Most: math.NaN()}
	for i := range all {
		t.Last = value(&all[i])
		t.values = append(t.values, t.Last)
		switch v := t.Last; {
		case math.IsNaN(t.Least): // nothing known so far; v may be NaN, too
			t.Least, t.Most = v, v
		case !math.IsNaN(v):
			t.Least, t.Most = min(t.Least, v), max(t.Most, v)
		}
	}
	t.Spark = plot.Spark(t.values, 0, 160, 20)
	return t
}

// trends returns the trends of the nights' own numbers: the metric, calibration, the label rate and rows. Those that no
// night knows are left out. drifts has those of the columns.
func (p *datasetPage) trends() []trend {
	all := []trend{
		follow(cmp.Or(p.Metric, "metric")+", own test rows", plot.Plain, p.Nights,
			func(n *Night) float64 { return n.Value }),
		follow("calibration ratio", plot.Plain, p.Nights, func(n *Night) float64 { return n.Ratio }),
		follow(p.Rate, plot.Plain, p.Nights, func(n *Night) float64 { return n.LabelRate }),
		follow("rows", plot.Count, p.Nights, func(n *Night) float64 { return n.Rows })}
	return slices.DeleteFunc(all, func(t trend) bool { return math.IsNaN(t.Most) })
}

// drifts returns the trend of each column's distance to the night before: 0 is the same distribution, 1 is nothing in
// common. All are drawn on one scale, so that they can be compared. The column that moved most in one night is first.
func (p *datasetPage) drifts() (all []trend) {
	// A column may be new or gone in some nights.
	names := map[string]bool{}
	for _, n := range p.Nights {
		for name := range n.Drift {
			names[name] = true
		}
	}
	// The top of the scale. It is at least 0.1: on a smaller scale, the noise of quiet nights would look like drift.
	most := 0.1
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t := follow(name, plot.Plain, p.Nights, func(n *Night) float64 {
			v, ok := n.Drift[name]
			return orNaN(v, ok)
		})
		for _, n := range p.Nights {
			if slices.ContainsFunc(n.Findings, func(f nights.Finding) bool { return f.Column == name }) {
				t.Found++
			}
		}
		most = max(most, t.Most)
		all = append(all, t)
	}
	for i := range all {
		all[i].Spark = plot.Spark(all[i].values, most, 160, 20)
	}
	slices.SortStableFunc(all, func(a, b trend) int { return cmp.Compare(b.Most, a.Most) })
	return all
}

// holds lists what the columns of the newest table hold, a row for each. First are those that predict the label best by
// themselves. Numeric columns show five quantiles, all others and those of few values their most frequent levels.
// Behind each, in parentheses, is the label's rate among the rows with it, where that is known.
func (p *datasetPage) holds() Listed {
	columns := slices.Clone(p.Stats)
	slices.SortStableFunc(columns,
		func(a, b nights.Column) int { return cmp.Or(cmp.Compare(b.AUC, a.AUC), cmp.Compare(a.Name, b.Name)) })
	inParentheses := func(rate float64) string {
		if math.IsNaN(rate) {
			return ""
		}
		return " (" + plot.Plain.Format(rate) + ")"
	}
	aloneHead := "AUC alone"
	if p.Table.Label.Kind == dataset.Regression {
		aloneHead = "large labels told from small" // the share of pairs of rows that the column puts in the right order
	}

	t := Listed{"What the columns hold", []string{"column", "kind", "values", "missing", aloneHead, "holds"}, nil}
	for _, k := range columns {
		alone := ""
		if k.AUC > 0 {
			alone = plot.Plain.Format(math.Round(1000*k.AUC) / 1000)
		}
		var parts []string
		listed := len(k.Levels) > 0 && (k.Kind == nights.Text || k.Distinct <= mostLevels)
		if n := len(k.Quantiles) - 1; n > 0 && !listed {
			// Rates has the label's rate in the range between each quantile and the next. It is shown for the lowest,
			// the middle and the highest range.
			for i, q := range []int{0, n / 4, n / 2, 3 * n / 4, n} {
				text := plot.Plain.Format(k.Quantiles[q])
				q = min(q, n-1) // the last quantile ends the last range
				if i%2 == 0 && q < len(k.Rates) {
					text += inParentheses(k.Rates[q])
				}
				parts = append(parts, text)
			}
		} else {
			for _, l := range k.Levels[:min(len(k.Levels), mostLevels)] {
				parts = append(parts, cmp.Or(l.Text, `""`)+" "+plot.Percent.Format(l.Share)+inParentheses(l.Rate))
			}
		}
		t.Rows = append(t.Rows, []string{k.Name, string(k.Kind), comma(k.Distinct), plot.Percent.Format(k.Missing),
			alone, strings.Join(parts, " · ")})
	}
	return t
}

// mostLevels is how many levels of a column are listed.
const mostLevels = 8
