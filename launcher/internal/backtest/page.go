package backtest

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

//go:embed page.html
var files embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{"number": number}).ParseFS(files, "page.html"))

// number is x in digits that tell days apart.
func number(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }

// WritePage writes one self-contained HTML file: tables, and curves as SVG.
func (r *Report) WritePage(w io.Writer) error {
	return page.Execute(w, map[string]any{"R": r, "Charts": r.charts()})
}

// chart is a drawing with its curves.
type chart struct {
	Title, Summary string
	Lines          []line
	Bands          []string // paths of intervals
	YTicks         []tick
	XTicks         []tick
	Zero           string // path of the line at 0; empty where that is not in sight
}

type line struct {
	Name, Path string
	Class      int // of its colour
}

type tick struct {
	At   string
	Text string
}

// The drawing's inner part, in the pixels of its view box.
const (
	left, right, top, bottom = 70.0, 880.0, 12.0, 240.0
	ticks                    = 5
	mostDays                 = 8
)

// curve is a value for each night; NaN where there is none.
type curve struct {
	name      string
	y         []float64
	low, high []float64 // an interval; nil without
}

// charts draws the metric by day, and the gain over what would have been live.
func (r *Report) charts() []chart {
	value := []curve{{name: "tonight's model", y: r.each(func(n *Night) float64 { return n.Value })}}
	for _, k := range r.Stale {
		value = append(value, curve{name: fmt.Sprintf("%d days older", k), y: r.each(func(n *Night) float64 {
			if g := n.Stale[k]; g != nil {
				return g.Old
			}
			return math.NaN()
		})})
	}

	champions := []curve{}
	for _, g := range r.Gates {
		champions = append(champions, curve{name: g.Name, y: r.each(func(n *Night) float64 { return n.Rules[g.Name].Value })})
	}

	out := []chart{
		r.draw(r.Metric+" on the day after", "The night's model, and models grown so many nights before.", value),
		r.draw(r.Metric+" of the champion on the day after, by rule", "What each rule of the gate would have had live.", champions),
	}
	for _, k := range r.Stale {
		gain := func(of func(*Gain) float64) []float64 {
			return r.each(func(n *Night) float64 {
				if g := n.Stale[k]; g != nil {
					return of(g)
				}
				return math.NaN()
			})
		}
		out = append(out, r.draw(fmt.Sprintf("Gain over a model %d days older", k), "With its 95 % interval, paired on the rows of the day after; above 0 the night's model is better.",
			[]curve{{name: "gain", y: gain(func(g *Gain) float64 { return g.Gain }), low: gain(func(g *Gain) float64 { return g.Low }), high: gain(func(g *Gain) float64 { return g.High })}}))
	}
	return out
}

func (r *Report) each(of func(*Night) float64) []float64 {
	out := make([]float64, len(r.Nights))
	for i := range r.Nights {
		out[i] = of(&r.Nights[i])
	}
	return out
}

// draw puts curves into the frame.
func (r *Report) draw(title, summary string, curves []curve) chart {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		for _, y := range slices.Concat(c.y, c.low, c.high) {
			if !math.IsNaN(y) && !math.IsInf(y, 0) {
				low, high = min(low, y), max(high, y)
			}
		}
	}
	c := chart{Title: title, Summary: summary}
	if low > high {
		return c
	}
	if low == high {
		low, high = low-1e-6, high+1e-6
	}
	room := (high - low) / 20
	low, high = low-room, high+room

	x := func(i int) float64 {
		if len(r.Nights) == 1 {
			return (left + right) / 2
		}
		return left + (right-left)*float64(i)/float64(len(r.Nights)-1)
	}
	y := func(v float64) float64 { return bottom - (bottom-top)*(v-low)/(high-low) }

	for i := range ticks {
		v := low + (high-low)*float64(i)/(ticks-1)
		c.YTicks = append(c.YTicks, tick{at(y(v)), number(v)})
	}
	step := max(1, (len(r.Nights)+mostDays-1)/mostDays)
	for i := 0; i < len(r.Nights); i += step {
		c.XTicks = append(c.XTicks, tick{at(x(i)), r.Nights[i].Test[len("2006-"):]})
	}
	if low < 0 && high > 0 {
		c.Zero = fmt.Sprintf("M%s %sH%s", at(left), at(y(0)), at(right))
	}
	for i, one := range curves {
		c.Lines = append(c.Lines, line{one.name, path(one.y, x, y), i % 6})
		for j := range one.low {
			if !math.IsNaN(one.low[j]) && !math.IsInf(one.low[j], 0) {
				c.Bands = append(c.Bands, fmt.Sprintf("M%s %sV%s", at(x(j)), at(y(one.low[j])), at(y(one.high[j]))))
			}
		}
	}
	return c
}

// path is a curve that is interrupted where there is no value.
func path(values []float64, x func(int) float64, y func(float64) float64) string {
	var b strings.Builder
	pen := "M"
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&b, "%s%s %s", pen, at(x(i)), at(y(v)))
		if pen == "M" {
			b.WriteString("h0") // a single point shows
		}
		pen = "L"
	}
	return b.String()
}

func at(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
