package page

import (
	"fmt"
	"html/template"
	"math"
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
		if p.Left.Expected > 0 {
			v.add("time left, about", plot.Seconds.Format(p.Left.Expected))
		}
		if m := p.Sweep.Money; m != nil {
			if text := tooFast(m.Total, m.Hourly, m.Budget, p.Left); text != "" {
				p.Notes = append([]string{text}, p.Notes...)
			}
		}
	case w.Outcome != sweep.OutcomeWinner:
		v.Class, v.Title = answerNone, "No winner"
		v.Text = sentence(capital(w.Reason)) + " Nothing was registered; what is live stays live. The leaderboard " +
			"has each trial's reason."
		if w.Outcome == sweep.OutcomeCancelled {
			v.Title = "Cancelled"
		}
	default:
		v.Class, v.Title, v.Text = p.won(w)
		if test, ok := w.Test[p.Metric]; ok {
			v.add(p.Metric+" on test", plot.Plain.Format(test))
			if alone := w.alone(p.Metric); !math.IsNaN(alone) {
				v.add(shareAlone, plot.Plain.Format(alone))
			}
		}
		if in := w.Within; in != nil {
			v.add("95 % interval", plot.Plain.Format(in.Low)+" to "+plot.Plain.Format(in.High))
		}
	}

	if s := p.scored(); len(s) > 0 {
		v.add("best on valid", plot.Plain.Format(s[0].Score))
	}
	if n := len(p.Sweep.Memory); n > 0 && w == nil {
		v.add("machines", fmt.Sprint(n))
	}
	if m := p.Sweep.Money; m != nil {
		if m.HoursTaken > 0 {
			v.add(map[bool]string{true: "has run", false: "took"}[w == nil], plot.Seconds.Format(3600*m.HoursTaken))
		}
		if m.Known {
			v.add(map[bool]string{true: "spent", false: "cost"}[w == nil], ofBudget(m.Total, m.Budget))
		}
	}
	if w != nil && w.Verified != nil {
		v.add("a second library agrees", w.Verified.Scorer)
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

// tooFast says that a running sweep reaches its budget, in USD, before its last trial has ended, and what comes of it;
// empty if it does not. All its machines cost hourly.
func tooFast(spent, hourly, budget float64, left sweep.Range) string {
	all := spent + hourly*left.Expected/3600
	if budget <= 0 || hourly <= 0 || all <= budget {
		return ""
	}
	return fmt.Sprintf("At this pace it would cost about %s and reaches its budget of %s in about %s. If nobody "+
		"cancels it, it ends then, with the trials that have ended.", plot.USD.Format(all), plot.USD.Format(budget),
		plot.Seconds.Format(3600*max(0, budget-spent)/hourly))
}

// ends is about when a running sweep ends, with a range if there is one: clock times within half a day.
func ends(asOf time.Time, left sweep.Range) template.HTML {
	if asOf.IsZero() || left.Expected <= 0 {
		return ""
	}
	at := func(seconds float64) template.HTML {
		t := asOf.Add(time.Duration(seconds * float64(time.Second)))
		if left.Expected > 12*3600 || left.High > 12*3600 {
			return when(t)
		}
		return template.HTML(fmt.Sprintf(`<time data-ago="clock" datetime="%s">%s UTC</time>`,
			t.UTC().Format(time.RFC3339), t.UTC().Format("15:04")))
	}
	text := at(left.Expected)
	if left.High > left.Low {
		text += " (" + at(left.Low) + " to " + at(left.High) + ")"
	}
	return text
}

func (v *answer) add(name, text string) { v.Facts = append(v.Facts, Pair{name, text}) }

// won says what became of a winner.
func (p *sweepPage) won(w *Winner) (class, title, text string) {
	title = fmt.Sprintf("Trial %d won", w.Trial)
	if w.Version > 0 {
		title = fmt.Sprintf("%s@%d is registered", w.Model, w.Version)
	}
	class, text = answerHeld, sentence(capital(w.Reason))
	g := w.Gate
	switch {
	case g == nil:
	case g.Promoted:
		class, title = answerLive, fmt.Sprintf("%s@%d became the champion", w.Model, w.Version)
	default:
		title = fmt.Sprintf("%s@%d was not promoted", w.Model, w.Version)
	}
	if live := w.Live(); live != "" {
		text += " " + sentence(capital(live))
	} else if g != nil && !g.Promoted && g.Champion > 0 {
		text += fmt.Sprintf(" Version %d stayed live; if nobody acts, the next sweep tries again.", g.Champion)
	}
	if g != nil && g.Reason != "" {
		text += " " + sentence(capital(g.Reason))
	}
	if s := w.Standing; s != nil {
		text += " " + sentence(capital(s.Text(w.At)))
	}
	if p.Sure != "" {
		text += " " + p.Sure
	}
	return class, title, text
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
