package page

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
)

// Day is what a page about a model's servers shows: the last hours, of one server or of all.
type Day struct {
	Model   string
	Live    string    // the version that answers now; empty in a file
	AsOf    time.Time // when it was looked at
	Command string    // prints the same in a terminal
	Notes   []string
	Hours   []DayHour   // the oldest first; an hour of each version
	Drifts  []DayDrift  // the worst first
	Judged  []DayJudged // the oldest first; none before labels have arrived
}

// DayHour is an hour of a version.
type DayHour struct {
	Begin                 time.Time
	Version               string
	Servers               int
	Requests, Rows        int64 // answered
	Busy, Refused, Failed int64 // requests with the statuses 429, other 4xx, 5xx
	Mean                  float64
	P50, P99              float64 // seconds; 0 if unknown
	Findings              []string
}

// DayDrift is the share of a version's rows in which a column is missing, unseen or rare.
type DayDrift struct {
	Column, What, Version string
	Now, Usual            float64 // of all hours; NaN if the version does not record the usual one
	Low, High             float64 // of single hours
	Off                   int     // hours in which it is a finding
}

// DayJudged is an hour, or a segment of one, of which labels have arrived.
type DayJudged struct {
	Begin          time.Time
	Segment        string // empty for the whole hour
	Rows           int64
	Ratio, Entropy float64 // 0 if they cannot be said
	Finding        string
}

// dayPage is a day with its drawings.
type dayPage struct {
	*Day
	Answer answer
	Found  []string // in words
	More   int      // findings beyond those
	Charts []*plot.Chart
	Drift  *plot.Chart
	Lost   *plot.Chart // requests without an answer
	Open   bool        // many of an hour have none
}

// Shown are the hours in the table, the newest ones; ShownDrifts and ShownJudged are those of the other tables.
func (p *dayPage) Shown() []DayHour { return p.Hours[max(0, len(p.Hours)-mostOfDay):] }

// ShownDrifts are the worst shares.
func (p *dayPage) ShownDrifts() []DayDrift { return p.Drifts[:min(len(p.Drifts), mostOfDay)] }

// ShownJudged are the hours with labels in the table, and those segments that are findings: the newest ones.
func (p *dayPage) ShownJudged() []DayJudged {
	out := slices.DeleteFunc(slices.Clone(p.Judged),
		func(h DayJudged) bool { return h.Segment != "" && h.Finding == "" })
	return out[max(0, len(out)-mostOfDay):]
}

// Write writes the page of a day, which has no script.
func (d *Day) Write(w io.Writer) error {
	p := &dayPage{Day: cleaned(d)}
	p.answer()
	p.Charts, p.Drift = p.charts(), p.drift()
	p.Lost, p.Charts = p.Charts[0], p.Charts[1:]
	return write(w, p.Model+", what was served", "day.html", p, nil)
}

const (
	mostFound   = 6
	mostDrifted = 20
	mostOfDay   = 120 // rows of a table
	// dayLost is the share of an hour's requests that may be turned away or fail before the page says so first, and
	// dayRefused that of requests that may be refused, for which those who send them are to blame.
	dayLost    = .01
	dayRefused = .1
)

// lost says of an hour that many of its requests had no answer; empty if few had none.
func (h *DayHour) lost() string {
	var texts []string
	for _, part := range []struct {
		n    int64
		most float64
		how  string
	}{{h.Busy + h.Failed, dayLost, "turned away (429) or failed (5xx)"}, {h.Refused, dayRefused,
		"refused (4xx); their answers say why"}} {
		share := float64(part.n) / float64(max(h.Requests+h.Busy+h.Refused+h.Failed, 1))
		if share > part.most {
			texts = append(texts, fmt.Sprintf("%s of the requests were %s", plot.Percent.Format(share), part.how))
		}
	}
	return strings.Join(texts, "; ")
}

