package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/metric"
	"coppice/internal/page/plot"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

var goalUnits = map[string]plot.Unit{"model_bytes": plot.Bytes, "train_seconds": plot.Seconds}

func goalKey(g int) string { return "g" + strconv.Itoa(g) }

// curves draws the learning curves of the best mostDrawn trials, as far as they have one: all of them faintly, the best
// few brightly above them. A curve of a trial that neither runs nor is complete ends in a mark of its state. The drawn
// points also go into the page's data.
func (p *sweepPage) curves() *plot.Chart {
	// The metric on the curves is that of early stopping. It differs from the sweep's metric only where that is a value
	// by an expression (metric.OfRows), which tells trees apart worse.
	by, maximize := p.Metric, p.Maximize
	if m, err := metric.Lookup(by); err == nil && m.Kind == metric.OfRows {
		m, _ = m.Stop(p.Objective)
		by, maximize = m.Name, m.Maximize
	}
	c := plot.Plot{Chart: plot.Chart{ID: "curves", Title: "Learning curves", W: plot.Full, H: 380, Tabled: true},
		X: plot.Axis{Label: "trees", Whole: true}, Y: plot.Axis{Label: by + " on valid, " + better(maximize)}}
	var with []*TrialRow                          // trials with a curve
	early := 0                                    // how many of them were stopped early
	for _, t := range slices.Backward(p.Ranked) { // the best last, on top
		if len(t.CurveX) > 0 && p.Standing[t.Number] <= mostDrawn {
			with = append(with, t)
			if t.State == StateEarly {
				early++
			}
		}
	}

	kept := &curves{}
	keep := plot.Kept(len(with))
	for _, t := range with {
		peak := slices.Index(t.CurveX, float64(t.Best))
		x, y, peak := plot.Thin(t.CurveX, t.CurveY, keep, peak)
		l := plot.Line{Trial: t.Number, Class: "curve", X: x, Y: y, Peak: -1}
		if t.State != StateComplete && t.State != StateRunning {
			l.End = "end " + t.Class()
		}
		if place := p.Standing[t.Number]; place <= topCurves && t.scored() {
			l.Class = "curve k k" + strconv.Itoa(place)
			l.Peak = peak
		}
		c.Lines = append(c.Lines, l)
		kept.Trial = append(kept.Trial, t.Number)

		// The script wants x as steps from the point before, which are shorter to write (see curves.X).
		steps := slices.Clone(x)
		for i := len(x) - 1; i > 0; i-- {
			steps[i] -= x[i-1]
		}
		kept.X, kept.Y = append(kept.X, roundNumbers(steps)), append(kept.Y, roundNumbers(y))
	}
	c.Y.Low, c.Y.High = window(with, maximize)

	c.Summary = fmt.Sprintf("%s of at most %d points. A dot on each of the best %d marks the iteration that was "+
		"scored.", english.Plural(len(with), "curve", ""), keep, min(topCurves, len(p.scored())))
	if early > 0 {
		c.Summary += fmt.Sprintf(" %s stopped.", english.Plural(early, "trial", ""))
	}
	for i, t := range p.scored()[:min(topCurves, len(p.scored()))] {
		c.Keys = append(c.Keys, plot.Key{Class: "curve k k" + strconv.Itoa(i+1),
			Label: fmt.Sprintf("%d: trial %d", i+1, t.Number)})
	}
	c.Keys = append(c.Keys, plot.Key{Class: "curve", Label: "others"},
		plot.Key{Class: "peak key", Label: "scored iteration"}, plot.Key{Class: "curve own", Label: "picked out"})
	p.data.Curves = kept
	p.data.table("curves", "Learning curves", "trial", "tree", "score")
	return c.Draw()
}

// window returns the range of the vertical axis for the curves of these trials: all scores but the worst fiftieth, and
// 5 % of the range above and below. The scores after the first trees are so bad that a range with them would press all
// curves into a line. Of fewer than 20 scores it returns 0, 0, by which the axis takes the range of the data.
func window(trials []*TrialRow, maximize bool) (low, high float64) {
	var all []float64
	for _, t := range trials {
		all = append(all, t.CurveY...)
	}
	if len(all) < 20 {
		return 0, 0
	}
	slices.Sort(all)
	low, high = all[len(all)/50], all[len(all)-1]
	if !maximize {
		low, high = all[0], all[len(all)-1-len(all)/50]
	}
	margin := 0.05 * (high - low)
	return low - margin, high + margin
}

// roundNumbers rounds values to five digits, more than a chart can show, since the page holds many. NaN and infinities
// stay.
func roundNumbers(values []float64) []num {
	out := make([]num, len(values))
	for i, v := range values {
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64) // what was formatted can be parsed
		out[i] = num(v)
	}
	return out
}

