package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// ModelNight is one night of a model: a sweep of it, or a table that was blocked before one.
type ModelNight struct {
	At             time.Time // when the sweep was planned, or the table staged
	Sweep, Dataset string    // Sweep is empty without one
	Verdict        sweep.Verdict
	Why            string
	Version        int      // that was registered; 0 without
	Found          []string // what staging found in the table, without notes

	// The gate's metric on tonight's test rows: of the version that was live before, whose next day these are, and of
	// the new one. NaN where they were not compared.
	Metric    string
	Was       int // the version that was live before
	Next, New float64

	Live    int    // the version that was live afterwards; 0 without. Write fills it in
	Changed string // against the version before. Write fills it in
}

// Night is the night as the list of sweeps has it, for its colour and its word.
func (n ModelNight) Night() IndexSweep {
	return IndexSweep{State: map[bool]string{true: "open", false: ""}[n.Verdict == ""], Verdict: n.Verdict}
}

// Held says that the night has ended and what it made, if anything, is not live.
func (n ModelNight) Held() bool {
	return n.Verdict != "" && n.Verdict != sweep.VerdictPromoted && n.Verdict != sweep.VerdictCancelled
}

// Value is a number of a night, as text.
func (n ModelNight) Value(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return plot.Plain.Format(v)
}

// nights fills in what was live after each night and what changed in it, and draws how the live version did on each
// night's rows.
func (p *modelPage) nights() {
	before := func(i int) time.Time { // when the night after the i-th began
		if i == 0 {
			return time.Time{}
		}
		return p.Nights[i-1].At
	}
	for i := range p.Nights {
		n := &p.Nights[i]
		for _, m := range p.Moves {
			if end := before(i); m.Alias == registry.Champion && (end.IsZero() || m.At.Before(end)) {
				n.Live = m.To
			}
		}
		n.Changed = strings.Join(append(p.changed(n.Version), n.Found...), "; ")
		if n.Held() {
			p.Back++
		}
	}
	for _, m := range p.Moves {
		if m.Alias == registry.Champion && p.Champion > 0 {
			p.Since, p.Became = m.At, "promoted"
			if m.Kind == registry.RolledBack {
				p.Became = "restored by a rollback"
			}
		}
	}
	p.Answer = p.answer()
	if p.Next = p.next(); p.Next == nil {
		return
	}
	tabulate(p.data, p.Next.ID, p.Next.Title, p.Nights, []field[ModelNight]{
		{"night", plot.Plain, func(n ModelNight) any { return n.At }},
		{"verdict", plot.Plain, func(n ModelNight) any { return n.Night().Word() }},
		{"live before", plot.Plain, func(n ModelNight) any { return n.Was }},
		{"metric", plot.Plain, func(n ModelNight) any { return n.Metric }},
		{"live version, next day", plot.Plain, func(n ModelNight) any { return n.Next }},
		{"new version", plot.Plain, func(n ModelNight) any { return n.New }},
	})
}

// changed says in which parameters a version differs from the one before it.
func (p *modelPage) changed(version int) []string {
	i := slices.IndexFunc(p.Versions, func(v VersionView) bool { return v.Number == version })
	if i < 1 || p.Versions[i].Params == nil || p.Versions[i-1].Params == nil {
		return nil
	}
	a, b := p.Versions[i-1], p.Versions[i]
	var names, out []string
	for _, q := range slices.Concat(a.Params, b.Params) {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if x, y := a.param(name), b.param(name); x != y {
			out = append(out, fmt.Sprintf("%s %s → %s", name, x, y))
		}
	}
	return out
}

// answer says which version is live, and how the last night went.
func (p *modelPage) answer() answer {
	v := answer{Class: answerOpen, Title: "Nothing is live"}
	if p.Champion > 0 {
		v.Title = fmt.Sprintf("Version %d is live", p.Champion)
	}
	v.add("versions", strconv.Itoa(len(p.Versions)))
	if len(p.Nights) == 0 {
		return v
	}

	last := p.Nights[0]
	v.Class = last.Night().Class()
	v.Text = strings.TrimSpace(fmt.Sprintf("%s. %s", last.Night().Word(), sentence(capital(last.Why))))
	promoted, held := 0, 0
	for i, n := range p.Nights {
		if n.Verdict == sweep.VerdictPromoted {
			promoted++
		}
		if n.Held() && held == i { // none since was promoted
			held++
		}
	}
	if held > 1 {
		v.Text += fmt.Sprintf(" %d nights in a row have made no champion.", held)
	}
	if held > 0 && p.Champion > 0 {
		v.Text += fmt.Sprintf(" If nobody acts, version %d stays live and the next night tries again.", p.Champion)
	}
	v.add("made a champion", fmt.Sprintf("%d of %s", promoted, english.Plural(len(p.Nights), "night", "")))
	v.add("held back", english.Plural(p.Back, "night", ""))
	if !math.IsNaN(last.Next) {
		v.add(last.Metric+", live, next day", plot.Plain.Format(last.Next))
		v.add(last.Metric+", new", plot.Plain.Format(last.New))
	}
	return v
}

// next draws the live version's metric on the rows of the night after its own, and the new version's on the same rows;
// nil where no night compared two.
func (p *modelPage) next() *plot.Chart {
	c := plot.Lines{Chart: plot.Chart{ID: "next-day", Title: "The live version on the next night's rows", W: plot.Full,
		H: 220}, X: plot.Axis{Unit: plot.Days, Whole: true}}
	live := plot.Line{Trial: plot.None, Class: "rel r1", Dots: "dots r1", Peak: -1}
	tonight := plot.Line{Trial: plot.None, Class: "rel r0", Dots: "dots r0", Peak: -1}
	better, metric := 0, ""
	for _, n := range slices.Backward(p.Nights) {
		if math.IsNaN(n.Next) || math.IsNaN(n.New) {
			continue
		}
		if metric != n.Metric { // a metric of its own has a scale of its own
			metric, better, live.X, live.Y, tonight.X, tonight.Y = n.Metric, 0, nil, nil, nil, nil
		}
		live.X, live.Y = append(live.X, day(n.At)), append(live.Y, n.Next)
		tonight.X, tonight.Y = append(tonight.X, day(n.At)), append(tonight.Y, n.New)
		if n.Night().Verdict == sweep.VerdictPromoted {
			better++
		}
	}
	if len(live.X) == 0 {
		return nil
	}
	c.Y.Label, c.Lines = directed(metric), []plot.Line{tonight, live}
	c.Summary = fmt.Sprintf("%s of the version that was live and of the night's new one, on the same test rows. "+
		"In %d of the %d that compared two (of %s) the new one was promoted. Last: %s live, %s new. Each night has "+
		"other rows: compare the lines, not the nights.", capital(metric), better, len(live.X),
		english.Plural(len(p.Nights), "night", ""), plot.Plain.Format(live.Y[len(live.Y)-1]),
		plot.Plain.Format(tonight.Y[len(tonight.Y)-1]))
	c.Keys = []plot.Key{
		{Class: "rel r1", Label: "live, its next day"},
		{Class: "rel r0", Label: "the night's new version"},
	}
	return c.Draw()
}
