package page

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
	"coppice/internal/registry"
)

// Model is what a page about a model of the registry shows.
type Model struct {
	Name     string
	Champion int              // 0 when there is none
	Versions []VersionView    // by number
	Moves    []registry.Event // of aliases, oldest first
	Of       int              // the version whose features and descent these are
	Features []Importance
	Effects  []Effect     // of the features that move predictions most, the first one most; nil if not known
	Descent  []Step       // from the file to what is live
	Nights   []ModelNight // newest first
	Notes    []string
}

// Effect is what a feature adds to the raw scores of some rows, its SHAP values.
type Effect struct {
	Feature string
	Shap    []float64 // of each row
	Rank    []float64 // of the row's value among those of the rows, 0 to 1; NaN where it is missing or a category
}

// Step is one of what a version came of, in order. What is its kind: a sweep and a dataset have pages of their own.
type Step struct {
	What, Name, Text string
	At               time.Time
}

// VersionView is one version of a model.
type VersionView struct {
	Number                     int
	At                         time.Time
	By, Why                    string
	Sweep, Trial, Dataset, Tag string // where it comes from; Tag is its aliases
	Metrics                    map[string]float64
	Params                     []Pair // that are not the defaults; of the newest versions
}

// modelPage is a model with its drawings.
type modelPage struct {
	*Model
	Newest  []VersionView
	Metrics []string
	Answer  answer
	Since   time.Time    // when the champion became it
	Became  string       // how
	Back    []ModelNight // nights whose model was held back, newest first
	Next    *plot.Chart  // the live version on the next night's rows
	Live    *plot.Chart
	Trends  []*plot.Chart
	Chart   *plot.Chart // of features
	Swarm   *plot.Chart // of their SHAP values

	data *data
}

// Write writes the page of a model.
func (m *Model) Write(w io.Writer) error {
	m = cleaned(m)
	p := &modelPage{Model: m, data: newData("still", m.Name), Newest: slices.Clone(m.Versions)}
	slices.Reverse(p.Newest)
	names := map[string]bool{}
	for _, v := range m.Versions {
		for name := range v.Metrics {
			names[name] = true
		}
	}
	p.Metrics = slices.Sorted(maps.Keys(names))

	p.Nights = slices.Clone(m.Nights)
	p.nights()
	p.Live = p.live()
	p.Trends = p.trends()
	p.Chart = featureChart(p.data, m.Features)
	p.Swarm = p.swarm()
	return write(w, m.Name, "model.html", p, p.data)
}

// Commands say how another version goes live: the newest one, or the one before the champion.
func (p *modelPage) Commands() (commands []string) {
	if i := slices.IndexFunc(p.Newest, func(v VersionView) bool { return v.Number != p.Champion }); i >= 0 {
		commands = append(commands, fmt.Sprintf("launcher registry promote %s@%d --why REASON", p.Name,
			p.Newest[i].Number))
	}
	if p.Champion > 0 {
		commands = append(commands, fmt.Sprintf("launcher registry rollback %s --why REASON", p.Name))
	}
	return commands
}

// param is a version's value of a parameter, as text.
func (v VersionView) param(name string) string {
	for _, q := range v.Params {
		if q.Name == name {
			return q.Text
		}
	}
	if v.Params == nil {
		return "–"
	}
	return "default"
}

// swarm draws what features add to raw scores.
func (p *modelPage) swarm() *plot.Chart {
	if len(p.Effects) == 0 {
		return nil
	}

	c := plot.Swarm{Chart: plot.Chart{ID: "shap", Title: "What moves predictions", W: plot.Half},
		X: plot.Axis{Label: "SHAP value: added to the raw score of a row"}, Room: 180}
	type row struct {
		name                  string
		mean, least, greatest float64
	}
	var rows []row
	for _, e := range p.Effects {
		points := make([]plot.SwarmPoint, len(e.Shap))
		r := row{name: e.Feature, least: math.Inf(1), greatest: math.Inf(-1)}
		for i, v := range e.Shap {
			points[i] = plot.SwarmPoint{X: v, Rank: e.Rank[i]}
			r.mean += math.Abs(v) / float64(len(e.Shap))
			r.least, r.greatest = min(r.least, v), max(r.greatest, v)
		}
		rows = append(rows, r)
		c.Rows = append(c.Rows, plot.SwarmRow{Label: e.Feature, Points: points})
	}

	c.Summary = fmt.Sprintf("Each dot is one of %d test rows. Right of the line the feature raises the prediction, "+
		"left of it, lowers it; %s has the largest effect. Categories and missing values are grey.",
		len(p.Effects[0].Shap), p.Effects[0].Feature)

	tabulate(p.data, "shap", c.Title, rows, []field[row]{
		{"feature", plot.Plain, func(r row) any { return r.name }},
		{"mean of |SHAP value|", plot.Plain, func(r row) any { return r.mean }},
		{"least", plot.Plain, func(r row) any { return r.least }},
		{"greatest", plot.Plain, func(r row) any { return r.greatest }},
	})
	return c.Draw()
}

