package page

import (
	"fmt"
	"html/template"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// answer is what a page begins with: how it is painted, and its title. What else it says is in the page's template, in
// one place for each state.
type answer struct{ Class, Title string }

// The classes of answers.
const (
	answerLive = "live" // what was trained is the champion
	answerHeld = "held" // it was registered, and is not
	answerNone = "none" // nothing was registered
	answerOpen = "open" // it runs
)

// answer says in one line what came of the sweep, or where it stands. It also sets p.Of and p.Done: how many trials
// there are and how many have ended, without a final training.
func (p *sweepPage) answer() answer {
	for _, t := range p.Trials {
		if !t.Final {
			p.Of++
			if t.State != StateRunning && t.State != StateWaiting && t.State != StatePaused {
				p.Done++
			}
		}
	}

	w := p.Winner // with the conclusion, also of a sweep that ended without a winner
	switch {
	case w == nil: // it has not ended
		return answer{plot.Either(p.State == Interrupted, answerNone, answerOpen), fmt.Sprintf("%s: %d of %s ended",
			capital(p.State), p.Done, english.Plural(p.Of, "trial", ""))}
	case w.Outcome == sweep.OutcomeCancelled:
		return answer{answerNone, "Cancelled"}
	case w.Outcome != sweep.OutcomeWinner && p.CommonFailure() != "":
		return answer{answerNone, fmt.Sprintf("No winner: all %d trials failed", p.Of)}
	case w.Outcome != sweep.OutcomeWinner:
		return answer{answerNone, "No winner"}
	case w.Version == 0:
		return answer{answerHeld, fmt.Sprintf("Trial %d won", w.Trial)}
	case w.Gate == nil:
		return answer{answerHeld, fmt.Sprintf("%s version %d is registered", w.Model, w.Version)}
	case w.Gate.Promoted:
		return answer{wentLive(w.Caution() != ""), w.HeadlineNow(w.LiveNow)}
	}
	return answer{answerHeld, w.HeadlineNow(w.LiveNow)}
}

// ofBudget is a sum of USD, of a budget if there is one.
func ofBudget(sum, budget float64) string {
	text := plot.USD.Format(sum)
	if budget > 0 {
		text += " of " + plot.USD.Format(budget)
	}
	return text
}

// pace is how fast a running sweep spends, and what that comes to.
type pace struct {
	Spent, Hourly, Budget float64     // USD; hourly all its machines; 0 if unknown, or without a budget
	Left                  sweep.Range // seconds until its last trial has ended; 0 if unknown
}

// Pace is that of a sweep that runs.
func (p *sweepPage) Pace() pace {
	if m := p.Money; m != nil {
		return pace{Spent: m.Total, Hourly: m.Hourly, Budget: m.Budget, Left: p.Left}
	}
	return pace{Left: p.Left}
}

// Todo is what a sweep that has not ended asks of a person.
func (p *sweepPage) Todo() sweep.Todo {
	return sweep.Todo{Sweep: p.ID, OverBudget: p.Pace().Over(), Stopped: p.State == Interrupted}
}

// Total is what the sweep would cost in USD if no budget ended it.
func (p pace) Total() float64 { return p.Spent + p.Hourly*p.Left.Expected/3600 }

// Over reports whether the budget will end the sweep before its last trial has ended.
func (p pace) Over() bool { return p.Budget > 0 && p.Hourly > 0 && p.Total() > p.Budget }

// Seconds is in about how many seconds the sweep ends. Where its budget ends it, that is a multiple of 60, at least 60.
func (p pace) Seconds() float64 {
	if p.Over() {
		return max(60, 60*math.Round(60*(p.Budget-p.Spent)/p.Hourly))
	}
	return p.Left.Expected
}

// clock writes the time in so many seconds after asOf, at which a running sweep will end, as an HTML element: only the
// hour and minute if the end is within half a day, else with the date. That holds for the latest likely end, too,
// unless the budget ends the sweep before. The attribute data-ago="clock" tells the script to keep it up to date.
func clock(asOf time.Time, p pace, seconds float64) template.HTML {
	t := asOf.Add(time.Duration(seconds * float64(time.Second))).Round(time.Minute)
	if seconds > 12*3600 || p.Left.High > 12*3600 && !p.Over() {
		return when(t)
	}
	return template.HTML(fmt.Sprintf(`<time data-ago="clock" datetime="%s">%s UTC</time>`, t.UTC().Format(time.RFC3339),
		t.UTC().Format("15:04")))
}

// CommonFailure returns the reason for which all trials have failed, if they failed for the same one. Otherwise, and of
// a sweep with a single trial, it is empty. A final training does not count: it has not begun where no trial has won.
func (p *sweepPage) CommonFailure() string {
	trials := slices.DeleteFunc(slices.Clone(p.Trials), func(t TrialRow) bool { return t.Final })
	for _, t := range trials {
		if t.State != StateFailed || t.Reason != trials[0].Reason {
			return ""
		}
	}
	if len(trials) < 2 {
		return ""
	}
	return trials[0].Reason
}

// testNumber is a metric of the winner on test. Title says what it is and of which model, and Base names what a model
// without features scores (Measure.Alone).
type testNumber struct {
	Measure
	Title, Base string
}

// Times says how many times the base rate the metric is; it is empty for metrics that are not compared with that.
func (n testNumber) Times() string { return sweep.TimesBase(n.Name, n.Test, n.Alone) }

// OnTest returns at most two metrics of the winner on test: the sweep's, and the one by which the gate judged it. Those
// that are not known are left out. The sweep must have ended, with a Winner. Where a final training on all rows was
// registered, the numbers are those of the winning trial, and the titles say so: the final model has seen the test
// rows.
func (p *sweepPage) OnTest() (all []testNumber) {
	w, whose := p.Winner, ""
	switch {
	case w.Final != nil && w.Final.Registered:
		whose = fmt.Sprintf(" of trial %d, judged for %s version %d", w.Trial, w.Model, w.Version)
	case w.Version > 0:
		whose = fmt.Sprintf(" of %s version %d", w.Model, w.Version)
	}

	for _, m := range w.Measures(p.Metric) { // the sweep's metric is the first, if it was measured
		chose := m.Name == p.Metric
		if !chose && m.Name != w.JudgedBy() || math.IsNaN(m.Test) {
			continue
		}
		n := testNumber{Measure: m, Title: m.Name + " on test" + whose, Base: w.Tested.Without(p.Metric)}
		if !chose {
			n.Base += ", " + m.Name
		}
		all = append(all, n)
	}
	return all
}

// JudgedBy is the metric by which the gate compared the winner with what was live; empty where it did not.
func (w *Winner) JudgedBy() string {
	if g := w.Gate; g != nil && g.Champion > 0 {
		return g.Metric
	}
	return ""
}

// Passed reports whether the winner passed over trials that ranked higher but may not win, and its Reason says why.
func (w *Winner) Passed() bool { return len(w.Rejected) > 0 && strings.HasPrefix(w.Reason, "trial ") }

// plain matches texts whose first word is of small letters only. Others begin with a name, such as num_leaves.
var plain = regexp.MustCompile(`^[a-z]+([ :,]|$)`)

// capital makes a text's first letter a capital, unless the text begins with a name, which keeps its case.
func capital(text string) string {
	if !plain.MatchString(text) {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
