package page

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

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
	Since              time.Time // of the champion
	Metric             string
	Trend              []float64   // of the metric on test of the newest winners, oldest first
	Last               *IndexSweep // that has ended; nil without
	Held               int         // sweeps since that did not make a champion, one after the other, the last one too
}

// Running is the state of a sweep that has not ended.
const Running = "running"

// IndexSweep is a line of the list of sweeps.
type IndexSweep struct {
	ID      string        `json:"sweep"`
	Planned time.Time     `json:"created"`
	Night   string        `json:"-"` // its slot's day, if it has one, whenever it was planned
	Dataset string        `json:"dataset"`
	Trials  int           `json:"trials"`
	State   string        `json:"outcome"` // of the conclusion, Running, or Unreadable
	Verdict sweep.Verdict `json:"verdict,omitempty"`
	Why     string        `json:"why,omitempty"` // the verdict's reason, or why it cannot be read
	Model   string        `json:"model"`
	Version int           `json:"version,omitempty"`
	Metric  string        `json:"metric,omitempty"`
	Score   *float64      `json:"score,omitempty"` // of the metric, of the winner on test
	At      time.Time     `json:"-"`               // when it ended
	Caution bool          `json:"-"`               // what went live is off beyond chance, within the limit

	// Of one that runs, if it was read.
	Running bool        `json:"-"`
	Ended   int         `json:"-"`
	Best    float64     `json:"-"` // NaN without
	Left    sweep.Range `json:"-"` // seconds, about; 0 if unknown
	Price   float64     `json:"-"` // USD an hour, of all its machines; 0 if unknown
	Budget  float64     `json:"-"` // USD; 0 without
	Now     time.Time   `json:"-"` // when its newest object was written
}

// Unreadable is the state of a sweep whose plan or conclusion cannot be read.
const Unreadable = "unreadable"

// IndexDataset is a line of the list of datasets.
type IndexDataset struct {
	Name     string
	Versions int
	Staged   time.Time // the newest
	Night    *Night    // the newest record; nil without
}

// need is something that a person has to look at.
type need struct{ Class, Kind, Link, Name, Text, Command string }

// homePage is an index as its template wants it.
type homePage struct {
	*Index
	Needs   []need
	Running []IndexSweep
	Empty   bool // there is nothing yet
}

// leftBlocked is what comes of a blocked night that nobody looks at.
const leftBlocked = "If nobody accepts or mends it, nothing is trained on it and what is live stays live."

// Write writes the page.
func (i *Index) Write(w io.Writer) error {
	p := &homePage{Index: cleaned(i), Empty: len(i.Models)+len(i.Sweeps)+len(i.Datasets) == 0}
	for _, d := range p.Datasets {
		if n := d.Night; n != nil && n.State == "blocked" {
			text := fmt.Sprintf("version %s was blocked when it was staged.", n.Version)
			if why := nights.Reason(n.Findings); why != "" {
				text += " Found: " + sentence(why)
			}
			text += " " + leftBlocked
			p.Needs = append(p.Needs, need{answerNone, "blocked", "/datasets/" + d.Name, d.Name, text,
				"launcher datasets show " + d.Name + "@" + n.Version})
		}
	}
	for _, m := range p.Models {
		if m.Held > 0 {
			text := "the last sweep made no champion: " + sentence(m.Last.Why)
			if m.Held > 1 {
				text = fmt.Sprintf("%d sweeps in a row made no champion. The last one: %s", m.Held,
					sentence(m.Last.Why))
			}
			if m.Champion > 0 {
				text += fmt.Sprintf(" If nobody acts, version %d stays live and the next sweep tries again.",
					m.Champion)
			}
			p.Needs = append(p.Needs, need{m.Last.Class(), m.Last.Word(), "/sweeps/" + m.Last.ID, m.Name, text,
				"launcher nights " + m.Name})
		}
	}
	for _, s := range p.Sweeps {
		if s.Running {
			p.Running = append(p.Running, s)
			if text := s.Pace().warning(); text != "" {
				p.Needs = append(p.Needs, need{answerHeld, "will reach budget", "/sweeps/" + s.ID, s.ID, text,
					"launcher bill " + s.ID})
			}
		}
		if s.State == Unreadable {
			p.Needs = append(p.Needs, need{answerNone, "unreadable", "/sweeps/" + s.ID, s.ID,
				"its plan or its conclusion cannot be read. If nobody repairs it, its results stay out of all " +
					"pages; no other sweep waits for it.", "launcher status " + s.ID})
		}
	}
	later := func(n need) int { return map[bool]int{true: 1}[n.Class != answerNone] } // than what is broken
	slices.SortStableFunc(p.Needs, func(a, b need) int { return cmp.Compare(later(a), later(b)) })
	return write(w, "Coppice", "index.html", p, newData("still", "coppice"))
}

