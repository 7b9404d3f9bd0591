package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/metric"
	"coppice/internal/page/plot"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

type weight = search.Weight

// endings are how an attempt is painted, and what that means.
var endings = []struct{ end, class, label string }{
	{"finished", "a0", "finished its trial"},
	{"running", "a1", "running"},
	{"released", "a2", "preempted, trial handed back"},
	{"paused", "a5", "paused by the search"},
	{"lost", "a3", "lost, trial taken over"},
	{"silent", "a4", "unresponsive"},
}

// gantt draws which task worked on which trial when.
func (p *sweepPage) gantt() *plot.Chart {
	g := plot.Gantt{Chart: plot.Chart{ID: "gantt", Title: "Machines and slots", W: plot.Full, H: 100},
		X: plot.Axis{Label: "time since start", Unit: plot.Seconds}}
	attempts := slices.Clone(p.Attempts)
	slices.SortStableFunc(attempts, func(a, b Attempt) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Task, b.Task),
			a.From.Compare(b.From), cmp.Compare(a.Trial, b.Trial))
	})

	counts := map[string]int{}
	hosts := map[string]bool{}
	last := map[int]int{} // the span of each trial's claim before
	type key struct{ trial, claim int }
	spans := map[key]int{}
	for i, a := range attempts {
		if i == 0 || a.Job != attempts[i-1].Job || a.Host != attempts[i-1].Host || a.Task != attempts[i-1].Task {
			group := "machine " + a.Host
			if a.Job > 0 {
				group += fmt.Sprintf(" (job %d)", a.Job)
			}
			g.Rows = append(g.Rows, plot.GanttRow{Group: group, Label: "task " + strconv.Itoa(a.Task)})
			hosts[a.Host] = true
		}
		s := plot.Span{Trial: a.Trial, Row: len(g.Rows) - 1, From: a.From.Sub(p.Planned).Seconds(),
			To: a.To.Sub(p.Planned).Seconds(), Class: "at a4", Text: "#" + strconv.Itoa(a.Trial)}
		for _, e := range endings {
			if e.end == a.End {
				s.Class = "at " + e.class
			}
		}
		if a.Resumed {
			s.Start = "resumed"
		}
		if a.Saved {
			s.Stop = "saved"
		}
		counts[a.End]++
		spans[key{a.Trial, a.Claim}] = len(g.Spans)
		g.Spans = append(g.Spans, s)
	}

	// A trial that was taken over leads from one attempt to the next.
	byClaim := slices.Clone(attempts)
	slices.SortStableFunc(byClaim,
		func(a, b Attempt) int { return cmp.Or(cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Claim, b.Claim)) })
	for _, a := range byClaim {
		here := spans[key{a.Trial, a.Claim}]
		if before, ok := last[a.Trial]; ok {
			g.Arrows = append(g.Arrows, plot.Arrow{Trial: a.Trial, From: before, To: here})
		}
		last[a.Trial] = here
	}

	g.Summary = fmt.Sprintf("%s on %s", english.Plural(len(attempts), "attempt", ""),
		english.Plural(len(hosts), "machine", ""))
	for _, of := range []struct{ end, words string }{{"released", "preempted"}, {"paused", "paused by the search"},
		{"lost", "lost and taken over"}, {"silent", "unresponsive"}} {
		if n := counts[of.end]; n > 0 {
			g.Summary += fmt.Sprintf(", %d %s", n, of.words)
		}
	}
	g.Summary += ". A dashed line leads to the attempt that took over a trial. A dot at the end of an attempt is a " +
		"checkpoint that it saved, at the beginning one that it resumed from."
	for _, e := range endings {
		if counts[e.end] > 0 {
			g.Keys = append(g.Keys, plot.Key{Class: "at key " + e.class, Label: e.label})
		}
	}

	p.tabulateAttempts(g.Title, attempts)
	return g.Draw()
}

// tabulateAttempts makes the table behind the picture.
func (p *sweepPage) tabulateAttempts(title string, attempts []Attempt) {
	tabulate(p.data, "gantt", title, attempts, []field[Attempt]{
		{"machine", plot.Plain, func(a Attempt) any { return a.Host }},
		{"task", plot.Plain, func(a Attempt) any { return a.Task }},
		{"trial", plot.Plain, func(a Attempt) any { return a.Trial }},
		{"attempt", plot.Plain, func(a Attempt) any { return a.Claim }},
		{"from", plot.Plain, func(a Attempt) any { return a.From }},
		{"to", plot.Plain, func(a Attempt) any { return a.To }},
		{"how it ended", plot.Plain, func(a Attempt) any { return a.End }},
		{"trees", plot.Plain, func(a Attempt) any { return a.Trees }},
		{"resumed from a checkpoint", plot.Plain, func(a Attempt) any { return yes(a.Resumed) }},
		{"left a checkpoint", plot.Plain, func(a Attempt) any { return yes(a.Saved) }},
		{"cost", plot.USD, func(a Attempt) any { return a.Cost }},
	})
}

