package page

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// answer is what a sweep's page begins with.
type answer struct {
	Class string // how it is painted: live, held, none or open
	Title string
	Text  string
	More  []string // the rest, behind a click
	Facts []Pair
	// Command is what shows more in a terminal; empty where the page has all.
	Command  string
	Done, Of int // trials that have ended, of how many, without a final training
}

// The classes of answers.
const (
	answerLive = "live" // what was trained is the champion
	answerHeld = "held" // it was registered, and is not
	answerNone = "none" // nothing was registered
	answerOpen = "open" // it runs
)

// answer says what came of the sweep, or where it stands.
func (p *sweepPage) answer() answer {
	v := answer{Class: answerOpen}
	for _, t := range p.Trials {
		if !t.Final {
			v.Of++
			if t.State != StateRunning && t.State != StateWaiting && t.State != StatePaused {
				v.Done++
			}
		}
	}
	trials := english.Plural(v.Of, "trial", "")
	v.add("trials ended", fmt.Sprintf("%d of %d", v.Done, v.Of))

	w := p.Winner
	switch {
	case w == nil:
		v.Title = fmt.Sprintf("%s: %d of %s ended", capital(p.State), v.Done, trials)
		v.Text = p.best()
		if left := p.Pace().seconds(); left > 0 {
			v.add("time left, about", plot.Seconds.Format(left))
		}
		if text := p.Pace().warning(); text != "" {
			p.Notes = append([]string{text}, p.Notes...)
		}
	case w.Outcome != sweep.OutcomeWinner:
		v.Class, v.Title = answerNone, "No winner"
		v.Text = sentence(capital(w.Reason)) + " Nothing was registered; what is live stays live. The leaderboard " +
			"has each trial's reason."
		if why := p.commonFailure(); why != "" {
			v.Title, v.Text = fmt.Sprintf("No winner: all %d trials failed", len(p.Trials)), why+" "+v.Text
		}
		if w.Outcome == sweep.OutcomeCancelled {
			v.Title = "Cancelled"
		}
	default:
		p.won(w, &v)
		v.add("winner", fmt.Sprintf("trial %d", w.Trial))
		v.onTest(w, p.Metric, w.withoutFeatures())
		if by := w.judgedBy(); by != p.Metric {
			v.onTest(w, by, w.withoutFeatures()+", "+by)
		}
		if in := w.Within; in != nil {
			v.add("95 % interval", plot.Plain.Format(in.Low)+" to "+plot.Plain.Format(in.High))
		}
	}

	if s := p.scored(); len(s) > 0 {
		v.add("best on valid", plot.Plain.Format(s[0].Score))
	}
	hosts := map[string]bool{}
	for _, a := range p.Attempts {
		hosts[a.Host] = true
	}
	if n := len(hosts); n > 0 && w == nil {
		v.add("machines", fmt.Sprint(n))
	}
	if m := p.Money; m != nil {
		if m.HoursTaken > 0 {
			v.add(map[bool]string{true: "has run", false: "took"}[w == nil], plot.Seconds.Format(3600*m.HoursTaken))
		}
		if m.Known {
			v.add(map[bool]string{true: "spent", false: "cost"}[w == nil], ofBudget(m.Total, m.Budget))
		}
	}
	if w != nil && w.Verified != nil {
		v.add("scores checked by", w.Verified.Scorer+" library")
	}
	return v
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

// seconds is in about how long it ends; whole minutes where its budget ends it.
func (p pace) seconds() float64 {
	if p.over() {
		return max(60, 60*math.Round(60*(p.Budget-p.Spent)/p.Hourly))
	}
	return p.Left.Expected
}

// warning says that its budget ends it, and what comes of that; empty if its trials end before.
func (p pace) warning() string {
	if !p.over() {
		return ""
	}
	return fmt.Sprintf("At this pace it would cost about %s and reaches its budget of %s in about %s. If nobody "+
		"cancels it, it ends then, with the trials that have ended.", plot.USD.Format(p.total()),
		plot.USD.Format(p.Budget), plot.Seconds.Format(p.seconds()))
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
		return "Its budget ends it about <strong>" + at(p.seconds()) + "</strong>."
	}
	text := "It ends about <strong>" + at(p.Left.Expected) + "</strong>"
	if p.Left.High > p.Left.Low {
		text += " (" + at(p.Left.Low) + " to " + at(p.Left.High) + ")"
	}
	return text + "."
}