// answer says whether all was well, and what was not.
func (p *dayPage) answer() {
	off, judged := map[time.Time]bool{}, map[time.Time]bool{}
	hours := map[time.Time]bool{} // of which requests or labels are known
	found := func(begin time.Time, of, text string) {
		off[begin], hours[begin] = true, true
		if len(p.Found) < mostFound {
			p.Found = append(p.Found, strings.Join(slices.DeleteFunc([]string{begin.UTC().Format("2006-01-02 15:04"),
				of}, func(s string) bool { return s == "" }), " ")+": "+text)
		} else {
			p.More++
		}
	}
	var all DayHour
	for i := range p.Hours {
		h := &p.Hours[i]
		if h.Requests+h.Busy+h.Refused+h.Failed > 0 {
			hours[h.Begin] = true
		}
		if text := h.lost(); text != "" {
			p.Open = true
			found(h.Begin, h.Version, text)
		}
		for _, text := range h.Findings {
			found(h.Begin, h.Version, text)
		}
		all.Requests, all.Rows = all.Requests+h.Requests, all.Rows+h.Rows
		all.Busy, all.Refused, all.Failed = all.Busy+h.Busy, all.Refused+h.Refused, all.Failed+h.Failed
		all.Mean += h.Mean * float64(h.Rows)
		all.P99 = max(all.P99, h.P99)
	}
	for _, h := range p.Judged {
		judged[h.Begin], hours[h.Begin] = true, true
		if h.Finding != "" {
			found(h.Begin, h.Segment, h.Finding)
		}
	}

	v := &p.Answer
	switch {
	case len(hours) == 0:
		v.Class, v.Title = answerNone, "No request to "+p.Model+" is recorded"
		v.Text = "No request came, the hour is not over, or its servers keep no counts: they do with " +
			"launcher serve --profiles."
		return
	case len(off) > 0:
		v.Class = answerHeld
		v.Title = fmt.Sprintf("%s needs a look: %d of %s", p.Model, len(off), hoursOf(len(hours)))
		v.Text = "If nobody acts, the version goes on answering as it does."
	default:
		v.Class = answerLive
		v.Title = fmt.Sprintf("%s was well in %s", p.Model, hoursOf(len(hours)))
		v.Text = "No column was missing, unseen or rare more than twice as often as in the rows on which the version " +
			"was tested, beyond chance."
		if !slices.ContainsFunc(p.Drifts, func(d DayDrift) bool { return !math.IsNaN(d.Usual) }) {
			v.Text = "No column was compared with the rows on which the version was tested: it does not record how " +
				"often they lack values, or has answered no rows."
		}
	}
	if len(judged) > 0 {
		v.Text += fmt.Sprintf(" Labels have arrived of %s.", hoursOf(len(judged)))
	}
	v.add("requests", humanize.Comma(all.Requests))
	v.add("rows", humanize.Comma(all.Rows))
	v.add("mean prediction", plot.Plain.Format(all.Mean/float64(max(all.Rows, 1))))
	if all.P99 > 0 {
		v.add("slowest hour's p99", plot.Seconds.Format(all.P99))
	}
	v.add("429, other 4xx, 5xx", strings.Join([]string{humanize.Comma(all.Busy), humanize.Comma(all.Refused),
		humanize.Comma(all.Failed)}, " · "))
}

func hoursOf(n int) string { return english.Plural(n, "hour", "") }

// versions are those that have answered, in order.
func (p *dayPage) versions() []string {
	var out []string
	for i := range p.Hours {
		if !slices.Contains(out, p.Hours[i].Version) {
			out = append(out, p.Hours[i].Version)
		}
	}
	return out
}

// curve is a line of what it has of each row; a row without a time is left out.
func curve[R any](name string, rows []R, of func(*R) (time.Time, float64)) plot.Line {
	l := plot.Line{Trial: plot.None, Peak: -1, Name: name}
	for i := range rows {
		if at, v := of(&rows[i]); !at.IsZero() {
			l.X, l.Y = append(l.X, float64(at.Unix())/3600), append(l.Y, v)
		}
	}
	return l
}

