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

// answer says what came of the sweep, or where it stands.
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
		return answer{answerOpen, fmt.Sprintf("%s: %d of %s ended", capital(p.State), p.Done,
			english.Plural(p.Of, "trial", ""))}
	case w.Outcome == sweep.OutcomeCancelled:
		return answer{answerNone, "Cancelled"}
	case w.Outcome != sweep.OutcomeWinner && p.CommonFailure() != "":
		return answer{answerNone, fmt.Sprintf("No winner: all %d trials failed", len(p.Trials))}
	case w.Outcome != sweep.OutcomeWinner:
		return answer{answerNone, "No winner"}
	case w.Version == 0:
		return answer{answerHeld, fmt.Sprintf("Trial %d won", w.Trial)}
	case w.Gate == nil:
		return answer{answerHeld, fmt.Sprintf("%s@%d is registered", w.Model, w.Version)}
	case w.Gate.Promoted:
		return answer{wentLive(w.Caution() != ""), fmt.Sprintf("%s@%d became the champion and went live", w.Model,
			w.Version)}
	}
	return answer{answerHeld, fmt.Sprintf("%s@%d was not promoted", w.Model, w.Version)}
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

// total is what it would cost without a budget.
func (p pace) total() float64 { return p.Spent + p.Hourly*p.Left.Expected/3600 }

// over says that its budget ends it before its last trial has ended.
func (p pace) over() bool { return p.Budget > 0 && p.Hourly > 0 && p.total() > p.Budget }

// Seconds is in about how long it ends; whole minutes where its budget ends it.
func (p pace) Seconds() float64 {
	if p.over() {
		return max(60, 60*math.Round(60*(p.Budget-p.Spent)/p.Hourly))
	}
	return p.Left.Expected
}

// Warning says that its budget ends it, and what comes of that; empty if its trials end before.
func (p pace) Warning() string {
	if !p.over() {
		return ""
	}
	return fmt.Sprintf("At this pace it would cost about %s and reaches its budget of %s in about %s. If nobody "+
		"cancels it, it ends then, with the trials that have ended.", plot.USD.Format(p.total()),
		plot.USD.Format(p.Budget), plot.Seconds.Format(p.Seconds()))
}

// ends says when a running sweep ends, with a range if there is one: clock times within half a day.
func ends(asOf time.Time, p pace) template.HTML {
	if asOf.IsZero() || p.Left.Expected <= 0 {
		return ""
	}
	at := func(seconds float64) template.HTML {
		t := asOf.Add(time.Duration(seconds * float64(time.Second))).Round(time.Minute)
		if seconds > 12*3600 || p.Left.High > 12*3600 && !p.over() {
			return when(t)
		}
		return template.HTML(fmt.Sprintf(`<time data-ago="clock" datetime="%s">%s UTC</time>`,
			t.UTC().Format(time.RFC3339), t.UTC().Format("15:04")))
	}
	if p.over() {
		return "Its budget ends it about <strong>" + at(p.Seconds()) + "</strong>."
	}
	text := "It ends about <strong>" + at(p.Left.Expected) + "</strong>"
	if p.Left.High > p.Left.Low {
		text += " (" + at(p.Left.Low) + " to " + at(p.Left.High) + ")"
	}
	return text + "."
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

// testNumber is a metric on test, with whose it is, and what a model without features scores; NaN if that is unknown.
type testNumber struct {
	Name, Base, Times string
	Value, SE, Alone  float64
}

// OnTest are the winner's metrics on test: the sweep's, and the one that it was judged by. A final training has no rows
// to be judged on: the winner is, in its place.
func (p *sweepPage) OnTest() (all []testNumber) {
	w, whose := p.Winner, ""
	switch {
	case w.Final != nil && w.Final.Registered:
		whose = fmt.Sprintf(" of trial %d, judged for %s@%d", w.Trial, w.Model, w.Version)
	case w.Version > 0:
		whose = fmt.Sprintf(" of %s@%d", w.Model, w.Version)
	}
	for i, name := range []string{p.Metric, w.JudgedBy()} {
		value, ok := w.Test[name]
		if !ok || i > 0 && name == p.Metric {
			continue
		}
		base := w.Tested.Without(p.Metric)
		if i > 0 {
			base += ", " + name
		}
		all = append(all, testNumber{Name: name + " on test" + whose, Base: base, Value: value,
			SE: w.Within.ErrorOf(name), Alone: w.alone(name), Times: sweep.TimesBase(name, value, w.alone(name))})
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
