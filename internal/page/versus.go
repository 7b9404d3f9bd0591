package page

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"coppice/internal/page/plot"
)

// Versus is two sweeps beside each other.
type Versus struct {
	A, B   *Sweep
	Others []IndexSweep // that A can be put beside, too, newest first; none in a file
}

// versusPage is two sweeps as its template wants them.
type versusPage struct {
	*Versus
	Answer  answer
	Compare []Compared
	Best    *plot.Chart // the best so far of both; nil where they are measured differently

	data *data
}

// Write writes the page of two sweeps.
func (v *Versus) Write(w io.Writer) error {
	p := &versusPage{Versus: cleaned(v), data: newData("still", v.A.ID+"-"+v.B.ID)}
	a, b := v.A.lay(), v.B.lay()
	for _, s := range []struct {
		name string
		of   func(*sweepPage) string
	}{
		{"outcome", (*sweepPage).StateWord},
		{"dataset", func(s *sweepPage) string { return s.Dataset }},
		{"model", func(s *sweepPage) string { return s.Model }},
		{"objective", func(s *sweepPage) string { return s.Sweep.Objective }},
		{"metric", func(s *sweepPage) string { return s.Metric + ", " + s.better() }},
		{"planned", func(s *sweepPage) string { return s.Planned.UTC().Format("2006-01-02 15:04 UTC") }},
	} {
		p.Compare = append(p.Compare, Compared{Name: s.name, A: s.of(a), B: s.of(b)})
	}
	p.Compare = append(p.Compare, sideBySide(a.Answer.Facts, b.Answer.Facts, "–")...)
	p.Compare = append(p.Compare, sideBySide(a.settings(), b.settings(), "not set")...)
	differingFirst(p.Compare)
	differ := 0
	for _, line := range p.Compare {
		differ += 1 - line.same()
	}
	p.Answer = versusAnswer(a, b)
	p.Answer.Text += fmt.Sprintf(" %d of %d lines below differ.", differ, len(p.Compare))
	if a.Metric == b.Metric {
		p.Best = p.best(a, b)
	}
	return write(w, p.A.ID+" beside "+p.B.ID, "versus.html", p, p.data)
}

// settings are the parameters of the winner or, without one, those that were searched, as the best trial had them.
func (p *sweepPage) settings() []Pair {
	if w := p.Winner; w != nil && len(w.Params) > 0 {
		return w.Params
	}
	var out []Pair
	if s := p.scored(); len(s) > 0 {
		for i := range p.Params {
			out = append(out, Pair{p.Params[i].Name, cell(plot.Plain, p.Params[i].value(s[0].Values[i]))})
		}
	}
	return out
}

// sideBySide puts pairs of one name beside each other; without is what stands for one that the other lacks.
func sideBySide(a, b []Pair, without string) []Compared {
	var out []Compared
	for _, q := range a {
		out = append(out, Compared{Name: q.Name, A: q.Text, B: without})
	}
	for _, q := range b {
		if i := slices.IndexFunc(out, func(c Compared) bool { return c.Name == q.Name }); i >= 0 {
			out[i].B = q.Text
		} else {
			out = append(out, Compared{Name: q.Name, A: without, B: q.Text})
		}
	}
	return out
}