// known is a number of which 0 stands for none.
func known(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// mostLines is how many curves a chart tells apart.
const mostLines = 6

// charts draws what changes from hour to hour, first the requests without an answer.
func (p *dayPage) charts() []*plot.Chart {
	var out []*plot.Chart
	draw := func(id, title, summary string, unit plot.Unit, levels []float64, lines ...plot.Line) {
		c := plot.Lines{Chart: plot.Chart{ID: id, Title: title, Summary: summary, W: plot.Third, H: 150},
			X: plot.Axis{Unit: plot.Hours}, Y: plot.Axis{Unit: unit}, Levels: levels}
		for i, l := range lines {
			n := " n" + strconv.Itoa(i%mostLines)
			c.Keys = append(c.Keys, plot.Key{Class: "rel" + n, Label: l.Name})
			l.Class, l.Dots, l.Name = "rel"+n, "dots"+n, ""
			c.Lines = append(c.Lines, l)
		}
		out = append(out, c.Draw())
	}
	hourly := func(name string, of func(*DayHour) float64) plot.Line {
		return curve(name, p.Hours, func(h *DayHour) (time.Time, float64) { return h.Begin, of(h) })
	}
	draw("lost", "Not answered", "Requests that were turned away, refused, or failed.", plot.Count, nil,
		hourly("429", func(h *DayHour) float64 { return float64(h.Busy) }),
		hourly("other 4xx", func(h *DayHour) float64 { return float64(h.Refused) }),
		hourly("5xx", func(h *DayHour) float64 { return float64(h.Failed) }))
	var asked, mean []plot.Line
	for _, version := range p.versions() {
		of := func(value func(*DayHour) float64) plot.Line {
			return curve(version, p.Hours, func(h *DayHour) (time.Time, float64) {
				if h.Version != version {
					return time.Time{}, 0
				}
				return h.Begin, value(h)
			})
		}
		asked = append(asked, of(func(h *DayHour) float64 { return float64(h.Requests) }))
		mean = append(mean, of(func(h *DayHour) float64 { return h.Mean }))
	}
	draw("requests", "Who answered", "Requests an hour, by version.", plot.Count, nil, asked...)
	draw("mean", "Mean prediction", "Of the rows of an hour.", plot.Plain, nil, mean...)
	draw("latency", "Latency", "From a request's first byte to its answer, about.", plot.Seconds, nil,
		hourly("p50", func(h *DayHour) float64 { return known(h.P50) }),
		hourly("p99", func(h *DayHour) float64 { return known(h.P99) }))
	judged := func(name string, of func(*DayJudged) float64) plot.Line {
		return curve(name, p.Judged, func(h *DayJudged) (time.Time, float64) {
			if h.Segment != "" {
				return time.Time{}, 0
			}
			return h.Begin, known(of(h))
		})
	}
	if len(p.Judged) > 0 {
		draw("labels", "What labels say", "Predicted over real positives; loss over that of their share.", plot.Plain,
			[]float64{1},
			judged("calibration ratio", func(h *DayJudged) float64 { return h.Ratio }),
			judged("normalized entropy", func(h *DayJudged) float64 { return h.Entropy }))
	}
	return out
}

// drift draws the shares that moved most.
func (p *dayPage) drift() *plot.Chart {
	c := plot.Ranges{Chart: plot.Chart{ID: "drift", Title: "Drift by column", W: plot.Full, Wide: true,
		Summary: "Shares of rows, the worst first, with the hours' range; grey: of the version's test rows."},
		X: plot.Axis{Unit: plot.Percent}, Line: math.NaN(), Room: 340, NoteRoom: 230}
	for _, d := range p.Drifts[:min(len(p.Drifts), mostDrifted)] {
		r := plot.Range{Label: d.Column + ", " + d.What, Class: answerOpen, Value: d.Now, Low: d.Low, High: d.High,
			Before: d.Usual, Note: plot.Percent.Format(d.Now)}
		if !math.IsNaN(d.Usual) {
			r.Note += ", usually " + plot.Percent.Format(d.Usual)
		}
		if d.Off > 0 {
			r.Class, r.Note = "bad", r.Note+", too high"
		}
		c.Rows = append(c.Rows, r)
	}
	return c.Draw()
}
