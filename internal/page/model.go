package page

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

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
	registry.Version
	Tag string // its aliases
}

// modelPage is a model with its drawings.
type modelPage struct {
	*Model
	Newest   []VersionView
	Metrics  []string
	Answer   answer
	Since    time.Time        // when the champion became it
	Became   string           // how
	Last     *ModelNight      // that has ended
	Promoted int              // nights that made the champion
	Back     int              // nights whose model was held back
	Row      int              // how many of the last ones, one after the other
	Moved    []registry.Event // newest first
	Moving   []effectRow      // what moves predictions
	Used     []Importance     // where that is not known, the features by gain
	MadeOf   string           // and what is to be said of them
}

// Write writes the page of a model.
func (m *Model) Write(w io.Writer) error {
	m = cleaned(m)
	p := &modelPage{Model: m, Newest: slices.Clone(m.Versions)}
	slices.Reverse(p.Newest)
	names, by := map[string]bool{}, "" // that chose the newest
	for _, v := range m.Versions {
		for name := range v.Info.Metrics {
			names[name] = true
		}
	}
	for _, n := range m.Nights {
		by = cmp.Or(by, n.Metric)
	}
	p.Metrics = MetricNames(names, by)

	p.Nights = slices.Clone(m.Nights)
	p.nights()
	p.Moved = slices.Clone(m.Moves)
	slices.Reverse(p.Moved)
	if p.Moving = p.effects(); p.Moving == nil {
		p.Used, p.MadeOf = used(m.Features)
	}
	return writePage(w, m.Name, "model.html", p, newData("still", m.Name))
}

// VersionsHead is what the table of versions begins with.
func (p *modelPage) VersionsHead() heading {
	h := newHeading("versions", "Versions, newest first", "", "version", "alias", "registered")
	for _, name := range p.Metrics {
		h.Names = append(h.Names, name+"#")
	}
	h.Names = append(h.Names, "dataset", "sweep, trial", "why")
	return h
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

// effectRow is what a feature adds to raw scores, and with which of its values.
type effectRow struct {
	Name                         string
	Mean, Share, Least, Greatest float64 // Mean of the absolute values, Share of the largest Mean
	Way                          string  // whether higher values raise the score
}

// effects are the features that move predictions.
func (p *modelPage) effects() (rows []effectRow) {
	for _, e := range p.Effects {
		r := effectRow{Name: e.Feature, Least: slices.Min(e.Shap), Greatest: slices.Max(e.Shap), Way: "mixed"}
		up, all := 0.0, 0.0
		for i, v := range e.Shap {
			r.Mean += math.Abs(v) / float64(len(e.Shap))
			if rank := e.Rank[i] - 0.5; !math.IsNaN(rank) {
				up, all = up+v*rank, all+math.Abs(v*rank)
			}
		}
		switch {
		case all == 0:
			r.Way = "by category"
		case up > all/2:
			r.Way = "higher values raise"
		case up < -all/2:
			r.Way = "higher values lower"
		}
		rows = append(rows, r)
	}
	for i := range rows {
		rows[i].Share = rows[i].Mean / max(rows[0].Mean, 1e-300)
	}
	return rows
}

// Metric is a version's value of a metric.
func (v VersionView) Metric(name string) float64 {
	if x, ok := v.Info.Metrics[name]; ok {
		return x
	}
	return math.NaN()
}
