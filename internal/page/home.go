package page

import (
	"io"
	"slices"
	"time"

	"coppice/internal/metric"
	"coppice/internal/nights"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// Index is what a console's first page shows: what there is, and how it stands.
type Index struct {
	Models   []IndexModel // by name
	Sweeps   []IndexSweep // newest first
	Datasets []IndexDataset
	More     int // sweeps that are not listed
}

// IndexModel is a model, what is live of it, and how its last sweep ended.
type IndexModel struct {
	Name               string
	Versions, Champion int
	Since              time.Time   // of the champion
	Last               *IndexSweep // that has ended; nil without
	Asked              sweep.Todo  // by one that has not ended; else it asks nothing
	Held               int         // sweeps since that did not make a champion, one after the other, the last one too
}

// States of sweeps that have not ended.
const (
	Running     = "running"
	Interrupted = "interrupted" // its job is gone, and trials are left
)

// IndexSweep is a line of the list of sweeps.
type IndexSweep struct {
	ID      string        `json:"sweep,omitempty"`
	Planned time.Time     `json:"created,omitzero"`
	Night   string        `json:"night,omitempty"` // its slot's day, if it has one, whenever it was planned
	Dataset string        `json:"dataset"`
	Trials  int           `json:"trials,omitempty"`
	State   string        `json:"outcome,omitempty"` // of the conclusion, Running, or Unreadable
	Verdict sweep.Verdict `json:"verdict,omitempty"`
	Why     string        `json:"why,omitempty"` // the verdict's reason, or why it cannot be read
	Model   string        `json:"model"`
	Version int           `json:"version,omitempty"`
	Metric  string        `json:"metric,omitempty"`
	Score   *float64      `json:"score,omitempty"`    // of the metric, of the winner on test
	SE      float64       `json:"score_se,omitempty"` // its standard error; 0 if unknown
	At      time.Time     `json:"-"`                  // when it ended
	Caution bool          `json:"-"`                  // what went live is off beyond chance, within the limit
	Asks    sweep.Todo    `json:"-"`                  // as its conclusion has it

	// Of one that runs, if it was read.
	Running bool        `json:"-"`
	Ended   int         `json:"-"`
	Best    float64     `json:"-"` // NaN without
	Left    sweep.Range `json:"-"` // seconds, about; 0 if unknown
	Price   float64     `json:"-"` // USD an hour, of all its machines; 0 if unknown
	Budget  float64     `json:"-"` // USD; 0 without
	AsOf    time.Time   `json:"-"` // when its newest object was written
}

// OwnScore heads scores that do not compare: each was measured on other rows.
const OwnScore = "score, own test rows"

// Unreadable is the state of a sweep whose plan or conclusion cannot be read.
const Unreadable = "unreadable"

// IndexDataset is a line of the list of datasets.
type IndexDataset struct {
	Name     string
	Versions int
	Staged   time.Time // the newest
	Night    *Night    // the newest record; nil without
}

// homePage is an index as its template wants it: what a person has to do, what runs, and all there is.
type homePage struct {
	*Index
	Blocked                []IndexDataset // whose newest night was
	Due                    []IndexModel   // whose last sweep asks for something
	Broken, Asked, Running []IndexSweep   // that cannot be read; that have not ended and ask for something; that run
	Things                 int            // to do
	Empty                  bool           // there is nothing yet
}

// Write writes the home page to w: first what a person has to do, then what runs, and all models, sweeps and datasets.
func (i *Index) Write(w io.Writer) error {
	p := &homePage{Index: cleaned(i), Empty: len(i.Models)+len(i.Sweeps)+len(i.Datasets) == 0}
	for _, d := range p.Datasets {
		if d.Night != nil && d.Night.State == nights.Held {
			p.Blocked = append(p.Blocked, d)
		}
	}
	for _, m := range p.Models {
		// A last night without a sweep (no ID) is a blocked table, which Blocked lists already. A todo without a
		// verdict is of a sweep that has not ended, which Asked lists.
		if m.Last != nil && m.Last.ID != "" && m.Todo().Verdict != "" && m.Todo().Due() {
			p.Due = append(p.Due, m)
		}
	}
	for _, s := range p.Sweeps {
		if s.State == Unreadable {
			p.Broken = append(p.Broken, s)
		}
		if s.Running && !s.Asks.Stopped {
			p.Running = append(p.Running, s)
		}
		s.Asks.Sweep, s.Asks.OverBudget = s.ID, s.Pace().Over()
		if s.Running && s.Asks.Due() {
			p.Asked = append(p.Asked, s)
		}
	}
	p.Things = len(p.Blocked) + len(p.Broken) + len(p.Due) + len(p.Asked)
	return writePage(w, "Coppice", "index.html", p, newData("still", "coppice"))
}

// Class is how the list of what there is to do is painted: red if something failed or is blocked, amber otherwise.
func (p *homePage) Class() string {
	broken := func(m IndexModel) bool { return m.Last.Class() == answerNone }
	stopped := func(s IndexSweep) bool { return s.Asks.Stopped }
	if len(p.Blocked)+len(p.Broken) > 0 || slices.ContainsFunc(p.Due, broken) || slices.ContainsFunc(p.Asked, stopped) {
		return answerNone
	}
	return answerHeld
}

// Todo is what the sweep asks of a person. live is the model's version that is live now, and inARow how many nights in
// a row have not changed it.
func (s IndexSweep) Todo(live, inARow int) sweep.Todo {
	t := s.Asks
	t.Worse = t.Worse && t.Live == live // that the live version got worse is settled once another one is live
	t.Verdict, t.Sweep, t.Dataset, t.Model, t.Version = s.Verdict, s.ID, s.Dataset, s.Model, s.Version
	t.Live, t.Nights = live, inARow
	return t
}

// Todo is what the model asks of a person: what its last night asks, or, if that is nothing, what a sweep of it asks
// that has not ended.
func (m IndexModel) Todo() sweep.Todo {
	if m.Last != nil && (m.Last.Todo(m.Champion, m.Held).Due() || !m.Asked.Due()) {
		return m.Last.Todo(m.Champion, m.Held)
	}
	return m.Asked
}

// Live reports whether the sweep has made the version that is live: because the sweep promoted it, or because it is the
// champion now, though the gate did not promote it, so a person did.
func (s IndexSweep) Live(champion int) bool {
	return s.Verdict == sweep.VerdictPromoted || s.Version > 0 && s.Version == champion &&
		(s.Verdict == sweep.VerdictNotPromoted || s.Verdict == sweep.VerdictNotComparable)
}

// Class is how the sweep is painted: open while it runs, green or amber if it went live, amber if its winner was
// registered only, and red if it cannot be read, was stopped, or registered nothing.
func (s IndexSweep) Class() string {
	if s.State == Unreadable || s.Asks.Stopped {
		return answerNone
	}
	switch s.Verdict {
	case "":
		return answerOpen
	case sweep.VerdictPromoted:
		return wentLive(s.Caution)
	case sweep.VerdictNotPromoted, sweep.VerdictNotComparable:
		return answerHeld
	}
	return answerNone
}

// wentLive is how what went live is painted: green, or amber where something is off beyond chance.
func wentLive(caution bool) string {
	if caution {
		return answerHeld
	}
	return answerLive
}

// standing is how a model's last night is painted, on the home page and on the model's: as the sweep's Class, but what
// the gate refused and a person promoted counts as live.
func standing(last IndexSweep, champion int) string {
	if last.Class() == answerHeld && last.Live(champion) {
		return wentLive(last.Caution)
	}
	return last.Class()
}

// Word is the sweep's state, the same as on its page and in the terminal.
func (s IndexSweep) Word() string {
	if s.Verdict != "" {
		return sweep.VerdictWords(s.Verdict)
	}
	return words(plot.Either(s.Asks.Stopped, Interrupted, s.State))
}

// Pace is that of a running sweep; what it has spent is about.
func (s IndexSweep) Pace() pace {
	return pace{Spent: s.Price * max(0, s.AsOf.Sub(s.Planned).Hours()), Hourly: s.Price, Budget: s.Budget,
		Left: s.Left}
}

// Class is how the model is painted.
func (m IndexModel) Class() string {
	if m.Last == nil {
		return "idle"
	}
	return standing(*m.Last, m.Champion)
}

// directed is a metric's name with which way is better, where the name is known.
func directed(name string) string {
	if m, err := metric.Lookup(name); err == nil {
		return name + ", " + better(m.Maximize)
	}
	return name
}