// byPedAnova says what an importance is.
const byPedAnova = "Importance is how differently the best trials are distributed along a parameter (PED-ANOVA), of " +
	"trials that were drawn or proposed, less what chance gives; one null sweep of twenty exceeds the chance."

// manyDrawn is from how many drawn trials on the importance of parameters is told as a finding, not as a hint.
const manyDrawn = 100

// Importance says in words which parameters matter for a good score beyond chance, or that there are too few trials to
// tell.
func (p *sweepPage) Importance() string {
	var above []string
	for _, w := range p.Weights {
		if w.Share > w.Chance {
			above = append(above, w.Name)
		}
	}
	switch {
	case len(p.drawn) < search.FewestForImportance:
		return fmt.Sprintf("%d drawn trials with a score are too few to tell which parameters matter (%d are needed).",
			len(p.drawn), search.FewestForImportance)
	case len(above) == 0:
		return "No parameter matters beyond chance. " + byPedAnova
	case len(p.drawn) < manyDrawn:
		return fmt.Sprintf("A hint, of %d drawn trials: %s. %s", len(p.drawn), english.WordSeries(above, "and"),
			byPedAnova)
	}
	return "Beyond chance: " + english.WordSeries(above, "and") + ". " + byPedAnova
}

// slices draws the score over each of the most important parameters: one chart for each, a mark for each trial. The
// winner has a ring around its mark, and better trials are drawn over worse ones.
func (p *sweepPage) slices() (charts []*plot.Chart) {
	for _, i := range p.byWeight()[:min(mostMatter, len(p.Params))] {
		q := &p.Params[i]
		s := plot.Plot{Chart: plot.Chart{ID: "slice-" + strconv.Itoa(i), Title: q.Name, W: plot.Quarter, H: 200,
			Summary: "No trial has a score."}, X: plot.Axis{Log: q.Log, Categories: q.Categories},
			Y: plot.Axis{Label: p.Metric}}
		if best := p.scored(); len(best) > 0 {
			s.Summary = fmt.Sprintf("The best trial has %s.", formatCell(plot.Plain, q.value(best[0].Values[i])))
		}
		for _, t := range slices.Backward(p.scored()) {
			mark := plot.Point{Trial: t.Number, X: t.Values[i], Y: t.Score, Class: t.Class()}
			if ring := mark; p.Winner != nil && t.Highlight {
				ring.Class = "ring"
				s.Points = append(s.Points, ring)
			}
			s.Points = append(s.Points, mark)
		}
		charts = append(charts, s.Draw())
	}
	return charts
}

// planned are the sources of configurations that were given, not drawn from a range. Most of their parameters have the
// same values, so their scores say little about single parameters.
var planned = []string{search.SourceFixed, search.SourceGrid, search.SourceDefault, search.SourceWarm,
	search.SourcePortfolio, sweep.SourceRefit, sweep.SourceFinal}

// weighParams computes how much each parameter matters for a good score (p.Weights) from the trials whose
// configurations were drawn at random or proposed by the search (p.drawn).
func (p *sweepPage) weighParams() {
	const level = 0.05 // of chance findings in a sweep in which no parameter matters

	// The loss of a trial is its rank among the trials of its own source, from 0 (best) to 1. Scores of two sources are
	// not compared: a search proposes better trials than chance draws, with other values of every parameter.
	loss, bySource := map[*TrialRow]float64{}, map[string][]*TrialRow{}
	for _, t := range p.scored() {
		if !slices.Contains(planned, t.From) {
			p.drawn, bySource[t.From] = append(p.drawn, t), append(bySource[t.From], t)
		}
	}
	for _, trials := range bySource {
		for i, t := range trials { // best first
			loss[t] = (float64(i) + 0.5) / float64(len(trials))
		}
	}

	var dims []search.Dimension
	for i, q := range p.Params {
		d := search.Dimension{Name: q.Name, Categories: len(q.Categories), Log: q.Log}
		for _, t := range p.drawn {
			d.Values = append(d.Values, t.Values[i])
		}
		dims = append(dims, d)
	}
	var losses []float64
	for _, t := range p.drawn {
		losses = append(losses, loss[t])
	}
	p.Weights = search.Importance(dims, losses)

	// search.Importance gives the Chance that one parameter exceeds at the level of 5 %. Here it is to hold for all k
	// parameters together. The tail of an exponential distribution with mean 1 is -log(level) for one draw and
	// log(k/level) for the largest of k; the mean is taken off both, as search.Importance takes what chance gives on
	// average off Chance. The factor 2 is from sweeps in which nothing matters: their tail was found twice as long.
	for i := range p.Weights {
		p.Weights[i].Chance *= 2 * (math.Log(float64(len(p.Weights))/level) - 1) / (math.Log(1/level) - 1)
	}
}