// Headline is the page's first line.
func (p *homePage) Headline() string {
	text := "Nothing needs you"
	if n := len(p.Needs); n > 0 {
		text = english.PluralWord(n, "One thing needs you", fmt.Sprintf("%d things need you", n))
	}
	if n := len(p.Running); n > 0 {
		text += fmt.Sprintf(", %s", english.PluralWord(n, "one sweep runs", fmt.Sprintf("%d sweeps run", n)))
	}
	return text
}

// Live says that the sweep has made the champion, by itself or by hand.
func (s IndexSweep) Live(champion int) bool {
	return s.Verdict == sweep.VerdictPromoted || s.Version > 0 && s.Version == champion &&
		(s.Verdict == sweep.VerdictNotPromoted || s.Verdict == sweep.VerdictNotComparable)
}

// Class is how the sweep is painted.
func (s IndexSweep) Class() string {
	if s.State == Unreadable {
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

// standing is how a model's last night is painted, at home and on the model's page: what was promoted by hand is live.
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
	return words(s.State)
}

// Progress is how far a running sweep is, in a line.
func (s IndexSweep) Progress() string {
	text := fmt.Sprintf("%d of %s ended", s.Ended, english.Plural(s.Trials, "trial", ""))
	pace := s.Pace()
	if left := pace.seconds(); left > 0 {
		text += fmt.Sprintf(", about %s left", plot.Seconds.Format(left))
	}
	if pace.Spent > 0 {
		text += ", about " + ofBudget(pace.Spent, s.Budget) + " spent"
	}
	if !math.IsNaN(s.Best) {
		text += fmt.Sprintf(", best %s %s", s.Metric, plot.Plain.Format(s.Best))
	}
	return text + "."
}

// Pace is that of a running sweep; what it has spent is about.
func (s IndexSweep) Pace() pace {
	return pace{s.Price * max(0, s.Now.Sub(s.Planned).Hours()), s.Price, s.Budget, s.Left}
}

// Class is how the model is painted.
func (m IndexModel) Class() string {
	if m.Last == nil {
		return "idle"
	}
	return standing(*m.Last, m.Champion)
}

// Spark is the model's trend as a small drawing; empty of fewer than two.
func (m IndexModel) Spark() string { return plot.Spark(m.Trend, 0, 160, 32) }

// Trended says what the trend shows: the values at its ends.
func (m IndexModel) Trended() string {
	last := len(m.Trend) - 1
	if last < 1 {
		return fmt.Sprintf("%s on test: %s", m.Metric, plot.Plain.Format(m.Trend[last]))
	}
	return fmt.Sprintf("Test %s: from %s to %s in %s, each on its own rows", directed(m.Metric),
		plot.Plain.Format(m.Trend[0]), plot.Plain.Format(m.Trend[last]), english.Plural(last, "night", ""))
}

// directed is a metric's name with which way is better, where the name is known.
func directed(name string) string {
	if m, err := metric.Lookup(name); err == nil {
		return name + ", " + better(m.Maximize)
	}
	return name
}
