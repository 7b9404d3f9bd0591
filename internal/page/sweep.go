package page

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"coppice/internal/metric"
	"coppice/internal/page/plot"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// Sweep is what a page about a sweep shows.
type Sweep struct {
	ID, Model, Dataset, Objective, Metric string
	Version                               string // of the launcher that planned it
	Maximize                              bool
	State                                 string // running, cancelled, winner, no_winner
	Planned, AsOf                         time.Time
	Left                                  sweep.Range  // seconds, about, of a sweep that runs; 0 if unknown
	Rows                                  int          // of train
	Params                                []Param      // those that differ between trials
	Goals                                 []sweep.Goal // of a sweep with several objectives, the metric first
	Trials                                []TrialRow   // by number
	// Of a sweep with folds, best first; a trial with a score stands for one, with its mean.
	Configurations []ConfigurationRow
	Machines       int // on which it ran
	Money          *Money
	Winner         *Winner
	Notes          []string
	Links          []Link // to pages about it elsewhere
}

// Link leads out of a page. It is followed only on request.
type Link struct{ Name, URL string }

// The states of a trial: those of results and of `launcher status`, with blanks.
const (
	StateComplete  = "done"
	StateEarly     = "stopped"
	StateFailed    = "failed"
	StateTimedOut  = "timed out"
	StateCancelled = "cancelled"
	StateRunning   = "running"
	StatePaused    = "paused"
	StateWaiting   = "waiting"
)

// States are all of them, in the order in which a page lists them.
var States = []string{StateComplete, StateEarly, StateFailed, StateTimedOut, StateCancelled, StateRunning, StateWaiting,
	StatePaused}

// Param is a parameter that differs between trials.
type Param struct {
	Name       string
	Log        bool
	Categories []string // where values are no numbers
}

// TrialRow is one trial. Numbers that are not known are NaN.
type TrialRow struct {
	Number    int
	State     string
	Reason    string    // why it ended, or where it stands
	From      string    // the source of its configuration
	Tried     string    // why it was tried; empty where nothing decided
	Score, SE float64   // its standard error; 0 if unknown
	Values    []float64 // of Params: numbers, or of categories theirs
	Trees     int       // in the model
	Grown     int
	Seconds   float64 // of training
	Cost      float64 // USD
	Attempts  int
	Ended     time.Time
	Best      int // the iteration of the score
	CurveX    []float64
	CurveY    []float64
	Highlight bool // it won
	Final     bool // it trains the winner again on all rows

	Goals []float64 // its value of each objective; nil where one is not known
	Front bool      // no other trial is better in all objectives
}

// ConfigurationRow is what is cross-validated.
type ConfigurationRow struct {
	sweep.Rated
	Rank   int       // 0 without one
	Values []float64 // of Params
}

// Money is what the sweep cost, in USD.
type Money struct {
	Known         bool // there is a price
	Free          bool // nothing is paid for: a local cloud's machines
	Total, Budget float64
	HoursTaken    float64
	Hourly        float64     // of all its machines; 0 if unknown
	Rows          [][2]string // of the bill, as a terminal has them
}

// Winner is how the sweep ended: its conclusion, and what the registry has of the winner.
type Winner struct {
	*sweep.Conclusion
	LiveNow  int    // the version that is live now; 0 if unknown
	Params   string // that differ from the defaults
	Features []Importance
	Effects  []Effect       // of the features that move its predictions most, the first one most; nil if not known
	Tested   *metric.Tested // nil where it was not recorded
}

// Importance is one feature's part in a model.
type Importance struct {
	Feature string  `json:"name"`
	Gain    float64 `json:"gain"` // share of all
	Splits  int     `json:"-"`
}

// topCurves is how many of the best trials are drawn brightly.
const topCurves = 5

// mostListed and mostDrawn are how many of the best trials have a row in the page and marks in its drawings. Of more,
// the script makes rows from the columns, and the drawings would be too dense to read and too slow to paint.
const (
	mostListed = 100
	mostDrawn  = 500
)

// sweepPage is a sweep with its drawings, as its template wants it.
type sweepPage struct {
	*Sweep
	Ranked   []*TrialRow // best first, then those without a score
	Standing map[int]int
	Board    []boardColumn // rank, trial and state first
	Counts   []stateCount
	Answer   answer
	Done, Of int    // trials that have ended, of how many, without a final training
	Final    string // that there is one, behind their number
	Curves   *plot.Chart
	Slices   []*plot.Chart
	Weights  []search.Weight // of parameters, for a good score

	// Of the winner. What is not known is nil or empty.
	Reliability *plot.Chart
	Bins        []binRow
	Top         *binRow // the tenth of the rows with its highest predictions, or a little more
	uses
	Classes *classView

	Listed []*TrialRow // of Ranked, whose rows are in the page; the script makes others
	drawn  []*TrialRow // from which the weights are
	data   *data
}

