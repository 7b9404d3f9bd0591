package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"

	"coppice/internal/sweep"
)

// Unit is what a number counts.
type Unit string

// The units.
const (
	Plain   Unit = ""
	Seconds Unit = "s"
	Bytes   Unit = "B"
	USD     Unit = "USD"
	Percent Unit = "%" // numbers are shares of 1
	Count   Unit = "#" // of things: 2,100,000
)

// Format writes v in its unit. NaN and infinities, which stand for "not known", are "-".
func (u Unit) Format(v float64) string {
	switch {
	case !allFinite(v):
		return "-"
	case u == Seconds:
		return formatDuration(v)
	case u == Bytes:
		return humanize.IBytes(uint64(max(0, v)))
	case u == USD:
		return dollars(v)
	case u == Percent:
		return sweep.Percent(v)
	case u == Count:
		return humanize.Comma(int64(math.Round(v)))
	}
	return sweep.Score(v, 0)
}

// dollars writes an amount in USD as people do, rounded to cents: "$1,234.57". Less than half a cent, of
// either sign, is "<$0.01".
func dollars(v float64) string {
	if v == 0 {
		return "$0"
	}
	if math.Abs(v) < 0.005 {
		return "<$0.01"
	}
	if v < 0 {
		return "-" + dollars(-v)
	}
	return "$" + humanize.FormatFloat("#,###.##", v)
}

// formatDuration writes seconds in a suitable unit with about two digits: milliseconds, seconds, minutes from 59.5 s
// (which would round to 60 s), hours from 2 hours, and days from 2 days.
func formatDuration(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0 s"
	case a < 1:
		return sweep.Digits(1000*v, 2) + " ms"
	case a < 59.5:
		return sweep.Digits(v, 2) + " s"
	case a < 2*3600:
		return fmt.Sprintf("%.0f min", v/60)
	case a < 48*3600:
		return sweep.Digits(v/3600, 2) + " h"
	}
	return sweep.Digits(v/86400, 2) + " days"
}

// Axis is what one direction of a chart shows.
type Axis struct {
	Label      string
	Unit       Unit
	Log        bool
	Low, High  float64  // what to show; the same number twice, or none, leaves it to the data
	Categories []string // names of 0, 1, ...; nil of numbers
	Whole      bool     // numbers are whole

	zero bool // of a logarithmic axis: it begins with a place for what has no logarithm
}

// fitRange sets the range of an axis to that of the values, unless it has a range. A linear axis gets a little room at
// both ends, but none below 0 if no value is. An axis of categories gets half a category of room. A logarithmic one
// gets none; it becomes linear if the values do not allow it: without any above 0, or with a single one.
func (a *Axis) fitRange(values []float64) {
	if a.Categories != nil {
		a.Low, a.High = -0.5, float64(len(a.Categories))-0.5
		return
	}
	if a.Low < a.High {
		return
	}

	// The range of the values that the axis can show.
	a.Low, a.High = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if allFinite(v) && (!a.Log || v > 0) {
			a.Low, a.High = min(a.Low, v), max(a.High, v)
		}
	}
	if !allFinite(a.Low, a.High) {
		a.Low, a.High, a.Log = 0, 1, false
	}

	// A logarithmic axis needs no room. Values of 0 and less have no logarithm: they are drawn at its beginning, for
	// which about a ninth of the axis (0.12/1.12) is added below the least value that has one.
	if a.Log && a.High > a.Low {
		a.zero = slices.ContainsFunc(values, func(v float64) bool { return v <= 0 })
		if a.zero {
			a.Low /= math.Pow(a.High/a.Low, 0.12)
		}
		return
	}
	a.Log = false

	// 4 % of the range at each end, or of a single value, a tenth of it; but nothing below 0 if no value is.
	room := cmp.Or(0.04*(a.High-a.Low), max(math.Abs(a.High)/10, 1e-9))
	nonnegative := a.Low >= 0
	a.Low, a.High = a.Low-room, a.High+room
	if nonnegative {
		a.Low = max(a.Low, 0)
	}
}

// scale maps an axis to pixels.
type scale struct {
	Axis
	from, to float64
}

