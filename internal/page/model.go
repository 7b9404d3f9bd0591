package page

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

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
	Effects  []Effect // of the features that move predictions most, the first one most; nil if not known
	Month
	Notes []string
}

// Effect is what a feature adds to the raw scores of some rows, its SHAP values.
type Effect struct {
	Feature string
	Shap    []float64 // of each row
	Rank    []float64 // of the row's value among those of the rows, 0 to 1; NaN where it is missing or a category
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
	Newest   []VersionView
	Metrics  []string
	Answer   answer
	Since    time.Time        // when the champion became it
	Became   string           // how
	Last     time.Time        // when the night was that the answer is about
	Back     int              // nights whose model was held back
	Next     []trend          // the live version on the next night's rows, and the new one
	Judged   string           // the metric of that
	Compared string           // what that says
	Moved    []registry.Event // newest first
	Chart    *plot.Chart      // of features
	Swarm    *plot.Chart      // of their SHAP values

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
	p.Moved = slices.Clone(m.Moves)
	slices.Reverse(p.Moved)
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