type stateCount struct {
	State, Class string
	Count        int
}

// Write writes the page of a sweep.
func (s *Sweep) Write(w io.Writer) error {
	p := s.layOut()
	return writePage(w, p.tab(), "sweep.html", p, p.data)
}

// tab is the page's title: it tells in a browser's tab how far the sweep is, or that it has ended.
func (p *sweepPage) tab() string {
	if p.Open() {
		return fmt.Sprintf("%d/%d %s", p.Done, p.Of, p.ID)
	}
	return p.StateWord() + ": " + p.ID
}

// charts returns those charts of the page that are drawn.
func (p *sweepPage) charts() []*plot.Chart {
	all := append([]*plot.Chart{p.Curves, p.Reliability}, p.Slices...)
	return slices.DeleteFunc(all, func(c *plot.Chart) bool { return c == nil })
}

// layOut computes all that a sweep's page shows from a cleaned copy of the sweep: the order of trials and parameters,
// the charts, what is known of the winner, and the answer at the top.
func (s *Sweep) layOut() *sweepPage {
	p := cleaned(s).order()
	p.Curves = p.curves()
	p.Slices = p.slices()

	if w := p.Winner; w != nil {
		p.uses = newUses(w.Effects, w.Features)
		if t := w.Tested; t != nil && len(t.Bins) > 0 {
			p.Reliability, p.Bins = reliability(t, w.Calibration != nil && w.Calibration.Method != "none")

			// Top is the first bin with which at least a tenth of the rows is covered, from the highest prediction
			// down. 1e-9 allows for rounding in the sum.
			i := slices.IndexFunc(p.Bins, func(r binRow) bool { return r.Above > 0.1-1e-9 })
			if i >= 0 && t.Calibrated {
				p.Top = &p.Bins[i]
			}
		}
		if t := w.Tested; t != nil {
			p.Classes = newClassView(t.Classes)
		}
	}

	p.Answer, p.data.Open = p.answer(), p.Open()
	p.Listed = p.Ranked[:min(len(p.Ranked), mostListed)]
	p.thinMarks()
	return p
}

// order ranks the sweep's trials and weighs its parameters, and makes the columns of its tables in that order. Neither
// charts nor the answer are made: terminals need no more than this (see Leaderboard).
func (s *Sweep) order() *sweepPage {
	p := &sweepPage{Sweep: s, data: newData("sweep", s.ID), Standing: map[int]int{}}
	p.rankTrials()
	p.weighParams()
	p.columns()
	return p
}

// thinMarks removes the marks of all trials but the best mostDrawn from the charts, and adds a note that says so. With
// fewer trials it does nothing; a final training, which has no marks, is none of them. p.Of has to be set (answer).
func (p *sweepPage) thinMarks() {
	if p.Of <= mostDrawn {
		return
	}
	p.Notes = append(p.Notes, fmt.Sprintf("The drawings show the best %d of %d trials; leaderboard, tables and "+
		"CSV have all, but for learning curves.", mostDrawn, p.Of))
	beyond := func(trial int) bool { return p.Standing[trial] > mostDrawn }
	for _, c := range p.charts() {
		c.Marks = slices.DeleteFunc(c.Marks, func(m plot.Drawn) bool { return beyond(m.Trial) })
	}
}

// Open says that it has not ended.
func (p *sweepPage) Open() bool { return p.Winner == nil }

// Promoted says that the winner went live.
func (p *sweepPage) Promoted() bool { return p.Winner.Gate != nil && p.Winner.Gate.Promoted }

// scored reports whether the trial has a score: NaN stands for none, and an infinite one cannot be ranked or drawn.
func (t *TrialRow) scored() bool { return !math.IsNaN(t.Score) && !math.IsInf(t.Score, 0) }

// Class is the CSS class by which a trial's state is painted (see class).
func (t *TrialRow) Class() string { return class(t.State) }

// class returns the CSS class of a state of trials: s0, s1, ... by its place in States. An x follows for the states in
// which a trial has left no model; plot draws marks of a class that ends in x as crosses.
func class(state string) string {
	text := "s" + strconv.Itoa(slices.Index(States, state))
	if state == StateFailed || state == StateTimedOut || state == StateCancelled {
		text += "x"
	}
	return text
}

