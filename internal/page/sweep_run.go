package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
	"coppice/internal/search"
)

type weight = search.Weight

// endings are how an attempt is painted, and what that means.
var endings = []struct{ end, class, label string }{
	{"finished", "a0", "finished its trial"},
	{"running", "a1", "running"},
	{"released", "a2", "released: told to stop"},
	{"paused", "a5", "paused its trial at a rung"},
	{"lost", "a3", "lost, taken over"},
	{"silent", "a4", "silent"},
}

// gantt draws which task worked on which trial when.
func (p *sweepPage) gantt() *plot.Chart {
	g := plot.Gantt{Chart: plot.Chart{ID: "gantt", Title: "Machines and slots", W: 980, H: 100},
		X: plot.Axis{Label: "since the plan was written", Unit: plot.Seconds}}
	attempts := slices.Clone(p.Attempts)
	slices.SortStableFunc(attempts, func(a, b Attempt) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Task, b.Task),
			a.From.Compare(b.From), cmp.Compare(a.Trial, b.Trial))
	})

	var names []string
	for _, a := range attempts {
		names = append(names, a.Host)
	}
	short := newHostNames(names)
	counts := map[string]int{}
	hosts := map[string]bool{}
	last := map[int]int{} // the span of each trial's claim before
	type key struct{ trial, claim int }
	spans := map[key]int{}
	for i, a := range attempts {
		if i == 0 || a.Job != attempts[i-1].Job || a.Host != attempts[i-1].Host || a.Task != attempts[i-1].Task {
			group := "machine " + strings.TrimPrefix(short.of(a.Host), "machine ")
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

	paused := ""
	if n := counts["paused"]; n > 0 {
		paused = fmt.Sprintf(" %d paused it at a rung,", n)
	}
	g.Summary = fmt.Sprintf("%s on %s; %d were told to stop and released their trial,%s %d were lost and taken "+
		"over, %d are silent. A dashed line leads to the attempt that took a trial over; a dot at the end of an "+
		"attempt marks a checkpoint that it left, one at the beginning that it resumed from one.",
		english.Plural(len(attempts), "attempt", ""), english.Plural(len(hosts), "machine", ""), counts["released"],
		paused, counts["lost"], counts["silent"])
	for _, e := range endings {
		if counts[e.end] > 0 {
			g.Keys = append(g.Keys, plot.Key{Class: "at key " + e.class, Label: e.label})
		}
	}

	add(p.data, "a-host", "machine", plot.Plain, attempts, func(a Attempt) any { return a.Host })
	add(p.data, "a-task", "task", plot.Plain, attempts, func(a Attempt) any { return a.Task })
	add(p.data, "a-trial", "trial", plot.Plain, attempts, func(a Attempt) any { return a.Trial })
	add(p.data, "a-claim", "attempt", plot.Plain, attempts, func(a Attempt) any { return a.Claim })
	add(p.data, "a-from", "from", plot.Plain, attempts, func(a Attempt) any { return a.From })
	add(p.data, "a-to", "to", plot.Plain, attempts, func(a Attempt) any { return a.To })
	add(p.data, "a-end", "how it ended", plot.Plain, attempts, func(a Attempt) any { return a.End })
	add(p.data, "a-trees", "trees", plot.Plain, attempts, func(a Attempt) any { return a.Trees })
	add(p.data, "a-resumed", "resumed from a checkpoint", plot.Plain, attempts,
		func(a Attempt) any { return yes(a.Resumed) })
	add(p.data, "a-saved", "left a checkpoint", plot.Plain, attempts, func(a Attempt) any { return yes(a.Saved) })
	add(p.data, "a-cost", "cost", plot.USD, attempts, func(a Attempt) any { return a.Cost })
	p.data.table("gantt", g.Title, "a-host", "a-task", "a-trial", "a-claim", "a-from", "a-to", "a-end", "a-trees",
		"a-resumed", "a-saved", "a-cost")
	return g.Draw()
}

// yes is a mark in a table.
func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// memory draws what each machine held: the table once, and what each task needs for itself.
func (p *sweepPage) memory() *plot.Chart {
	c := plot.Bars{Chart: plot.Chart{ID: "memory", Title: "Memory by machine", W: 460},
		X: plot.Axis{Unit: plot.Bytes, Label: "at the peak"}, Room: 130}
	var names []string
	for _, m := range p.Sweep.Memory {
		names = append(names, m.Host)
	}
	short := newHostNames(names)

	var shared, apart float64
	for _, m := range p.Sweep.Memory {
		c.Bars = append(c.Bars,
			plot.Bar{Label: short.of(m.Host), Parts: []plot.Part{{Class: "bar shared", Value: m.Shared},
				{Class: "bar private", Value: m.Private}},
				Note: fmt.Sprintf("%s, %d tasks", plot.Bytes.Format(m.Shared+m.Private), m.Tasks)})
		shared += m.Shared + m.Private
		apart += m.Apart
	}
	c.Summary = "No trial has reported its memory yet."
	if shared > 0 {
		c.Summary = fmt.Sprintf("The table is mapped once per machine and shared by its tasks. All machines "+
			"together held %s; with a copy of the table per task it would be %s.",
			plot.Bytes.Format(shared), plot.Bytes.Format(apart))
	}
	c.Keys = []plot.Key{{Class: "bar key shared", Label: "table, shared"},
		{Class: "bar key private", Label: "tasks, private"}}
	add(p.data, "m-host", "machine", plot.Plain, p.Sweep.Memory, func(m Memory) any { return m.Host })
	add(p.data, "m-shared", "shared", plot.Bytes, p.Sweep.Memory, func(m Memory) any { return m.Shared })
	add(p.data, "m-private", "private", plot.Bytes, p.Sweep.Memory, func(m Memory) any { return m.Private })
	add(p.data, "m-tasks", "tasks at once", plot.Plain, p.Sweep.Memory, func(m Memory) any { return m.Tasks })
	add(p.data, "m-apart", "with one copy per task", plot.Bytes, p.Sweep.Memory, func(m Memory) any { return m.Apart })
	p.data.table("memory", c.Title, "m-host", "m-shared", "m-private", "m-tasks", "m-apart")
	return c.Draw()
}

// spending is a line of the bill.
type spending struct {
	name, class string
	value       float64
}

// money draws what was spent on what.
func (p *sweepPage) money() *plot.Chart {
	m := p.Sweep.Money
	if m == nil {
		return nil
	}
	c := plot.Bars{Chart: plot.Chart{ID: "money", Title: "Cost", W: 460}, X: plot.Axis{Unit: plot.USD, Label: "USD"},
		Room: 150}
	rows := []spending{
		{"trials with a model", "m0", m.Useful}, {"trials without", "m1", m.Stopped}, {"work lost", "m2", m.Lost},
		{"machines starting", "m3", m.Lead}, {"idle slots", "m4", m.Idle},
		{"total", "m5", m.Total},
	}
	if m.Quote > 0 {
		rows = append(rows, spending{"quoted before", "m6", m.Quote})
	}
	if m.Saved > 0 {
		rows = append(rows, spending{"saved by stopping early", "m7", m.Saved})
	}
	for _, r := range rows {
		b := plot.Bar{Label: r.name, Parts: []plot.Part{{Class: "bar " + r.class, Value: r.value}},
			Note: plot.USD.Format(r.value)}
		if r.name == "total" {
			b.Limit = m.Budget
		}
		if m.Known {
			c.Bars = append(c.Bars, b)
		}
	}

	switch {
	case !m.Known:
		c.Summary = fmt.Sprintf("No price is known for these machines. They ran for %s.",
			plot.Seconds.Format(3600*m.MachineHours))
	default:
		c.Summary = fmt.Sprintf("%s for %s of machine time.", plot.USD.Format(m.Total),
			plot.Seconds.Format(3600*m.MachineHours))
		if m.Quote > 0 {
			c.Summary += fmt.Sprintf(" The quote before was %s (%s to %s).", plot.USD.Format(m.Quote),
				plot.USD.Format(m.QuoteLow), plot.USD.Format(m.QuoteHigh))
		}
		if m.Budget > 0 {
			c.Summary += fmt.Sprintf(" The budget, the line across the total, is %s.", plot.USD.Format(m.Budget))
		}
		if m.Saved > 0 {
			c.Summary += " The saving by stopping early is estimated from the trials' own pace, up to their maximum " +
				"number of trees."
		}
	}
	add(p.data, "c-name", "what", plot.Plain, rows, func(r spending) any { return r.name })
	add(p.data, "c-value", "cost", plot.USD, rows, func(r spending) any { return r.value })
	p.data.table("money", c.Title, "c-name", "c-value")
	return c.Draw()
}

// winnerCharts are the drawings of a winner; nil where there is nothing to draw.
type winnerCharts struct {
	Measures, Reliable, Segments, Gain, Lift, Rivals, Features *plot.Chart
	Sure                                                       string // what Rivals shows, in a sentence
}

// all are those that there are.
func (c *winnerCharts) all() []*plot.Chart {
	return slices.DeleteFunc([]*plot.Chart{c.Rivals, c.Reliable, c.Gain, c.Lift, c.Segments, c.Measures, c.Features},
		func(c *plot.Chart) bool { return c == nil })
}

// winner draws what the winner is made of, what calibrating did, and how sure all of it is.
func (p *sweepPage) winner() (c winnerCharts) {
	w := p.Winner
	if w == nil {
		return c
	}
	add(p.data, "w-name", "metric", plot.Plain, w.Measures, func(m Measure) any { return m.Name })
	add(p.data, "w-valid", "valid", plot.Plain, w.Measures, func(m Measure) any { return m.Valid })
	add(p.data, "w-before", "test before calibration", plot.Plain, w.Measures, func(m Measure) any { return m.Before })
	add(p.data, "w-after", "test after", plot.Plain, w.Measures, func(m Measure) any { return m.After })
	add(p.data, "w-test", "test", plot.Plain, w.Measures, func(m Measure) any { return m.Test })
	p.data.table("measures", "The winner's metrics", "w-name", "w-valid", "w-before", "w-after", "w-test")

	c.Measures = calibrationChart(w)
	c.Rivals, c.Sure = w.rivals(p.data)
	if t := w.Tested; t != nil && len(t.Bins) > 0 {
		c.Reliable = reliability(p.data, t)
		c.Gain, c.Lift = gains(p.data, t)
		c.Segments = segments(p.data, t)
	}
	c.Features = featureChart(p.data, w.Features)
	return c
}

// calibrationChart draws what calibrating did to each metric that it may change, as a share of what it was before.
func calibrationChart(w *Winner) *plot.Chart {
	c := plot.Bars{Chart: plot.Chart{ID: "measures", Title: "Calibration on test rows", W: 460},
		X: plot.Axis{Unit: plot.Percent, Label: "after, as a share of before; lower is better", High: 2}, Room: 90}
	for _, m := range w.Measures {
		if math.IsNaN(m.Before) || math.IsNaN(m.After) || m.Before <= 0 {
			continue
		}
		c.Bars = append(c.Bars, plot.Bar{Label: m.Name, Parts: []plot.Part{{Class: "bar", Value: m.After / m.Before}},
			Limit: 1,
			Note:  plot.Plain.Format(m.Before) + " → " + plot.Plain.Format(m.After)})
	}
	if len(c.Bars) == 0 {
		return nil
	}
	c.Summary = "Measured on rows that neither model nor calibrator has seen. The line is no change."
	if w.Method != "" {
		c.Summary = "Method: " + w.Method + ". " + c.Summary
	}
	return c.Draw()
}

// mostFeatures is how many features a chart of importances shows; the table has all.
const mostFeatures = 20

// featureChart draws which features a model is made of.
func featureChart(d *data, features []Importance) *plot.Chart {
	if len(features) == 0 {
		return nil
	}

	c := plot.Bars{Chart: plot.Chart{ID: "features", Title: "Feature importance", W: 460},
		X: plot.Axis{Unit: plot.Percent, Label: "share of the gain of all splits"}, Room: 180}
	for i, f := range features {
		if i < mostFeatures && f.Splits > 0 {
			c.Bars = append(c.Bars, plot.Bar{Label: f.Feature, Parts: []plot.Part{{Class: "bar", Value: f.Gain}},
				Note: plot.Percent.Format(f.Gain) + ", " + strconv.Itoa(f.Splits) + " splits"})
		}
	}

	used := 0
	for _, f := range features {
		if f.Splits > 0 {
			used++
		}
	}
	c.Summary = fmt.Sprintf("%d of %d features are used; %s contributes most.", used, len(features),
		features[0].Feature)

	add(d, "f-name", "feature", plot.Plain, features, func(f Importance) any { return f.Feature })
	add(d, "f-gain", "share of gain", plot.Percent, features, func(f Importance) any { return f.Gain })
	add(d, "f-splits", "splits", plot.Plain, features, func(f Importance) any { return f.Splits })
	d.table("features", c.Title, "f-name", "f-gain", "f-splits")
	return c.Draw()
}
