package page

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
)

// Backtest is what a page about a backtest shows: the report, without the rules' settings.
type Backtest struct {
	Metric        string
	Maximize      bool
	From, To      string // days
	Window, Delay int
	Rules         []BacktestRule
	Ages          []BacktestAge
	Nights        []BacktestNight // in order
}

// BacktestRule is how a rule of the gate has done.
type BacktestRule struct {
	Name       string  `json:"name"`
	Decisions  int     `json:"decisions"` // nights with a champion to replace
	Promotions int     `json:"promotions"`
	Wrong      int     `json:"wrong"`         // promotions of a model that was worse on the next day
	Surely     int     `json:"surely_wrong"`  // of those, beyond chance
	Missed     int     `json:"surely_missed"` // models not promoted that were better beyond chance on the next day
	Mean       float64 `json:"mean"`          // of its champions' values on the next days
}

// BacktestAge is the cost of using a model of a certain age in days.
type BacktestAge struct {
	Age    int     `json:"age"`
	Nights int     `json:"nights"`
	Mean   float64 `json:"mean"`   // mean gain of the fresh model
	Better int     `json:"better"` // nights on which the fresh model was better
	Surely int     `json:"surely_better"`
	Worse  int     `json:"surely_worse"`
}

// BacktestGain compares two models on the same rows.
type BacktestGain struct {
	Old  float64 `json:"old"`
	New  float64 `json:"new"`
	Gain float64 `json:"gain"` // above 0 if the new model is better, for any metric
	Low  float64 `json:"low"`  // of its 95 % interval, or at the rule's confidence
	High float64 `json:"high"`
}

// BacktestDecision is a rule's decision on a night.
type BacktestDecision struct {
	Champion int    `json:"-"`                  // night that trained the champion after the decision
	Grown    string `json:"champion"`           // the same, as a day
	Promoted bool   `json:"promoted,omitempty"` // the night's model became the champion
	// over the champion, on the rows known that night; nil if there was no champion
	Seen *BacktestGain `json:"seen,omitempty"`
	True *BacktestGain `json:"true,omitempty"` // over the previous champion, on the next day

	Value float64 `json:"value"` // of the champion, on the next day
}

// BacktestNight is one night.
type BacktestNight struct {
	Night     string  `json:"night"`
	Test      string  `json:"test"` // the next day
	TrainRows int     `json:"train_rows"`
	TestRows  int     `json:"test_rows"`
	Candidate int     `json:"candidate"`
	Trees     int     `json:"trees"`
	Model     string  `json:"model_sha256"`
	Value     float64 `json:"value"` // of the night's model, on the next day
	// of the judged model, where the night ends with a final training
	Judged *float64 `json:"judged,omitempty"`
	// by age in days, the night's model over the older one, on the next day
	Stale map[int]*BacktestGain        `json:"stale"`
	Rules map[string]*BacktestDecision `json:"rules"`
}

// backtestPage is a backtest with its drawings.
type backtestPage struct {
	*Backtest
	Title  string
	Answer answer
	Value  *plot.Chart
	Gates  *plot.Chart
	Live   *plot.Chart
	Gains  []*plot.Chart

	data *data
}

// Write writes the page of a backtest.
func (b *Backtest) Write(w io.Writer) error {
	p := b.lay()
	return write(w, p.Title, "backtest.html", p, p.data)
}

func (b *Backtest) lay() *backtestPage {
	b = cleaned(b)
	p := &backtestPage{Backtest: b, data: newData("still", "backtest"),
		Title: fmt.Sprintf("Backtest, nights of %s to %s", b.From, b.To)}
	add(p.data, "night", "night", plot.Plain, b.Nights,
		func(n BacktestNight) any { return n.Night })
	add(p.data, "value", "tonight's model", plot.Plain, b.Nights, func(n BacktestNight) any { return n.Value })
	p.Value = p.values()
	p.Gates = p.gates()
	p.Live = p.live()
	for i := range b.Ages {
		p.Gains = append(p.Gains, p.gain(i))
	}
	return p
}

// Better is the word for which way is better.
func (p *backtestPage) Better() string {
	return map[bool]string{true: "higher is better", false: "lower is better"}[p.Maximize]
}