// at returns the pixel at which v lies. A value beyond an end of the axis lies at that end.
func (s scale) at(v float64) float64 {
	low, high := s.Low, s.High
	if s.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, s.Low))
	}
	return s.from + min(1, max(0, (v-low)/(high-low)))*(s.to-s.from)
}

// say returns the text beside a tick at v: the name of the category with that number, or else the value with as many
// digits as tell neighbouring ticks apart.
func (s scale) say(v float64) string {
	if s.zero && v <= s.Low*(1+1e-9) { // the place for what has no logarithm (see Axis.zero)
		return "0"
	}
	switch {
	case s.Categories != nil:
	case s.Unit == Percent:
		return sweep.Digits(100*v, 3) + " %"
	case s.Unit == Plain && v != math.Trunc(v):
		return sweep.Digits(v, 5)
	default:
		return s.Unit.Format(v)
	}
	if i := int(math.Round(v)); i >= 0 && i < len(s.Categories) {
		return s.Categories[i]
	}
	return ""
}

// placeTicks returns about n values at which the axis has ticks: round numbers, on a logarithmic axis those of
// logTicks, and of categories at most 2n at equal distances. An axis with a place for zero has a tick there first.
func (s scale) placeTicks(n int) []float64 {
	if s.Categories != nil {
		every := max(1, (len(s.Categories)+2*n-1)/(2*n))
		var out []float64
		for i := 0; i < len(s.Categories); i += every {
			out = append(out, float64(i))
		}
		return out
	}
	if s.zero { // the next tick keeps 8 % of the axis away, so that its text does not touch the 0
		return append([]float64{s.Low}, logTicks(s.Low*math.Pow(s.High/s.Low, 0.08), s.High, n)...)
	}
	if s.Log {
		return logTicks(s.Low, s.High, n)
	}

	step := niceStep((s.High - s.Low) / float64(n))
	if s.Whole {
		step = max(1, step)
	}
	var out []float64
	// 1e-9 allows for rounding at the end, and 4n ends the loop where a step is too small to change i*step.
	for i := math.Ceil(s.Low / step); i*step <= s.High+1e-9*step && len(out) <= 4*n; i++ {
		v := i * step
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64) // 0.3, not 0.30000000000000004
		out = append(out, v)
	}
	if len(out) < 2 && n < 20 { // one number is no scale: try smaller steps, but not for ever
		return s.placeTicks(2 * n)
	}
	return out
}

// niceStep returns the least of 1, 2, 2.5 and 5 times a power of ten that is not below rough; 1 if rough is not a
// positive number.
func niceStep(rough float64) float64 {
	if !allFinite(rough) || rough <= 0 {
		return 1
	}
	magnitude := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*magnitude >= rough*(1-1e-9) {
			return m * magnitude
		}
	}
	return 10 * magnitude
}

// logTicks returns at most about n values from low to high (both above 0) for a logarithmic axis. In each decade they
// are 1 to 9, or if those are too many 1, 2 and 5, or 1 and 3, or 1. If even the powers of ten are too many, some of
// them are left out. Without at least one such value it returns low and high.
func logTicks(low, high float64, n int) []float64 {
	thin := func(all []float64) (out []float64) { // keeps at most n+2, at equal distances
		for i := 0; i < len(all); i += 1 + (len(all)-1)/(n+2) {
			out = append(out, all[i])
		}
		return out
	}
	within := func(v float64) bool { return v >= low*(1-1e-9) && v <= high*(1+1e-9) }
	for _, digits := range [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 5}, {1, 3}, {1}} {
		var out []float64
		for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
			for _, m := range digits {
				// 0.0001, not 9.999999999999999e-05
				v, _ := strconv.ParseFloat(strconv.FormatFloat(m*math.Pow(10, e), 'g', 12, 64), 64)
				if within(v) {
					out = append(out, v)
				}
			}
		}

		// Of 1 to 9, the last two ticks lie closest. They must be over 1/(2n) of the axis apart, or their texts touch.
		k := len(out) - 1
		apart := len(digits) < 9 || k < 1 || 2*float64(n)*math.Log(out[k]/out[k-1]) > math.Log(high/low)
		fits := apart && k >= 1 && k <= n+1
		if fits || len(digits) == 1 && len(out) > 0 { // with one digit, nothing sparser is left to try
			return thin(out)
		}
	}
	return []float64{low, high}
}
