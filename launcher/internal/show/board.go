package show

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// Differences says how a sweep's trials differ: in some parameters, or in the groups of columns that they have.
type Differences struct {
	Names    []string // of parameters
	features *sweep.Features
}

// Differing finds how the trials of a sweep differ.
func Differing(p *sweep.Plan) Differences {
	return Differences{varied(p.Trials), p.Spec.Search.Features}
}

// Of describes complete parameters.
func (d Differences) Of(params sweep.Params) string {
	if text, ok := d.Columns(params); ok {
		return text
	}
	return Settings(params, d.Names)
}

// Shared describes what all trials have in common, of what the sweep's spec sets or searches.
func (d Differences) Shared(s *sweep.Spec, params sweep.Params) string {
	names := s.Base()
	for name := range s.Search.Random {
		names[name] = nil
	}
	return Settings(params, slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool {
		return slices.Contains(d.Names, name)
	}))
}

// Columns describes the groups of columns of a configuration, in a sweep that compares those.
func (d Differences) Columns(params sweep.Params) (text string, ok bool) {
	if d.features == nil {
		return "", false
	}
	kept, ok := d.features.Kept(params)
	if !ok {
		return "", false
	}
	return d.features.Describe(kept), true
}

// trial describes a trial's parameters as far as they are known.
func (d Differences) trial(t sweep.Trial) string {
	if t.Open && t.Params == nil {
		return "chosen when a task takes it"
	}
	return d.Of(t.Params)
}

// varied returns the parameters in which the trials differ, by name.
func varied(trials []sweep.Trial) []string {
	values := map[string]map[string]bool{}
	for _, t := range trials {
		if t.Refit { // its number of trees differs from that of the configuration it refits
			continue
		}
		for name, v := range t.Params {
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][fmt.Sprint(v)] = true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(name string) bool { return len(values[name]) < 2 })
}

// Board writes a sweep's trials, best first, or its configurations if they are cross-validated. top is how many, or 0
// for all.
func (w Printer) Board(p *sweep.Plan, b sweep.Board, top int) {
	if b.Configurations != nil {
		w.configurations(p, b, top)
		return
	}

	// An objective has a column of its own unless it is the metric, the trees or the seconds, which have one anyway.
	differ, several, sources := Differing(p), len(p.Spec.Goals) > 0, p.Open()
	header := []any{"rank", "trial", p.Spec.Metric}
	var goals []int
	for i, g := range p.Spec.Goals {
		if i > 0 && g.Name != "trees" && g.Name != "train_seconds" {
			goals, header = append(goals, i), append(header, g.Name)
		}
	}
	header = append(header, "trees", "training")
	if several {
		header = append(header, "front")
	}
	header = append(header, "parameters")
	column := len(header)
	if sources {
		header = append(header, "from")
	}

	t := w.Table(header...).Wrap(column)
	for i, row := range b.Rows {
		if top > 0 && i >= top {
			break
		}
		rank, score, trees, took, what := any(""), "-", any(""), "", differ.trial(row.Trial)
		if r := row.Result; r != nil && r.Status == sweep.StatusDone {
			rank, score, trees, took = i+1, Number(r.Score), r.Trees, plot.Seconds.Format(r.Usage.TrainSeconds)
			if r.Refits != nil { // it is trained again from the trial whose score it has, and not ranked
				rank, score = sweep.SourceFinal, "-"
			}
			if by := r.Usage.Together(); by != "" {
				what = strings.TrimSpace(by + "  " + what)
			}
			if r.AtLimit {
				what = r.Reason + "  " + what
			}
		} else if r != nil {
			score, what = r.State(), shorten(FirstLine(r.Reason))+"  "+what
		}

		cells := []any{rank, row.Trial.Number, score}
		values := p.Spec.Values(row.Result)
		for _, g := range goals {
			value := ""
			if values != nil {
				value = Number(values[g])
			}
			cells = append(cells, value)
		}
		cells = append(cells, trees, took)
		if several {
			cells = append(cells, map[bool]string{true: "*"}[row.Front])
		}
		cells = append(cells, what)
		if sources {
			cells = append(cells, row.Trial.Source)
		}
		t.Row(cells...)
	}
	t.Print()
	if s := &p.Spec; several {
		w.printf("*: no other trial is better in all objectives; the winner is picked within %s of the best %s\n",
			s.Pick.Within, s.Pick.Best)
	}
}

