package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/page/plot"
)

// Listed is a table that pages and terminals have alike.
type Listed struct {
	Title string
	Head  []string
	Rows  [][]string
}

// heading returns the table's heading for a page. Its id is made of the title's first word. Every column but the first
// that holds only numbers gets a # behind its name, by which it sorts and aligns as numbers. An empty cell counts as a
// number.
func (t Listed) heading() heading {
	h := heading{ID: "t-" + strings.ToLower(strings.Fields(t.Title)[0]), Title: t.Title, Names: slices.Clone(t.Head)}
	for i := range h.Names {
		if i > 0 && !slices.ContainsFunc(t.Rows, func(row []string) bool { return !numeric(row[i]) }) {
			h.Names[i] += "#"
		}
	}
	return h
}

// filled returns the table without those columns whose cells are all empty. It changes the rows of t in place.
func (t Listed) filled() Listed {
	for i := len(t.Head) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(t.Rows, func(row []string) bool { return row[i] != "" }) {
			t.Head = slices.Delete(t.Head, i, i+1)
			for k := range t.Rows {
				t.Rows[k] = slices.Delete(t.Rows[k], i, i+1)
			}
		}
	}
	return t
}

func comma[N int | int64](n N) string { return humanize.Comma(int64(n)) }

// RowsOf counts the rows of a dataset in all its splits. A row of which train has several copies counts once.
func RowsOf(m *dataset.Manifest) (n int) {
	for _, s := range m.Splits {
		n += m.TableRows(s.Name)
	}
	return n
}

// Features lists the features of a dataset, a row for each. A column of ids may give many features: statistics, such as
// the number of earlier rows with the same id. If statistics is false, all those of the same ids share one row.
func Features(m *dataset.Manifest, statistics bool) Listed {
	about := map[string]*dataset.EncodingInfo{}
	for i := range m.About.Encodings {
		about[m.About.Encodings[i].Name] = &m.About.Encodings[i]
	}
	t := Listed{"Features", []string{"feature", "kind", "because", "bins", "missing",
		"min / median / max, or most frequent", "made of"}, nil}
	// For the statistics of the same ids: the index of their row in t.Rows, and the names of the statistics.
	rows, kinds := map[string]int{}, map[string][]string{}
	for i := range m.Features {
		f := &m.Features[i]
		of := ""
		if f.From != nil { // it is computed from one or several columns
			var names []string
			for _, part := range f.From.Of {
				names = append(names, part.Column)
			}
			ids := strings.Join(names, "+")
			if f.From.Table >= 0 && f.From.Table < len(m.Tables) { // a statistic: ids as in the names of all of theirs
				ids = m.Tables[f.From.Table].Name()
			}
			of = string(f.From.What) + " of " + ids
			if f.From.Table >= 0 && !statistics {
				k, known := rows[ids]
				if !known {
					k, rows[ids] = len(t.Rows), len(t.Rows)
					t.Rows = append(t.Rows, []string{ids, "id", string(f.Why), "", "", "", ""})
				}
				if what := string(f.From.What); !slices.Contains(kinds[ids], what) {
					kinds[ids] = append(kinds[ids], what)
				}
				t.Rows[k][6] = english.WordSeries(kinds[ids], "and") + " of it"
				continue
			}
		}

		missing := plot.Percent.Format(min(1, float64(f.Missing)/float64(max(RowsOf(m), 1))))
		t.Rows = append(t.Rows, []string{f.Name, string(f.Kind), string(f.Why), fmt.Sprint(f.Bins), missing,
			values(f, about[f.Name]), of})
	}
	return t.filled() // without columns that are empty in all rows
}

