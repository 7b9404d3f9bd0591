package show

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/metric"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/launcher/internal/draft"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// Fit is what `launcher fit` has come to: the sweep's conclusion, and what else fit knows.
type Fit struct {
	*sweep.Conclusion
	Found    []draft.Finding    `json:"found"`
	Rows     int64              `json:"rows"`
	Dataset  string             `json:"dataset"`
	Champion bool               `json:"champion"`
	Why      string             `json:"why,omitempty"` // not
	Metric   string             `json:"metric"`
	Trials   int                `json:"trials"`
	Params   string             `json:"params"`                     // that differ from their defaults
	Default  *float64           `json:"default,omitempty"`          // on valid, of the default configuration
	Base     float64            `json:"base_rate,omitempty"`        // share of positive rows where it was judged
	Classes  []ClassRate        `json:"classes,omitempty"`          // of several: their shares there
	Alone    map[string]float64 `json:"alone,omitempty"`            // score of the mean, or of random order, there
	Without  string             `json:"without_features,omitempty"` // what a model without any scores there, in words
	Features []page.Importance  `json:"features,omitempty"`
	Hurried  string             `json:"hurried,omitempty"`  // how far the minutes were from enough
	TooGood  string             `json:"too_good,omitempty"` // a question where it is nearly perfect
	Warnings []string           `json:"warnings,omitempty"`
	Types    []Typed            `json:"types,omitempty"` // of what is not a statistic of others
	Page     string             `json:"page,omitempty"`
	Folder   string             `json:"folder,omitempty"` // with a copy of the version
	Data     string             `json:"-"`                // the local cloud's folder, if it is not the usual one
	Plan     *sweep.Plan        `json:"-"`

	Leaderboard []Tried `json:"leaderboard"` // best first

	judged *metric.Tested // nil where it is not recorded
	usual  *sweep.Result  // of Default
}

// Tried is a trial of the leaderboard.
type Tried struct {
	Trial   int          `json:"trial"`
	State   string       `json:"state"`
	Score   *float64     `json:"score"` // on valid; nil without a tree
	Trees   int          `json:"trees"`
	Seconds float64      `json:"seconds"`
	Params  sweep.Params `json:"params"`
}

// ClassRate is the share of one of several classes.
type ClassRate struct {
	Name string  `json:"name"`
	Rate float64 `json:"rate"`
}

// Typed says what a column became, and why.
type Typed struct {
	Name    string       `json:"name"`
	Kind    dataset.Kind `json:"kind"`
	Because dataset.Why  `json:"because"`
}

// mostTyped is the most features whose types a fit prints.
const mostTyped = 40

// mostFeatures is how many features a summary names.
const mostFeatures = 8

// NewFit summarises a fit whose sweep, of the plan p and the last state st, has ended with a winner. d is the draft of
// its specs, view its page. The caller sets what it has saved (Page, Folder, Data), and adds warnings.
func NewFit(d *draft.Draft, p *sweep.Plan, st sweepview.State, view *page.Sweep) *Fit {
	c := st.Conclusion
	f := &Fit{Conclusion: c, Plan: p, Found: d.Found, Rows: d.Rows, Dataset: p.Dataset.Name + "@" + p.Dataset.Version,
		Champion: c.Verdict() == sweep.VerdictPromoted, Metric: p.Spec.Metric, Trials: len(p.Own()),
		Params: chosen(p.Trials[c.Trial].Params)}
	if !f.Champion {
		f.Why = c.Why()
	}
	if f.usual = search.Default(st.Board); f.usual != nil {
		f.Default = &f.usual.Score
	}

	// All trials that have ended, the best first.
	f.Leaderboard = make([]Tried, 0, len(st.Board.Rows))
	for _, row := range st.Board.Rows {
		if r := row.Result; r != nil {
			t := Tried{Trial: r.Trial, State: r.State(), Trees: r.Trees, Seconds: r.Usage.TrainSeconds,
				Params: row.Trial.Params}
			if r.Trees > 0 {
				t.Score = &r.Score
			}
			f.Leaderboard = append(f.Leaderboard, t)
		}
	}

	// What the winner's files tell: features, and what the rows were like on which it was judged.
	if view.Winner != nil {
		f.Features = view.Winner.Features[:min(len(view.Winner.Features), mostFeatures)]
		if t := view.Winner.Tested; t != nil {
			f.judged, f.Alone = t, t.Alone
			for i, share := range t.Shares() { // of the rows that the metrics are of
				if t.Calibrated { // labels 0 and 1, of which the share of 1 comes last
					f.Base = share
				} else {
					f.Classes = append(f.Classes, ClassRate{t.Classes[i].Name, share})
				}
			}
		}
	}
	return f
}