// commonFailure says of what all trials have failed, if it is one thing, and what to change; empty otherwise.
func (p *sweepPage) commonFailure() string {
	if len(p.Trials) < 2 {
		return ""
	}
	first := p.Trials[0]
	for _, t := range p.Trials {
		if t.State != StateFailed || t.Reason != first.Reason || t.Reason == "" {
			return ""
		}
	}
	text := "For one reason: " + sentence(first.Reason)
	if strings.Contains(first.Reason, "memory") {
		text += " Take machines with more memory (machine.type) or fewer tasks on each (machine.tasks_per_vm)."
	}
	return text
}

// onTest adds a metric on test with whose it is, and what a model without features scores. A final training has no rows
// to be judged on: the winner is, in its place.
func (v *answer) onTest(w *Winner, metric, base string) {
	test, ok := w.Test[metric]
	if !ok {
		return
	}
	whose := ""
	if w.Version > 0 {
		whose = fmt.Sprintf(" of %s@%d", w.Model, w.Version)
	}
	if w.Final != nil && w.Final.Registered {
		whose = fmt.Sprintf(" of trial %d, judged for %s@%d", w.Trial, w.Model, w.Version)
	}
	v.add(metric+" on test"+whose, plot.Plain.Format(test))
	if alone := w.alone(metric); !math.IsNaN(alone) {
		v.add(base, plot.Plain.Format(alone))
	}
}

func (v *answer) add(name, text string) { v.Facts = append(v.Facts, Pair{name, text}) }

// judgedBy is the metric by which the gate compared the winner with what was live; empty where it did not.
func (w *Winner) judgedBy() string {
	if g := w.Gate; g != nil && g.Champion > 0 {
		return g.Metric
	}
	return ""
}

// chosen says by what the winner was chosen and by what it was judged, and why it and no other was.
func (p *sweepPage) chosen(w *Winner) (text string) {
	if by := w.judgedBy(); by != "" {
		text = fmt.Sprintf("It was chosen by %s on valid and %s by %s on test. ", p.Metric,
			map[bool]string{true: "promoted", false: "judged"}[w.Gate.Promoted], by)
	}
	if len(w.Rejected) > 0 && strings.HasPrefix(w.Reason, "trial ") {
		return text + "Of the trials that may win, " + sentence(w.Reason)
	}
	return text + sentence(capital(w.Reason))
}

// won says what became of a winner: the gate's reason first, and what comes of it; behind that which model is live, and
// why it was this trial.
func (p *sweepPage) won(w *Winner, v *answer) {
	g := w.Gate
	switch {
	case w.Version == 0:
		v.Class, v.Title = answerHeld, fmt.Sprintf("Trial %d won", w.Trial)
	case g == nil:
		v.Class, v.Title = answerHeld, fmt.Sprintf("%s@%d is registered", w.Model, w.Version)
	case g.Promoted:
		v.Class = wentLive(w.Caution() != "")
		v.Title = fmt.Sprintf("%s@%d became the champion and went live", w.Model, w.Version)
	default:
		v.Class, v.Title = answerHeld, fmt.Sprintf("%s@%d was not promoted", w.Model, w.Version)
	}
	if v.Text = sentence(capital(w.Why())); g == nil {
		v.Text = ""
	}
	live := w.Live()
	if live == "" && g != nil && !g.Promoted && g.Champion > 0 {
		v.Text += fmt.Sprintf(" Version %d stayed live; if nobody acts, the next sweep tries again.", g.Champion)
	}
	reason := ""
	if g != nil && !strings.Contains(w.Why(), g.Reason) {
		reason = g.Reason
	}
	for _, text := range []string{reason, live, p.chosen(w), standingText(w)} {
		if text = sentence(capital(text)); v.Text == "" {
			v.Text = text
		} else if text != "" {
			v.More = append(v.More, text)
		}
	}
}

// standingText is how many nights have made no champion.
func standingText(w *Winner) string {
	if w.Standing == nil {
		return ""
	}
	return w.Standing.Text(w.At)
}

// capital is a text that begins a sentence. A name keeps its case: only a word of small letters is changed.
func capital(text string) string {
	for i, r := range text {
		if r == ' ' || r == ':' || r == ',' || i == len(text)-1 {
			break
		}
		if (r < 'a' || r > 'z') && i > 0 {
			return text
		}
	}
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}
