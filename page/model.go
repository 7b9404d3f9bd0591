package page

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"coppice/page/plot"
)

// Model is what a page about a model of the registry shows.
type Model struct {
	Name     string
	Champion int       // 0 when there is none
	Versions []Version // by number
	Moves    []Move    // of aliases, oldest first
	Features []Importance
	Of       int // the version whose features these are
	Notes    []string
}

// Version is one version of a model.
type Version struct {
	Number                     int
	At                         time.Time
	By, Why                    string
	Sweep, Trial, Dataset, Tag string // where it comes from; Tag is its aliases
	Metrics                    map[string]float64
}

// Move is a move of an alias.
type Move struct {
	Alias, Kind, By, Why string
	From, To             int
	At                   time.Time
}

// modelPage is a model with its drawings.
type modelPage struct {
	*Model
	Newest  []Version
	History []Move // newest first
	Metrics []string
	Live    *plot.Chart
	Trends  []*plot.Chart
	Chart   *plot.Chart // of features

	data *data
}

// Write writes the page of a model.
func (m *Model) Write(w io.Writer) error {
	m = cleaned(m)
	p := &modelPage{Model: m, data: newData("still", m.Name), Newest: slices.Clone(m.Versions), History: slices.Clone(m.Moves)}
	slices.Reverse(p.Newest)
	slices.Reverse(p.History)
	names := map[string]bool{}
	for _, v := range m.Versions {
		for name := range v.Metrics {
			names[name] = true
		}
	}
	p.Metrics = slices.Sorted(maps.Keys(names))
	p.Live = p.live()
	p.Trends = p.trends()
	p.Chart = featureChart(p.data, m.Features)
	return write(w, m.Name, "model.html", p, p.data)
}

// Metric is a version's value of a metric, as text.
func (v Version) Metric(name string) string {
	x, ok := v.Metrics[name]
	if !ok {
		return "–"
	}
	return plot.Plain.Format(x)
}

// live draws which version each alias pointed at, and when.
func (p *modelPage) live() *plot.Chart {
	c := plot.Gantt{Chart: plot.Chart{ID: "live", Title: "What was live when", W: 980, H: 100}, X: plot.Axis{Label: "since the first event", Unit: plot.Seconds}}
	if len(p.Moves) == 0 {
		c.Summary = "No alias has been moved yet."
		return c.Draw()
	}
	var first, last time.Time
	for _, m := range p.Moves {
		if first.IsZero() || m.At.Before(first) {
			first = m.At
		}
		if m.At.After(last) {
			last = m.At
		}
	}
	last = last.Add(max(time.Hour, last.Sub(first)/12)) // what is live now has some length

	rows := map[string]int{}
	for _, m := range p.Moves {
		row, ok := rows[m.Alias]
		if !ok {
			row = len(c.Rows)
			rows[m.Alias] = row
			c.Rows = append(c.Rows, plot.GanttRow{Group: "aliases", Label: m.Alias})
		} else {
			for i := range c.Spans { // the one before ends here
				if c.Spans[i].Row == row && c.Spans[i].To == last.Sub(first).Seconds() {
					c.Spans[i].To = m.At.Sub(first).Seconds()
				}
			}
		}
		kind := "at a0"
		if m.Kind == "rolled_back" {
			kind = "at a3"
		}
		c.Spans = append(c.Spans, plot.Span{Trial: plot.None, Row: row, From: m.At.Sub(first).Seconds(), To: last.Sub(first).Seconds(), Class: kind, Text: "@" + strconv.Itoa(m.To)})
	}
	c.Summary = fmt.Sprintf("%d moves of %d aliases since %s UTC.", len(p.Moves), len(rows), first.UTC().Format("2006-01-02 15:04"))
	if p.Champion > 0 {
		c.Summary += fmt.Sprintf(" Version %d is the champion.", p.Champion)
	}
	c.Keys = []plot.Key{{Class: "at key a0", Label: "promoted"}, {Class: "at key a3", Label: "rolled back to"}}
	add(p.data, "v-alias", "alias", plot.Plain, p.Moves, func(m Move) any { return m.Alias })
	add(p.data, "v-kind", "what", plot.Plain, p.Moves, func(m Move) any { return m.Kind })
	add(p.data, "v-from", "from version", plot.Plain, p.Moves, func(m Move) any { return m.From })
	add(p.data, "v-to", "to version", plot.Plain, p.Moves, func(m Move) any { return m.To })
	add(p.data, "v-at", "when", plot.Plain, p.Moves, func(m Move) any { return m.At })
	add(p.data, "v-by", "by", plot.Plain, p.Moves, func(m Move) any { return m.By })
	add(p.data, "v-why", "why", plot.Plain, p.Moves, func(m Move) any { return m.Why })
	p.data.table("live", c.Title, "v-alias", "v-kind", "v-from", "v-to", "v-at", "v-by", "v-why")
	return c.Draw()
}

// trends draws each metric over the versions.
func (p *modelPage) trends() []*plot.Chart {
	add(p.data, "n", "version", plot.Plain, p.Versions, func(v Version) any { return v.Number })
	var charts []*plot.Chart
	for i, name := range p.Metrics {
		id := "trend-" + strconv.Itoa(i)
		c := plot.Scatter{Chart: plot.Chart{ID: id, Title: name, W: 300, H: 200}, X: plot.Axis{Whole: true, Label: "version"}, Y: plot.Axis{Label: name}, Joined: true}
		for _, v := range p.Versions {
			if x, ok := v.Metrics[name]; ok {
				c.Points = append(c.Points, plot.Point{Trial: plot.None, X: float64(v.Number), Y: x, Class: "s0"})
			}
		}
		c.Summary = fmt.Sprintf("On each version's own test rows; %d versions.", len(c.Points))
		key := "t" + strconv.Itoa(i)
		add(p.data, key, name, plot.Plain, p.Versions, func(v Version) any {
			if x, ok := v.Metrics[name]; ok {
				return x
			}
			return nil
		})
		p.data.table(id, name, "n", key)
		charts = append(charts, c.Draw())
	}
	return charts
}