// Metric is a version's value of a metric, as text.
func (v VersionView) Metric(name string) string {
	x, ok := v.Metrics[name]
	if !ok {
		return "–"
	}
	return plot.Plain.Format(x)
}

// live draws which version each alias pointed at, and when.
func (p *modelPage) live() *plot.Chart {
	c := plot.Gantt{Chart: plot.Chart{ID: "aliases", Title: "What was live when", W: plot.Full, H: 100},
		X: plot.Axis{Label: "since the first event", Unit: plot.Seconds}}
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

	// Of many nights the days are what people look for, of an afternoon how long it was.
	along := func(t time.Time) float64 { return t.Sub(first).Seconds() }
	if last.Sub(first) > 4*24*time.Hour {
		along, c.X = day, plot.Axis{Unit: plot.Days, Whole: true}
	}

	rows := map[string]int{}
	for _, m := range p.Moves {
		row, ok := rows[m.Alias]
		if !ok {
			row = len(c.Rows)
			rows[m.Alias] = row
			c.Rows = append(c.Rows, plot.GanttRow{Group: "aliases", Label: m.Alias})
		} else {
			for i := range c.Spans { // the one before ends here
				if c.Spans[i].Row == row && c.Spans[i].To == along(last) {
					c.Spans[i].To = along(m.At)
				}
			}
		}
		kind := "at a6"
		if m.Kind == registry.RolledBack {
			kind = "at a3"
		}
		c.Spans = append(c.Spans, plot.Span{Trial: plot.None, Row: row, From: along(m.At), To: along(last), Class: kind,
			Text: "@" + strconv.Itoa(m.To)})
	}
	c.Summary = fmt.Sprintf("%s of %s since %s UTC.", english.Plural(len(p.Moves), "move", ""),
		english.Plural(len(rows), "alias", "aliases"), first.UTC().Format("2006-01-02 15:04"))
	if p.Champion > 0 {
		c.Summary += fmt.Sprintf(" Version %d is the champion.", p.Champion)
	}
	c.Keys = []plot.Key{{Class: "at key a6", Label: "promoted"}, {Class: "at key a3", Label: "rolled back to"}}
	tabulate(p.data, "aliases", c.Title, p.Moves, []field[registry.Event]{
		{"alias", plot.Plain, func(m registry.Event) any { return m.Alias }},
		{"what", plot.Plain, func(m registry.Event) any { return string(m.Kind) }},
		{"from version", plot.Plain, func(m registry.Event) any { return m.From }},
		{"to version", plot.Plain, func(m registry.Event) any { return m.To }},
		{"when", plot.Plain, func(m registry.Event) any { return m.At }},
		{"by", plot.Plain, func(m registry.Event) any { return m.By }},
		{"why", plot.Plain, func(m registry.Event) any { return m.Why }},
	})
	return c.Draw()
}

// trends draws each metric over the versions.
func (p *modelPage) trends() []*plot.Chart {
	add(p.data, "n", "version", plot.Plain, p.Versions, func(v VersionView) any { return v.Number })
	var charts []*plot.Chart
	for i, name := range p.Metrics {
		id := "trend-" + strconv.Itoa(i)
		c := plot.Scatter{Chart: plot.Chart{ID: id, Title: name, W: plot.Quarter, H: 200},
			X: plot.Axis{Whole: true, Label: "version"}, Y: plot.Axis{Label: name}, Joined: true}
		for _, v := range p.Versions {
			if x, ok := v.Metrics[name]; ok {
				c.Points = append(c.Points, plot.Point{Trial: plot.None, X: float64(v.Number), Y: x, Class: "s0"})
			}
		}

		c.Summary = fmt.Sprintf("On each version's own test rows; %s.", counted(len(c.Points), "version", "versions"))
		key := "t" + strconv.Itoa(i)
		add(p.data, key, name, plot.Plain, p.Versions, func(v VersionView) any {
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
