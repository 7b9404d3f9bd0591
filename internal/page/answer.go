package page

import (
	"fmt"
	"html/template"
	"math"
	"regexp"
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

// answer says in one line what came of the sweep, or where it stands, and counts its trials, less the final one.
func (p *sweepPage) answer() answer {
	for _, t := range p.Trials {
		if !t.Final {
			p.Of++
			if t.State != StateRunning && t.State != StateWaiting && t.State != StatePaused {
				p.Done++
			}
		}
	}
	w := p.Winner
	switch {
	case w == nil:
		return answer{map[bool]string{false: answerOpen, true: answerNone}[p.State == Interrupted],
			fmt.Sprintf("%s: %d of %s ended", capital(p.State), p.Done, english.Plural(p.Of, "trial", ""))}
	case w.Outcome == sweep.OutcomeCancelled:
		return answer{answerNone, "Cancelled"}
	case w.Outcome != sweep.OutcomeWinner && p.CommonFailure() != "":
		return answer{answerNone, fmt.Sprintf("No winner: all %d trials failed", len(p.Trials))}
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
		return pace{m.Total, m.Hourly, m.Budget, p.Left}
	}
	return pace{Left: p.Left}
}

// Todo is what a sweep that has not ended asks of a person.
func (p *sweepPage) Todo() sweep.Todo {
	return sweep.Todo{Sweep: p.ID, OverBudget: p.Pace().Over(), Stopped: p.State == Interrupted}
}

// Total is what it would cost without a budget.
func (p pace) Total() float64 { return p.Spent + p.Hourly*p.Left.Expected/3600 }

// Over says that its budget ends it before its last trial has ended.
func (p pace) Over() bool { return p.Budget > 0 && p.Hourly > 0 && p.Total() > p.Budget }

// Seconds is in about how long it ends; whole minutes where its budget ends it.
func (p pace) Seconds() float64 {
	if p.Over() {
		return max(60, 60*math.Round(60*(p.Budget-p.Spent)/p.Hourly))
	}
	return p.Left.Expected
}

// clock is when a running sweep will be seconds further than at asOf: a clock time in UTC if that is within half a day,
// else the date, too. The script has it follow the present.
func clock(asOf time.Time, p pace, seconds float64) template.HTML {
	t := asOf.Add(time.Duration(seconds * float64(time.Second))).Round(time.Minute)
	if seconds > 12*3600 || p.Left.High > 12*3600 && !p.Over() {
		return when(t)
	}
	return template.HTML(fmt.Sprintf(`<time data-ago="clock" datetime="%s">%s UTC</time>`, t.UTC().Format(time.RFC3339),
		t.UTC().Format("15:04")))
}

// CommonFailure is of what all trials have failed, if it is one thing; empty otherwise.
func (p *sweepPage) CommonFailure() string {
	for _, t := range p.Trials {
		if t.State != StateFailed || t.Reason != p.Trials[0].Reason {
			return ""
		}
	}
	if len(p.Trials) < 2 {
		return ""
	}
	return p.Trials[0].Reason
}

// testNumber is a metric on test, with whose it is, and the name of what a model without features scores.
type testNumber struct {
	Measure
	Title, Base string
}

// Times is how many times the base rate it is; empty where that says nothing.
func (n testNumber) Times() string { return sweep.TimesBase(n.Name, n.Test, n.Alone) }

// OnTest are the winner's metrics on test: the sweep's, and the one that it was judged by. A final training has no rows
// to be judged on: the winner is, in its place.
func (p *sweepPage) OnTest() (all []testNumber) {
	w, whose := p.Winner, ""
	switch {
	case w.Final != nil && w.Final.Registered:
		whose = fmt.Sprintf(" of trial %d, judged for %s version %d", w.Trial, w.Model, w.Version)
	case w.Version > 0:
		whose = fmt.Sprintf(" of %s version %d", w.Model, w.Version)
	}
	for i, m := range w.Measures(p.Metric) {
		if i > 0 && m.Name != w.JudgedBy() || math.IsNaN(m.Test) {
			continue
		}
		n := testNumber{m, m.Name + " on test" + whose, w.Tested.Without(p.Metric)}
		if i > 0 {
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

// Passed says that trials that ranked higher may not win.
func (w *Winner) Passed() bool { return len(w.Rejected) > 0 && strings.HasPrefix(w.Reason, "trial ") }

// plain begins a text with a word of small letters: a name keeps its case.
var plain = regexp.MustCompile(`^[a-z]+([ :,]|$)`)

// capital is a text that begins a sentence.
func capital(text string) string {
	if !plain.MatchString(text) {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