// yes is a mark in a table.
func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// Spent is what the sweep cost: the sum, what it is made of, then what it is compared with. Empty of what is free.
func (p *sweepPage) Spent() (rows []Pair) {
	m := p.Money
	if m == nil || m.Free {
		return nil
	}
	add := func(name string, sum float64, more string) {
		rows = append(rows, Pair{name, plot.USD.Format(sum) + more})
	}
	if m.Known {
		for _, of := range []struct {
			name string
			sum  float64
		}{{"total", m.Total}, {"trials with a model", m.Useful}, {"trials without", m.Stopped}, {"work lost", m.Lost},
			{"machines starting", m.Lead}, {"idle slots", m.Idle}} {
			add(of.name, of.sum, "")
		}
	} else {
		rows = append(rows, Pair{"total", "unknown, as the price of these machines is"})
	}
	rows = append(rows, Pair{"machine time", plot.Seconds.Format(3600 * m.MachineHours)})
	if m.Quote > 0 {
		add("quoted", m.Quote, fmt.Sprintf(" (%s to %s)", plot.USD.Format(m.QuoteLow), plot.USD.Format(m.QuoteHigh)))
	}
	if m.Budget > 0 {
		add("budget", m.Budget, "")
	}
	if m.Saved > 0 {
		add("saved by stopping early", m.Saved, " or so, from the trials' own pace to their maximum number of trees")
	}
	return rows
}

// winner draws what the winner is made of, what calibrating did, and how sure all of it is.
func (p *sweepPage) winner() {
	w := p.Winner
	if w == nil {
		return
	}
	p.Rivals, p.Sure = w.rivals(p.data)
	if t := w.Tested; t != nil && len(t.Bins) > 0 {
		p.Won = append(p.Won, reliability(p.data, t), gains(p.data, t))
	}
	if t := w.Tested; t != nil && len(t.Classes) > 0 {
		p.Won = append(p.Won, confusion(p.data, t.Classes), byClass(p.data, t.Classes))
	}
	p.Won = slices.DeleteFunc(p.Won, func(c *plot.Chart) bool { return c == nil })
	p.WonBy = featureChart(p.data, w.Features)
}

// Measure is a metric at its stages; what is not known is NaN.
type Measure struct {
	Name                       string
	Valid, Before, After, Test float64
	Alone                      float64 // what the shares of the classes score
}

// Final is the metric on test as it is registered.
func (m Measure) Final() float64 {
	if math.IsNaN(m.After) {
		return m.Test
	}
	return m.After
}

// Measures are the winner's metrics, by name.
func (w *Winner) Measures() []Measure {
	var before, after map[string]float64
	if w.Calibration != nil {
		before, after = w.Calibration.Before, w.Calibration.After
	}
	names := map[string]bool{}
	for _, m := range []map[string]float64{w.Valid, w.Test, before, after} {
		for name := range m {
			names[name] = true
		}
	}
	value := func(m map[string]float64, name string) float64 {
		if v, ok := m[name]; ok {
			return v
		}
		return math.NaN()
	}

	var out []Measure
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, Measure{name, value(w.Valid, name), value(before, name), value(after, name),
			value(w.Test, name), w.alone(name)})
	}
	return out
}

// shareAlone heads what a model without features would score: it predicts the label rate, or the classes' shares.
const shareAlone = "the base rate alone"

// withoutFeatures heads what a model without features scores on test.
func (w *Winner) withoutFeatures() string {
	if w.Tested == nil || w.Tested.Alone == nil {
		return shareAlone
	}
	for name := range w.Tested.Alone {
		if m, err := metric.Lookup(name); err == nil && m.Kind == metric.Ranking {
			return "rows in random order"
		}
	}
	return "the mean alone"
}

// alone is what a model without features scores on the test rows; NaN if that is unknown.
func (w *Winner) alone(name string) float64 {
	if w.Tested == nil {
		return math.NaN()
	}
	v, ok := w.Tested.OfConstant(name)
	if !ok {
		return math.NaN()
	}
	return v
}

// interval is a check's value with its interval, as text. An interval with two equal ends is none.
func interval(c sweep.GateCheck) string {
	text := plot.Plain.Format(c.Value)
	if c.Low != c.High {
		text += " (" + plot.Plain.Format(c.Low) + " to " + plot.Plain.Format(c.High) + ")"
	}
	return text
}

// mostFeatures is how many features a chart of importances shows; the table has all.
const mostFeatures = 20

// featureChart draws which features a model is made of.
func featureChart(d *data, features []Importance) *plot.Chart {
	if len(features) == 0 {
		return nil
	}

	c := &plot.Chart{ID: "features", Title: "Feature importance", W: plot.Half}
	for i, f := range features {
		if i < mostFeatures && f.Splits > 0 {
			c.Rows = append(c.Rows, share(f.Feature, f.Gain, english.Plural(f.Splits, "split", "")))
		}
	}

	used := 0
	for _, f := range features {
		if f.Splits > 0 {
			used++
		}
	}
	c.Summary = fmt.Sprintf("%d of %d features are used; %s contributes most, by its share of the gain of all "+
		"splits.", used, len(features), features[0].Feature)

	tabulate(d, "features", c.Title, features, []field[Importance]{
		{"feature", plot.Plain, func(f Importance) any { return f.Feature }},
		{"share of gain", plot.Percent, func(f Importance) any { return f.Gain }},
		{"splits", plot.Plain, func(f Importance) any { return f.Splits }},
	})
	return c
}
