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
	Past     []int            // the champions before it to which rollbacks lead, the next one last
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
	errors   map[string]float64 // on test, by version and metric, as far as they are known
	Answer   answer
	Since    time.Time        // when the champion became it
	Became   string           // how
	Promoted int              // nights that made the champion
	Moved    []registry.Event // newest first
	uses
}

// uses is what a model makes of its features: what moves predictions, by Shap rows, or, if that is unknown, gains.
type uses struct {
	Moving []effectRow
	Shap   int
	Used   []Importance
	MadeOf string
}

// newUses makes the rows that show what a model makes of its features. It prefers the effects (SHAP values), since they
// say in which direction a feature moves predictions; without any, it takes the gains in features.
func newUses(effects []Effect, features []Importance) (u uses) {
	u.Moving = effectRows(effects)
	if u.Moving == nil {
		u.Used, u.MadeOf = used(features)
	} else {
		u.Shap = len(effects[0].Shap)
	}
	return u
}

// Write writes the page of a model to w: its versions (newest first), its nights, how its aliases moved, and which
// features move its predictions.
func (m *Model) Write(w io.Writer) error {
	m = cleaned(m)
	p := &modelPage{Model: m, Newest: slices.Clone(m.Versions), errors: map[string]float64{}}
	slices.Reverse(p.Newest)

	// A column for each metric of some version. First is the one by which the newest sweep chose its winner.
	names, by := map[string]bool{}, ""
	for _, v := range m.Versions {
		for name := range v.Info.Metrics {
			names[name] = true
		}
	}
	for _, n := range m.Nights { // newest first
		by = cmp.Or(by, n.Metric)
		p.errors[fmt.Sprint(n.Version, n.Metric)] = n.SE
	}
	p.Metrics = MetricNames(names, by)

	p.nights()
	p.Moved = slices.Clone(m.Moves)
	slices.Reverse(p.Moved)
	p.uses = newUses(m.Effects, m.Features)
	return writePage(w, m.Name, "model.html", p, newData("still", m.Name))
}

// VersionsHead is what the table of versions begins with.
func (p *modelPage) VersionsHead() heading {
	h := newHeading("versions", "Versions, newest first", "", "version", "alias", "registered")
	for _, name := range p.Metrics {
		h.Names = append(h.Names, name+"#")
	}
	h.Names = append(h.Names, "dataset", "sweep, trial")
	return h
}

// Commands returns the commands that make another version live: one promotes the newest version that is not live, and
// one goes back to a champion before this one. Versions that are marked bad do not count, as both commands refuse them.
// A command that finds no version is left out.
func (p *modelPage) Commands() (commands []string) {
	bad := map[int]bool{}
	for _, e := range p.Moves { // oldest first, so the last mark of a version counts
		if e.Kind == registry.MarkedBad || e.Kind == registry.Cleared {
			bad[e.To] = e.Kind == registry.MarkedBad
		}
	}
	other := func(version int) bool { return version != p.Champion && !bad[version] }

	if i := slices.IndexFunc(p.Newest, func(v VersionView) bool { return other(v.Number) }); i >= 0 {
		commands = append(commands, fmt.Sprintf("launcher registry promote %s@%d --why REASON", p.Name,
			p.Newest[i].Number))
	}
	if slices.ContainsFunc(p.Past, other) {
		commands = append(commands, fmt.Sprintf("launcher registry rollback %s --why REASON", p.Name))
	}
	return commands
}

// effectRow is what a feature adds to the raw scores of some rows: its SHAP values.
type effectRow struct {
	Name                         string
	Mean, Share, Least, Greatest float64 // Mean of the absolute values; Share is Mean over the first row's Mean
	Way                          string  // whether higher values of the feature raise the score
}

// effectRows makes a row for each of the effects, in their order; nil without any. Every effect needs at least one row.
//
// Way compares the SHAP values with the ranks of the feature's values around their middle, both signed: up sums the
// products, all their absolute values. If up is over half of all, one direction prevails clearly. Rows without a rank
// do not count; where none has one, the feature is taken for a category.
func effectRows(effects []Effect) (rows []effectRow) {
	for _, e := range effects {
		r := effectRow{Name: e.Feature, Least: slices.Min(e.Shap), Greatest: slices.Max(e.Shap), Way: "mixed"}
		up, all, ranked := 0.0, 0.0, 0
		for i, v := range e.Shap {
			r.Mean += math.Abs(v) / float64(len(e.Shap))
			// A rank is from 0 to 1, and NaN for a missing value or a category.
			if rank := e.Rank[i] - 0.5; !math.IsNaN(rank) {
				up, all, ranked = up+v*rank, all+math.Abs(v*rank), ranked+1
			}
		}
		switch {
		case ranked == 0:
			r.Way = "by category"
		case up > all/2:
			r.Way = "higher values raise"
		case up < -all/2:
			r.Way = "higher values lower"
		}
		rows = append(rows, r)
	}
	for i := range rows {
		// Of the largest mean, which is the first. 1e-300: not NaN where no feature has any effect.
		rows[i].Share = rows[i].Mean / max(rows[0].Mean, 1e-300)
	}
	return rows
}

// Error is the standard error of a version's metric; 0 where none is known.
func (p *modelPage) Error(version int, metric string) float64 {
	return p.errors[fmt.Sprint(version, metric)]
}

// Metric is a version's value of a metric.
func (v VersionView) Metric(name string) float64 {
	x, ok := v.Info.Metrics[name]
	return orNaN(x, ok)
}

// orNaN returns v, or NaN if it is not known (ok is false).
func orNaN(v float64, ok bool) float64 {
	if !ok {
		return math.NaN()
	}
	return v
}