// values describes the values of a feature. Of numbers and times it is "min / median / max", or "" if that is not
// known. Of categories it names the three most frequent ones, with their shares of the rows that have a value, and how
// many levels there are. about is the record of the feature's encoding; without it (nil), neither shares nor the number
// of levels are known.
func values(f *dataset.Feature, about *dataset.EncodingInfo) string {
	if f.Kind != dataset.Categorical {
		if f.Range == nil {
			return ""
		}
		say := plot.Plain.Format
		if f.Kind == dataset.Temporal {
			say = func(x float64) string { return time.Unix(int64(x), 0).UTC().Format("2006-01-02 15:04") }
		}
		return say(f.Range.Min) + " / " + say(f.Range.Median) + " / " + say(f.Range.Max)
	}

	// The counts cover only the categories with a bin of their own. Which share of the rows has other categories,
	// lumped into one bin, is in the encoding's record; what is left is divided among the counted ones.
	var kept int64
	for _, c := range f.Counts {
		kept += c
	}
	var top []string
	for i, c := range f.Categories[:min(3, len(f.Categories))] {
		text := plot.Clip(c, 24)
		if about != nil && about.Lumped < 1 {
			text += " " + plot.Percent.Format(float64(f.Counts[i])/float64(max(kept, 1))*(1-about.Lumped))
		}
		top = append(top, text)
	}
	text := strings.Join(top, ", ")
	switch {
	case about == nil:
	case about.Levels > len(f.Categories):
		text += fmt.Sprintf("; %s of %s levels, all others together %s", comma(len(f.Categories)),
			comma(about.Levels), plot.Percent.Format(about.Lumped))
	default:
		text += fmt.Sprintf("; %s %s", comma(about.Levels), english.PluralWord(about.Levels, "level", ""))
	}
	return text
}

// Encodings lists what staging made of each column of ids, and of columns that are combined into one id: how many
// levels there are and how many are kept, which features were made, and by how much they reduce the loss ("worth").
func Encodings(m *dataset.Manifest) Listed {
	t := Listed{"Encodings", []string{"ids", "levels", "kept", "lumped", "made of them", "worth", "because"}, nil}
	for _, e := range m.About.Encodings {
		kept, lumped, worth := "", "", ""
		if e.Kept > 0 {
			kept, lumped = comma(e.Kept), plot.Percent.Format(e.Lumped)
		}
		if e.Gain != nil {
			worth = plot.Percent.Format(*e.Gain)
		}
		// "user:count" of the column user is listed as "count"; a feature with the column's own name is its categories.
		var made []string
		for _, name := range e.Made {
			made = append(made, cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, e.Name), ":"), "categories"))
		}
		t.Rows = append(t.Rows, []string{e.Name, comma(e.Levels), kept, lumped,
			cmp.Or(strings.Join(made, ", "), "nothing"), worth, e.Why})
	}
	return t.filled()
}

// Splits lists the splits of a dataset with their rows and their labels: the share of positive ones, a number of
// classes, or a mean. If some negative rows were left out (thinned), the share before that is told, too.
func Splits(m *dataset.Manifest) Listed {
	t := Listed{"Splits", []string{"split", "rows", "label"}, nil}
	for _, s := range m.Splits {
		label := "mean " + plot.Plain.Format(s.LabelMean)
		if m.Label.Kind == dataset.Binary {
			label = plot.Percent.Format(s.LabelMean) + " positive"
		}
		if n := len(m.Label.Classes); n > 0 {
			label = fmt.Sprintf("%d classes", n)
		}
		if m.Negatives > 0 { // the share of the negative rows that are kept, so dividing restores all of them
			label += fmt.Sprintf(", %s before negative rows were left out",
				plot.Percent.Format(s.LabelMean/(s.LabelMean+(1-s.LabelMean)/m.Negatives)))
		}
		rows := comma(m.TableRows(s.Name))
		if s.Name == dataset.TrainSplit && m.Copies() > 1 {
			rows += fmt.Sprintf(", in %d orders", m.Copies())
		}
		t.Rows = append(t.Rows, []string{s.Name, rows, label})
	}
	return t
}