// Yesterday is the gain over the youngest of the older models, as text.
func (p *backtestPage) Yesterday(n BacktestNight) string {
	if len(p.Ages) == 0 || n.Stale[p.Ages[0].Age] == nil {
		return ""
	}
	g := n.Stale[p.Ages[0].Age]
	return fmt.Sprintf("%s (%s to %s)", plot.Plain.Format(g.Gain), plot.Plain.Format(g.Low), plot.Plain.Format(g.High))
}

// after is the day that tests the night.
func (n *BacktestNight) after() float64 {
	t, _ := time.Parse(time.DateOnly, n.Test) // the report was checked
	return day(t)
}

// over is the gain over a model of an age, of NaNs where there is none.
func (n *BacktestNight) over(age int) BacktestGain {
	if g := n.Stale[age]; g != nil {
		return *g
	}
	return BacktestGain{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}
}

// mostLines is how many curves a chart tells apart.
const mostLines = 6

// over is a curve over the days after.
func (p *backtestPage) over(i int, label string, of func(*BacktestNight) float64) (plot.Line, plot.Key) {
	class := "rel n" + strconv.Itoa(i%mostLines)
	l := plot.Line{Trial: plot.None, Class: class, Peak: -1, Dots: "dots n" + strconv.Itoa(i%mostLines)}
	for j := range p.Nights {
		l.X, l.Y = append(l.X, p.Nights[j].after()), append(l.Y, of(&p.Nights[j]))
	}
	return l, plot.Key{Class: class, Label: label}
}

// values draws the metric of the night's models and of older ones.
func (p *backtestPage) values() *plot.Chart {
	c := plot.Lines{Chart: plot.Chart{ID: "value", Title: p.Metric + " on the following day", W: plot.Full, H: 320,
		Wide: true}, X: plot.Axis{Unit: plot.Days, Whole: true}, Y: plot.Axis{Label: p.Metric + ", " + p.Better()}}
	columns := []string{"night", "value"}
	for i, a := range p.Ages {
		name := fmt.Sprintf("%s older", counted(a.Age, "day", "days"))
		of := func(n *BacktestNight) float64 { return n.over(a.Age).Old }
		l, k := p.over(i+1, name, of)
		c.Lines, c.Keys = append(c.Lines, l), append(c.Keys, k)
		key := "o" + strconv.Itoa(i)
		add(p.data, key, name, plot.Plain, p.Nights, func(n BacktestNight) any { return of(&n) })
		columns = append(columns, key)
	}
	l, k := p.over(0, "tonight's model", func(n *BacktestNight) float64 { return n.Value })
	c.Lines, c.Keys = append(c.Lines, l), append([]plot.Key{k}, c.Keys...)
	c.Summary = "The night's model, and models that many nights older, each on the day after the night."
	p.data.table("value", c.Title, columns...)
	return c.Draw()
}

// gates draws what each rule would have had live.
func (p *backtestPage) gates() *plot.Chart {
	c := plot.Lines{Chart: plot.Chart{ID: "gates", Title: p.Metric + " of the champion, by rule", W: plot.Full, H: 320,
		Wide: true}, X: plot.Axis{Unit: plot.Days, Whole: true}, Y: plot.Axis{Label: p.Metric + ", " + p.Better()}}

	columns := []string{"night"}
	best := -1
	for i, r := range p.Rules {
		of := func(n *BacktestNight) float64 { return n.Rules[r.Name].Value }
		l, k := p.over(i, r.Name, of)
		c.Lines, c.Keys = append(c.Lines, l), append(c.Keys, k)
		key := "g" + strconv.Itoa(i)
		add(p.data, key, r.Name, plot.Plain, p.Nights, func(n BacktestNight) any { return of(&n) })
		columns = append(columns, key)
		if best < 0 || p.Maximize && r.Mean > p.Rules[best].Mean || !p.Maximize && r.Mean < p.Rules[best].Mean {
			best = i
		}
	}

	c.Summary = "On the day after each night, for the model that the rule would have had live."
	if best >= 0 {
		r := p.Rules[best]
		p.Answer.Title = fmt.Sprintf("Best on average: %s, with %s %s", r.Name, p.Metric, plot.Plain.Format(r.Mean))
		p.Answer.Text = fmt.Sprintf("It promoted on %s; %d of the promoted were worse on the following day, %d of "+
			"them beyond chance. It missed %d that were better beyond chance.",
			english.Plural(r.Promotions, "night", ""), r.Wrong, r.Surely, r.Missed)
	}
	p.data.table("gates", c.Title, columns...)
	return c.Draw()
}