// rankTrials fills Ranked, Standing and Counts: the trials in the order of the leaderboard, the rank of each from 1,
// and how many trials are in each state. A final training is ranked, but not counted.
func (p *sweepPage) rankTrials() {
	counts := map[string]int{}
	for i := range p.Trials {
		p.Ranked = append(p.Ranked, &p.Trials[i])
		if p.Trials[i].Final { // the page tells of it behind the number of trials
			p.data.Final, p.Final = &p.Trials[i].Number, sweep.AndTheFinal
			continue
		}
		counts[p.Trials[i].State]++
	}

	// Trials with a score come first, the best of them at the top. Of equal scores the smaller model is better. Those
	// without a score follow by number.
	group := func(t *TrialRow) int { return plot.Either(t.scored(), 0, 1) }
	slices.SortStableFunc(p.Ranked, func(a, b *TrialRow) int {
		if c := cmp.Compare(group(a), group(b)); c != 0 || !a.scored() {
			return cmp.Or(c, cmp.Compare(a.Number, b.Number))
		}
		return cmp.Or(cmp.Compare(p.loss(a), p.loss(b)), cmp.Compare(a.Trees, b.Trees), cmp.Compare(a.Number, b.Number))
	})

	for i, t := range p.Ranked {
		p.Standing[t.Number] = i + 1
	}
	for _, s := range States {
		if counts[s] > 0 {
			p.Counts = append(p.Counts, stateCount{s, class(s), counts[s]})
		}
	}
}

// loss returns a trial's score with the sign by which lower is better.
func (p *sweepPage) loss(t *TrialRow) float64 {
	if p.Maximize {
		return -t.Score
	}
	return t.Score
}

// scored returns the trials that have a score, best first: the first part of Ranked.
func (p *sweepPage) scored() []*TrialRow {
	n := slices.IndexFunc(p.Ranked, func(t *TrialRow) bool { return !t.scored() })
	if n < 0 {
		n = len(p.Ranked)
	}
	return p.Ranked[:n]
}

// boardColumn is a column of the leaderboard and of the tables of trials.
type boardColumn struct {
	Key, Name string
	Class     string // n: numbers; r: sentences
	unit      plot.Unit
	of        func(*TrialRow) any
	unlisted  bool // only in tables and CSV
	decimals  int  // behind the point, where all have as many; else 0
}

// Cell writes a trial's value in the column as text. A trial without a score shows no rank, because its Standing only
// says where it is listed: "final" if it is the final training, else a hyphen.
func (c boardColumn) Cell(t *TrialRow) string {
	if c.Key == "rank" && !t.scored() {
		return plot.Either(t.Final, "final", "-")
	}
	if v, ok := c.of(t).(float64); ok && c.decimals > 0 && t.scored() {
		return strconv.FormatFloat(v, 'f', c.decimals, 64)
	}
	return formatCell(c.unit, c.of(t))
}

// decimals returns how many digits behind the point all scores of the leaderboard have, so that they align: as many as
// sweep.Score writes for the best trial. It is 0, which leaves each number its own digits, if no trial has a score, or
// the best one has no digits behind the point or an exponent.
func (p *sweepPage) decimals() int {
	if len(p.scored()) == 0 {
		return 0
	}
	// The text may go on with the standard error: "0.7312 ± 0.0008".
	best := strings.Fields(sweep.Score(p.Ranked[0].Score, p.Ranked[0].SE))[0]
	_, after, _ := strings.Cut(best, ".")
	if strings.Contains(after, "e") {
		return 0
	}
	return len(after)
}

// formatCell writes a value of a table as text: a float64 in its unit, nil as the hyphen of an unknown number, and all
// else as fmt prints it.
func formatCell(unit plot.Unit, v any) string {
	switch v := v.(type) {
	case float64:
		return unit.Format(v)
	case nil:
		return unit.Format(math.NaN())
	default:
		return fmt.Sprint(v)
	}
}