// Hurry adds a warning if the limit (--minutes) ended the winner's training, or left out more than half of the trials
// that were wanted, and sets f.Hurried to it. It says for how many minutes to repeat the fit: as many as all trials
// would take in proportion, at least twice as many, and rounded up to tenths. If a task was held up (trouble), as by a
// full disk, more minutes would not help, and it says what held it up. board has the trials' results. The model may be
// the champion all the same, as the best of what there was time for.
func (f *Fit) Hurry(wanted int, limit time.Duration, board []sweep.Row, trouble *sweep.Trouble) {
	var cut string
	for _, row := range board {
		if r := row.Result; r != nil && r.Trial == f.Trial && r.AtLimit {
			cut = fmt.Sprintf(", and cut the training of the best one at %s", english.Plural(r.TreesGrown, "tree", ""))
		}
	}
	if cut == "" && 2*f.Done >= wanted {
		return
	}
	if trouble != nil {
		f.Hurried = fmt.Sprintf("%d of %s ended%s, since task %d was held up: %s; mend that and fit again", f.Done,
			english.Plural(wanted, "trial", ""), cut, trouble.Task, trouble.Text)
		f.Warnings = append(f.Warnings, f.Hurried)
		return
	}
	enough := limit.Minutes() * float64(wanted) / float64(max(f.Done, 1))
	f.Hurried = fmt.Sprintf("--minutes (%s) allowed %d of %s%s: the model may be underfit; repeat with --minutes %v",
		limit, f.Done, english.Plural(wanted, "trial", ""), cut, math.Ceil(10*max(enough, 2*limit.Minutes()))/10)
	f.Warnings = append(f.Warnings, f.Hurried)
}

// AskOfLeak adds a question as a warning if a model is nearly perfect on test: whether a column is known only after the
// label. It also sets f.TooGood to it. It names the five columns, at most, that share most of the gain of f.Features; e
// says of which columns a feature is made. Nearly perfect is an AUC above 0.98 or, of several classes, a multi_error
// below 0.5 % or, without either metric, an R2 above 0.98: real tables without a leak seldom come that far.
func (f *Fit) AskOfLeak(e *dataset.Encoding) {
	name, perfect := "auc", f.Test["auc"] > 0.98
	if wrong, ok := f.Test["multi_error"]; ok {
		name, perfect = "multi_error", wrong < 0.005
	} else if f.Test[name] == 0 { // there is no AUC: the label is a number, or an order
		name, perfect = "r2", f.Test["r2"] > 0.98
	}
	if !perfect {
		return
	}

	// Divide each feature's gain among the columns that it is made of.
	gains := map[string]float64{}
	for i := range e.Features {
		columns := e.ColumnsOf(i)
		for _, s := range f.Features {
			for _, c := range columns {
				if s.Feature == e.Features[i].Name {
					gains[c] += s.Gain / float64(len(columns))
				}
			}
		}
	}
	largest := slices.SortedFunc(maps.Keys(gains), func(a, b string) int {
		return cmp.Or(cmp.Compare(gains[b], gains[a]), cmp.Compare(a, b))
	})

	f.TooGood = fmt.Sprintf("nearly perfect on test (%s %s): is a column known only after the label?", name,
		Number(f.Test[name]))
	if len(largest) > 0 {
		f.TooGood += fmt.Sprintf(" Largest: %s; leave it out with --drop",
			strings.Join(largest[:min(len(largest), 5)], ", "))
	}
	f.Warnings = append(f.Warnings, f.TooGood)
}