// configurations writes the board of a cross-validated sweep.
func (w Printer) configurations(p *sweep.Plan, b sweep.Board, top int) {
	differ := Differing(p)
	t := w.Table("rank", "configuration", p.Spec.Metric+" (mean ± SE)", "folds", "trees", "trials", "parameters").
		Wrap(7)
	for i := range b.Configurations {
		if top > 0 && i >= top {
			break
		}

		c := &b.Configurations[i]
		rank, what := any(""), differ.Of(c.Params)
		switch c.State {
		case sweep.ConfigurationDone:
			rank = i + 1
		case sweep.ConfigurationOpen:
		default:
			what = c.State + ": " + shorten(FirstLine(c.Reason)) + "  " + what
		}
		trials := strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Trials), " ", ", "), "[]")
		t.Row(rank, c.Configuration, Estimate(c), fmt.Sprintf("%d of %d", c.Folds, c.Of), c.Trees, trials, what)
	}
	t.Print()
	if r := b.Rows[0].Result; b.Rows[0].Trial.Refit && r != nil {
		how := fmt.Sprintf("%d trees on %d rows", r.Trees, r.TrainRows)
		if r.Status != sweep.StatusDone {
			how = fmt.Sprintf("%s: %s", r.Status, FirstLine(r.Reason))
		} else if r.AtLimit {
			how += ", " + r.Reason
		}
		w.printf("refit: trial %d, %s\n", r.Trial, how)
	}
}

// Estimate formats a configuration's mean with its standard error.
func Estimate(c *sweep.Rated) string {
	switch {
	case c.Mean == nil:
		return "-"
	case c.SE == nil:
		return Number(*c.Mean)
	}
	return fmt.Sprintf("%s ± %.2g", Number(*c.Mean), *c.SE)
}

// FoldOf says which fold of which configuration a trial is; empty if it is none.
func FoldOf(t sweep.Trial) string {
	switch {
	case t.Refit:
		return t.Source
	case t.Fold > 0:
		return fmt.Sprintf("configuration %d, fold %d", t.Configuration, t.Fold)
	}
	return ""
}

// Winner writes how a sweep with a winner ended.
func (w Printer) Winner(p *sweep.Plan, c *sweep.Conclusion) {
	rows := [][2]string{
		{"winner", fmt.Sprintf("trial %d of sweep %s", c.Trial, c.Sweep)},
		{"parameters", Differing(p).Of(p.Trials[c.Trial].Params)},
		{"all trials", Differing(p).Shared(&p.Spec, p.Trials[c.Trial].Params)},
		{"because", c.Reason},
		{"valid", Metrics(c.Valid, p.Spec.Metric)},
		{"test", Metrics(c.Test, p.Spec.Metric)},
	}
	if k := c.Calibration; k != nil {
		rows = append(rows, [2]string{"calibration", k.Method + ": " + k.Reason},
			[2]string{"test before", Metrics(k.Before)}, [2]string{"test after", Metrics(k.After)})
	}
	if v := c.Verified; v != nil {
		rows = append(rows, [2]string{"verified", v.Text()})
	}
	for _, r := range c.Rejected {
		rows = append(rows, [2]string{"passed over", fmt.Sprintf("trial %d: %s", r.Trial, FirstLine(r.Reason))})
	}
	if f := c.Final; f != nil {
		rows = append(rows, [2]string{"final", fmt.Sprintf("trial %d: %s", f.Trial, f.Reason)})
	}
	if g := c.Gate; g != nil {
		rows = append(rows, [2]string{"verdict", sweep.VerdictWords(c.Verdict()) + ": " + g.Reason})
	}
	if s := c.Standing; s != nil {
		rows = append(rows, [2]string{"champion", s.Text(c.At)})
	}
	w.Pairs(append(rows, [2]string{"registered", fmt.Sprintf("%s version %d", c.Model, c.Version)})...)
	w.printf("launcher registry show %s@%d\nlauncher leaderboard %s\n", c.Model, c.Version, c.Sweep)
}