// versusAnswer says whose best trial is better, if that can be said: on other rows or by another metric it cannot.
func versusAnswer(a, b *sweepPage) answer {
	v := answer{Class: answerOpen, Title: "Their scores cannot be compared"}
	switch {
	case a.Metric != b.Metric:
		v.Text = fmt.Sprintf("One is measured by %s, the other by %s.", a.Metric, b.Metric)
		return v
	case a.Dataset != b.Dataset:
		v.Text = fmt.Sprintf("Each is scored on the valid rows of its own table, %s and %s; to compare two versions "+
			"on the same rows: launcher registry compare.", a.Dataset, b.Dataset)
		return v
	case len(a.scored()) == 0 || len(b.scored()) == 0:
		v.Text = "Not both have a trial with a score."
		return v
	}
	x, y := a.scored()[0], b.scored()[0]
	first, second, better := a, b, cmp.Compare(a.loss(x), a.loss(y))
	if better > 0 {
		first, second, x, y = b, a, y, x
	}
	v.Title = fmt.Sprintf("%s has the better best trial, by %s %s", first.ID,
		plot.Plain.Format(math.Abs(x.Score-y.Score)), a.Metric)
	if better == 0 {
		v.Title = "Their best trials are equally good"
		v.Text = fmt.Sprintf("Both have %s %s on the same valid rows.", a.Metric, plot.Plain.Format(x.Score))
		return v
	}
	v.Text = fmt.Sprintf("On the same valid rows its trial %d has %s %s, trial %d of %s %s.", x.Number, a.Metric,
		plot.Plain.Format(x.Score), y.Number, second.ID, plot.Plain.Format(y.Score)) +
		" It may be chance: a sweep keeps scores, not predictions, so there is no interval. launcher registry " +
		"compare gives one of two registered versions."
	return v
}

// best draws the best score so far of both sweeps, over the trials as they ended.
func (p *versusPage) best(sweeps ...*sweepPage) *plot.Chart {
	c := plot.Lines{Chart: plot.Chart{ID: "best", Title: "Best so far", W: plot.Full, H: 260},
		X: plot.Axis{Label: "trials ended", Whole: true}, Y: plot.Axis{Label: sweeps[0].Metric}}
	type point struct {
		sweep       string
		ended       int
		score, best float64
	}
	var points []point
	var said []string
	for i, s := range sweeps {
		ended := slices.DeleteFunc(slices.Clone(s.scored()), func(t *TrialRow) bool { return t.Ended.IsZero() })
		slices.SortStableFunc(ended, func(a, b *TrialRow) int {
			return cmp.Or(a.known().Compare(b.known()), cmp.Compare(a.Number, b.Number))
		})
		class := fmt.Sprintf("rel n%d", i)
		l, at := plot.Line{Trial: plot.None, Class: class, Peak: -1}, 0
		for n, t := range ended {
			if n == 0 || s.loss(t) < s.loss(ended[at]) {
				if n > 0 { // a step
					l.X, l.Y = append(l.X, float64(n+1)), append(l.Y, ended[at].Score)
				}
				at = n
				l.X, l.Y = append(l.X, float64(n+1)), append(l.Y, t.Score)
			}
			points = append(points, point{s.ID, n + 1, t.Score, ended[at].Score})
		}
		if len(ended) > 0 {
			l.X, l.Y = append(l.X, float64(len(ended))), append(l.Y, ended[at].Score)
			said = append(said, fmt.Sprintf("%s reached its best after %d of %d", s.ID, at+1, len(ended)))
		}
		c.Lines, c.Keys = append(c.Lines, l), append(c.Keys, plot.Key{Class: class, Label: s.ID})
	}
	c.Summary = sentence(capital(strings.Join(append(said, "only trials with a score count"), "; ")))
	tabulate(p.data, c.ID, c.Title, points, []field[point]{
		{"sweep", plot.Plain, func(q point) any { return q.sweep }},
		{"trials ended", plot.Plain, func(q point) any { return q.ended }},
		{"score", plot.Plain, func(q point) any { return q.score }},
		{"best so far", plot.Plain, func(q point) any { return q.best }},
	})
	return c.Draw()
}

// Beside are the sweeps of an index that one can be put beside: the others, those of the same model first.
func (i *Index) Beside(id, model string) []IndexSweep {
	out := slices.DeleteFunc(slices.Clone(i.Sweeps), func(s IndexSweep) bool {
		return s.ID == id || s.State == "unreadable"
	})
	other := func(s IndexSweep) int { return map[bool]int{false: 1}[s.Model == model] }
	slices.SortStableFunc(out, func(a, b IndexSweep) int { return cmp.Compare(other(a), other(b)) })
	return out
}