// Made tells in a few sentences how a dataset was made: how rows were split, which rows were left out and why, and what
// the statistics of ids are computed from.
func Made(m *dataset.Manifest) (notes []string) {
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	by := map[string]string{"time": "by time, of ", "hash": "by a hash of ", "column": "by the column ",
		"random": "at random"}[m.Split.By]
	add("split: %s%s", cmp.Or(by, m.Split.By), m.Split.Column)

	// Rows that were left out.
	if m.LeftOut > 0 {
		var texts []string // what was read as a missing label, so that a reader notices if a class was lost to it
		for _, s := range slices.Sorted(maps.Keys(m.About.LeftOut)) {
			texts = append(texts, fmt.Sprintf("%q %s", plot.Clip(s, 24), comma(m.About.LeftOut[s])))
		}
		of := ""
		if len(texts) > 0 {
			of = " (" + strings.Join(texts, ", ") + ")"
		}
		add("left out: %s rows without a label in %s%s", comma(m.LeftOut), m.Label.Column, of)
	}
	if u := m.About.Unripe; u != nil {
		matures, _ := time.ParseDuration(u.Matures) // written by Duration.String, so it can be parsed
		add("left out: %s rows after %s with labels that are not final (%s matures in %s)", comma(u.Rows),
			u.Until.Format(time.RFC3339), m.Label.Column, plot.Seconds.Format(matures.Seconds()))
	}
	if m.Negatives > 0 {
		// m.Negatives is the share of them that was kept.
		add("left out: %s of the negative rows; in metrics each remaining one counts %s times, and predictions are "+
			"right for all rows", comma(m.Thinned), plot.Plain.Format(1/m.Negatives))
	}

	// Statistics of ids.
	statistics, levels, ranges := 0, 0, false
	for i := range m.Features {
		if f := &m.Features[i]; f.IsDerived() && f.From.Table >= 0 { // -1: a value of a calendar, no statistic
			statistics++
		}
	}
	for i := range m.Tables {
		levels += m.Tables[i].Levels
		ranges = ranges || slices.ContainsFunc(m.Tables[i].Of, func(p dataset.Part) bool { return p.Bounds != nil })
	}
	if statistics > 0 {
		add("%s statistics of %s levels; worth is the reduction of the loss on sampled rows of train that they had "+
			"not seen", comma(statistics), comma(levels))
	}
	if ranges {
		add("+ joins columns in a name, and ~ is behind one whose numbers are taken in ranges")
	}

	// In train, the statistics of a row are computed from other rows only, or they would give the row's label away.
	if o := m.Order; o != nil {
		text := "in the order of " + o.Column
		if o.By != dataset.OrderTime {
			text = fmt.Sprintf("in %d random orders with one copy of train each", o.Copies)
		}
		if o.By == dataset.OrderGroup {
			text += ", and none of its own " + m.Group
		}
		if o.DelaySeconds > 0 {
			text += fmt.Sprintf(", at least %s older", plot.Seconds.Format(o.DelaySeconds))
		}
		if d := m.About.Delay; d != nil {
			text += fmt.Sprintf(", as future rows will: on the latest rows of train that reduced the loss by %s; "+
				"`encodings: {order: {delay: 0s}}` lets a row see all before it", plot.Percent.Format(d.Gain))
		}
		add("a row of train sees only the rows before it, %s", text)
	}
	return notes
}

// mostMatter is how many parameters stand beside the score in a leaderboard, and have a chart of their own.
const mostMatter = 4

// Leaderboard lists the best trials, at most so many, in one line each with the objectives and the parameters that
// matter most. If most is 0, it lists all trials with all columns of the page. Costs are never listed.
func (s *Sweep) Leaderboard(most int) Listed {
	p := s.order()

	brief := []string{"rank", "trial", "state", "score", "se", "trees", "seconds", "front", "from"}
	for g := range p.Goals {
		brief = append(brief, goalKey(g))
	}
	for _, i := range p.byWeight()[:min(mostMatter, len(p.Params))] {
		brief = append(brief, paramKey(i))
	}
	columns := slices.DeleteFunc(slices.Clone(p.Board), func(c boardColumn) bool {
		return c.Key == "cost" || most > 0 && !slices.Contains(brief, c.Key)
	})
	t := Listed{Title: "Trials"}
	for _, c := range columns {
		t.Head = append(t.Head, c.Name)
	}
	for _, trial := range p.Ranked[:min(len(p.Ranked), cmp.Or(most, len(p.Ranked)))] {
		row := make([]string, len(columns))
		for k, c := range columns {
			row[k] = c.Cell(trial)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Validated lists a sweep's cross-validated configurations, best first. In a sweep without folds there are none, and
// the list has no rows.
func (s *Sweep) Validated() Listed {
	t := Listed{"Configurations, best first", []string{"rank", "configuration", "state", s.Metric + " (mean ± SE)",
		"folds", "trees", "trials"}, nil}
	for _, q := range s.Params {
		t.Head = append(t.Head, q.Name)
	}
	t.Head = append(t.Head, "why")
	for _, c := range s.Configurations {
		rank := strings.TrimPrefix(strconv.Itoa(c.Rank), "0")                             // empty without one
		trials := strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Trials), " ", ", "), "[]") // "3, 4, 5"
		row := []string{rank, strconv.Itoa(c.Configuration), c.State, c.ScoreText(),
			fmt.Sprintf("%d of %d", c.Folds, c.Of), strconv.Itoa(c.Trees), trials}
		for i := range s.Params {
			row = append(row, formatCell(plot.Plain, s.Params[i].value(c.Values[i])))
		}
		t.Rows = append(t.Rows, append(row, c.Reason))
	}
	return t
}
