package page

import (
	"fmt"
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
	Command string
	Done    int // of a sweep that runs: trials that have ended
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
	for _, c := range p.Counts {
		if c.State != StateRunning && c.State != StateWaiting && c.State != StatePaused {
			v.Done += c.Count
		}
	}
	trials := english.Plural(len(p.Trials), "trial", "")
	v.add("trials ended", fmt.Sprintf("%d of %d", v.Done, len(p.Trials)))

	w := p.Winner
	switch {
	case w == nil:
		v.Title = fmt.Sprintf("%s: %d of %s ended", capital(p.State), v.Done, trials)
		v.Text = p.best()
		if p.Left > 0 {
			v.Text += " About " + plot.Seconds.Format(p.Left.Round(time.Second).Seconds()) + " left"
			if low, high := p.between(len(p.Trials) - v.Done); high > 0 {
				v.Text += fmt.Sprintf(", %s to %s as trials have differed so far", plot.Seconds.Format(low),
					plot.Seconds.Format(high))
			}
			v.Text += "."
			v.add("time left, about", plot.Seconds.Format(p.Left.Seconds()))
		}
	case w.Outcome != sweep.OutcomeWinner:
		v.Class, v.Title, v.Text = answerNone, "No winner", sentence(capital(w.Reason))
		if w.Outcome == sweep.OutcomeCancelled {
			v.Title = "Cancelled"
		}
	default:
		v.Class, v.Title, v.Text = p.won(w)
		if test, ok := w.Test[p.Metric]; ok {
			v.add(p.Metric+" on test", plot.Plain.Format(test))
		}
		if in := w.Within; in != nil {
			v.add("95 % interval", plot.Plain.Format(in.Low)+" to "+plot.Plain.Format(in.High))
		}
	}

	if s := p.scored(); len(s) > 0 {
		v.add("best on valid", plot.Plain.Format(s[0].Score))
	}
	if r := p.Rows["train"]; r > 0 {
		v.add("rows trained on", plot.Count.Format(float64(r)))
	}
	if n := len(p.Sweep.Memory); n > 0 {
		v.add("machines", fmt.Sprint(n))
	}
	if m := p.Sweep.Money; m != nil {
		if m.HoursTaken > 0 {
			v.add("took", plot.Seconds.Format(3600*m.HoursTaken))
		}
		if m.Known {
			v.add("cost", plot.USD.Format(m.Total))
			if m.Budget > 0 {
				v.add("of a budget of", plot.USD.Format(m.Budget))
			}
		}
	}
	if w != nil && w.Verified != nil {
		v.add("verified by", w.Verified.Scorer)
	}
	return v
}

// between is the range, about 95 %, of the time left of so many trials, in seconds, as trials so far have differed in
// theirs: the mean of those that are left is compared with that of those that have ended. It is 0 of fewer than five.
func (p *sweepPage) between(left int) (low, high float64) {
	var n, sum, squares float64
	for _, t := range p.Trials {
		if !math.IsNaN(t.Seconds) {
			n, sum, squares = n+1, sum+t.Seconds, squares+t.Seconds*t.Seconds
		}
	}
	if n < 5 || sum <= 0 || left < 1 {
		return 0, 0
	}
	mean := sum / n
	spread := math.Sqrt(max(0, squares/n-mean*mean)*n/(n-1)) / mean
	by := 2 * spread * math.Sqrt(1/n+1/float64(left))
	return p.Left.Seconds() * max(0, 1-by), p.Left.Seconds() * (1 + by)
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
		text += fmt.Sprintf(" Version %d stayed live.", g.Champion)
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