// columns makes the columns of every table of trials, in the order in which they are shown: rank and score, the few
// parameters that matter most, how training went, and then the other parameters. Columns that say nothing in this sweep
// are left out. All of them go into the page's data for the script; Board gets those that are not unlisted.
func (p *sweepPage) columns() {
	var board []boardColumn
	// column adds a column. The result is valid until the next call, to change what most columns do not have.
	column := func(key, name, class string, unit plot.Unit, of func(*TrialRow) any) *boardColumn {
		board = append(board, boardColumn{Key: key, Name: name, Class: class, unit: unit, of: of})
		return &board[len(board)-1]
	}
	column("rank", "rank", "", plot.Plain, func(t *TrialRow) any { return p.Standing[t.Number] })
	column("trial", "trial", "", plot.Plain, func(t *TrialRow) any { return t.Number })
	column("state", "state", "", plot.Plain, func(t *TrialRow) any { return t.State })
	score := column("score", p.Metric+" on valid", "n", plot.Plain, func(t *TrialRow) any { return t.Score })
	score.decimals = p.decimals()
	if slices.ContainsFunc(p.Trials, func(t TrialRow) bool { return t.SE > 0 }) {
		column("se", "±", "n", plot.Plain, func(t *TrialRow) any { return t.SE }).decimals = score.decimals
	}
	params, most := p.byWeight(), min(mostMatter, len(p.Params))
	param := func(i int) {
		q := p.Params[i]
		class := plot.Either(q.Categories == nil, "n", "")
		column(paramKey(i), q.Name, class, plot.Plain, func(t *TrialRow) any { return q.value(t.Values[i]) })
	}
	for _, i := range params[:most] {
		param(i)
	}
	column("trees", "trees", "n", plot.Plain, func(t *TrialRow) any { return t.Trees })
	column("seconds", "training", "n", plot.Seconds, func(t *TrialRow) any { return t.Seconds })
	column("reason", "why it ended", "r", plot.Plain, func(t *TrialRow) any { return t.Reason })
	column("grown", "trees grown", "n", plot.Plain, func(t *TrialRow) any { return t.Grown }).unlisted = true
	column("cost", "cost", "n", plot.USD, func(t *TrialRow) any { return t.Cost }).unlisted =
		p.Money == nil || !p.Money.Known
	column("attempts", "attempts", "n", plot.Plain, func(t *TrialRow) any { return t.Attempts })
	column("ended", "ended", "", plot.Plain, func(t *TrialRow) any { return t.Ended }).unlisted = true
	for g := 1; g < len(p.Goals); g++ { // the first is the metric
		column(goalKey(g), p.Goals[g].Name, "n", goalUnits[p.Goals[g].Name], func(t *TrialRow) any {
			if t.Goals == nil {
				return nil
			}
			return t.Goals[g]
		})
	}
	if len(p.Goals) > 0 {
		column("front", "front", "", plot.Plain, func(t *TrialRow) any { return plot.Either(t.Front, "front", "") })
	}
	for _, i := range params[most:] {
		param(i)
	}
	if slices.ContainsFunc(p.Trials, func(t TrialRow) bool { return t.From != p.Trials[0].From }) {
		column("from", "from", "", plot.Plain, func(t *TrialRow) any { return t.From })
	}
	if slices.ContainsFunc(p.Trials, func(t TrialRow) bool { return t.Tried != "" }) {
		column("tried", "why it was tried", "r", plot.Plain, func(t *TrialRow) any { return t.Tried })
	}

	var keys []string
	for _, c := range board {
		addColumn(p.data, c.Key, c.Name, c.unit, p.Ranked, c.of)
		p.data.Columns[c.Key].Digits = c.decimals
		keys = append(keys, c.Key)
	}
	p.data.table("board", "Trials", keys...)
	p.Board = slices.DeleteFunc(board, func(c boardColumn) bool { return c.unlisted })
}

func paramKey(i int) string { return "p" + strconv.Itoa(i) }

// value returns what a table shows for v, a value as in TrialRow.Values: v itself if the parameter is a number, else
// the text of the category with index v. It is nil if v is NaN, because the trial has no value or none is chosen yet.
func (q *Param) value(v float64) any {
	if q.Categories == nil {
		return v
	}
	if i := int(v); !math.IsNaN(v) && i >= 0 && i < len(q.Categories) {
		return q.Categories[i]
	}
	return nil
}

// usual are the parameters that matter most in general, for where it is not known which do.
var usual = []string{"learning_rate", "num_leaves", "min_data_in_leaf", "feature_fraction", "lambda_l2",
	"num_iterations", "max_depth", "bagging_fraction"}

// byWeight returns the indices of p.Params in the order in which parameters are shown: first those that matter beyond
// chance in this sweep, most important first; then the usual ones; then all others as they are in p.Params.
func (p *sweepPage) byWeight() []int {
	order, place := make([]int, len(p.Params)), make([]int, len(p.Params))
	for i, q := range p.Params {
		order[i], place[i] = i, slices.Index(usual, q.Name)
		if place[i] < 0 {
			place[i] = len(usual)
		}
		for k, w := range p.Weights {
			if w.Name == q.Name && w.Share > w.Chance && len(p.drawn) >= search.FewestForImportance {
				place[i] = k - len(p.Weights) // negative, so before the usual ones; Weights has the largest first
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
	return order
}

// BestScore is that of the best trial; 0 without one.
func (p *sweepPage) BestScore() float64 {
	if s := p.scored(); len(s) > 0 {
		return s[0].Score
	}
	return 0
}

// Better is the word for which way is better.
func (p *sweepPage) Better() string { return better(p.Maximize) }

func better(maximize bool) string {
	return plot.Either(maximize, "higher is better", "lower is better")
}

// StateWord returns the words for the sweep's verdict, or for its state if it has not ended: the same as in the
// terminal and in JSON.
func (p *sweepPage) StateWord() string {
	if p.Winner != nil {
		return sweep.VerdictWords(p.Winner.Verdict())
	}
	return words(p.State)
}