// live draws whose model was live when, under each rule.
func (p *backtestPage) live() *plot.Chart {
	g := plot.Gantt{Chart: plot.Chart{ID: "champions", Title: "What each rule would have had live", W: plot.Full},
		X: plot.Axis{Unit: plot.Days, Whole: true}}
	for i, r := range p.Rules {
		g.Rows = append(g.Rows, plot.GanttRow{Group: "rules", Label: r.Name})
		for j := range p.Nights {
			n := &p.Nights[j]
			v := n.Rules[r.Name]
			class := "at a6"
			if v.Promoted && v.True != nil && v.True.Gain < 0 {
				class = "at a3"
			}

			from := n.after()
			if last := len(g.Spans) - 1; last >= 0 && g.Spans[last].Row == i && !v.Promoted {
				g.Spans[last].To = from + 1
				continue
			}
			text := ""
			if at, err := time.Parse(time.DateOnly, v.Grown); err == nil {
				text = at.Format("Jan 2")
			}
			g.Spans = append(g.Spans, plot.Span{Trial: plot.None, Row: i, From: from, To: from + 1, Class: class,
				Text: text})
		}
	}

	g.Keys = []plot.Key{{Class: "at key a6", Label: "promoted, and no worse than the previous one"},
		{Class: "at key a3", Label: "promoted, but worse on the following day"}}
	g.Summary = "Each piece is a champion, from the first day that it would have served to the last; its name is " +
		"the night that trained it."
	p.data.table("champions", g.Title, p.championColumns()...)
	return g.Draw()
}

func (p *backtestPage) championColumns() []string {
	columns := []string{"night"}
	for i, r := range p.Rules {
		key := "h" + strconv.Itoa(i)
		add(p.data, key, r.Name, plot.Plain, p.Nights, func(n BacktestNight) any { return n.Rules[r.Name].Grown })
		columns = append(columns, key)
	}
	return columns
}

// gain draws the gain over a model of an age, with its interval.
func (p *backtestPage) gain(i int) *plot.Chart {
	a := p.Ages[i]
	id := "gain-" + strconv.Itoa(a.Age)
	c := plot.Lines{Chart: plot.Chart{ID: id, Title: fmt.Sprintf("Gain over a model %s older",
		counted(a.Age, "day", "days")), W: plot.Half, H: 260}, X: plot.Axis{Unit: plot.Days, Whole: true},
		Y: plot.Axis{Label: "gain in " + p.Metric}, Levels: []float64{0}}

	l, _ := p.over(0, "gain", func(n *BacktestNight) float64 { return n.over(a.Age).Gain })
	l.Class = "rel join0 n0"
	for j := range p.Nights {
		g := p.Nights[j].over(a.Age)
		l.Low, l.High = append(l.Low, g.Low), append(l.High, g.High)
	}
	if slices.ContainsFunc(l.Y, func(v float64) bool { return !math.IsNaN(v) }) {
		c.Lines = []plot.Line{l}
	}
	c.Summary = fmt.Sprintf("With its 95 %% interval, paired on the rows of the following day; above 0 the night's "+
		"model is better. It was on %d of %d nights, on %d beyond chance.", a.Better, a.Nights, a.Surely)

	for _, k := range []struct {
		key, name string
		of        func(BacktestGain) float64
	}{{"-g", "gain", func(g BacktestGain) float64 { return g.Gain }},
		{"-l", "lowest", func(g BacktestGain) float64 { return g.Low }},
		{"-h", "highest", func(g BacktestGain) float64 { return g.High }}} {
		add(p.data, id+k.key, k.name, plot.Plain, p.Nights, func(n BacktestNight) any { return k.of(n.over(a.Age)) })
	}
	p.data.table(id, c.Title, "night", id+"-g", id+"-l", id+"-h")
	return c.Draw()
}