// Found writes what fit has decided about a table, a line for each decision.
func (w Printer) Found(all []draft.Finding) {
	for _, f := range all {
		w.Printf("%-9s  %s\n", f.About, f.Text)
	}
}

// Notable writes what a person should know of a table that fit has staged: columns' types, warnings, and where to see
// the rest.
func (w Printer) Notable(s *stager.Staged) {
	m := s.Manifest
	w.features(m, mostTyped)
	w.warnings(m.About.Warnings, isFirst(s.Night))
	if len(m.About.Warnings) > 0 {
		w.Printf("%-9s  Override with --drop, --categorical, --missing or --format; for anything else, edit the files "+
			"from --save-specs\n", "")
	}
	w.Printf("%-9s  %s features of %s rows; all of them: launcher datasets show %s\n", "dataset",
		humanize.Comma(int64(len(m.Features))), humanize.Comma(int64(page.RowsOf(m))), m.Name)
}

// Fitted writes what a fit has come to: what became of its winner, how good it is, which features it uses, and the
// commands that predict with it, serve, promote and show it.
func (w Printer) Fitted(f *Fit) {
	w.Head(f.Plan, f.Conclusion, registry.Event{})
	usual := ""
	if r := f.usual; r != nil {
		usual = fmt.Sprintf("trial %d: %s", r.Trial, r.ScoreText())
	}
	var uses []string
	for _, s := range f.Features {
		if s.Gain > 0 {
			uses = append(uses, fmt.Sprintf("%s %s", s.Feature, sweep.Percent(s.Gain)))
		}
	}
	rows := append([][2]string{{"warning", f.Hurried}, {"warning", f.TooGood}}, judged(f.Conclusion, f.Params,
		f.Metric)...)
	w.Pairs(append(rows, [2]string{"no features", f.WithoutFeatures()}, [2]string{"the default", usual},
		[2]string{"uses", strings.Join(uses, ", ")}, [2]string{"page", f.Page})...)

	// The commands. MODEL alone is the champion, which may be another version.
	version, predicts := fmt.Sprintf("%s@%d", f.Model, f.Version), f.Model
	if !f.Champion {
		predicts = version
	}
	in := "" // where the commands find the model
	if f.Data != "" {
		in = fmt.Sprintf("COPPICE_LOCAL='%s' ", strings.ReplaceAll(f.Data, "'", `'\''`))
	}
	w.Command("%slauncher predict --model %s --in NEW.csv --out scored.csv", in, predicts)
	w.Command("%slauncher serve --model %s", in, predicts)
	if !f.Champion {
		w.Command("%slauncher registry promote %s --why \"checked by hand\"", in, version)
	}
	w.Command("%slauncher registry show %s", in, version)
}

// WithoutFeatures says what a model without features scores on test by the fit's metric: one that always predicts the
// base rate, the classes' shares or the mean, or ranks rows at random. It adds the share of the most frequent of
// several classes, or of the positive rows, and says if that score is better than this model's. It is "" if that is not
// known.
func (f *Fit) WithoutFeatures() string {
	alone, ok := f.judged.OfConstant(f.Metric)
	if !ok {
		return ""
	}
	what, more := f.judged.Without(f.Metric), ""
	switch {
	case len(f.Classes) > 0:
		most := slices.MaxFunc(f.Classes, func(a, b ClassRate) int { return cmp.Compare(a.Rate, b.Rate) })
		more = fmt.Sprintf("; the most frequent, %s, has %s of the rows", most.Name, sweep.Percent(most.Rate))
	case f.Base > 0:
		what += ", " + sweep.Percent(f.Base) + " of the test rows"
	}

	// Compare with the model's own value, by Score: where neither the least nor the largest value is the best one, that
	// is the distance from the best. The metric is known, since the sweep was planned with it.
	m, _ := metric.Lookup(f.Metric)
	value, ok := f.Test[f.Metric]
	own, constant := m.Score(value), m.Score(alone)
	better := constant < own
	if m.Maximize {
		better = constant > own
	}
	if ok && better {
		more += "; better than this model, which has learned nothing that holds on test rows"
	}
	return fmt.Sprintf("%s: %s %s%s", what, f.Metric, Number(alone), more)
}
