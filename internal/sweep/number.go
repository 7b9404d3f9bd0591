package sweep

import (
	"math"
	"strconv"
)

// Score returns a metric's value, or another number, as people read it everywhere. With a standard error se, both are
// given to the second digit of the error: 0.0767 ± 0.0012. Where no error is known, which is 0, the value has four
// significant digits, or as many as there are before the point if these are more. (What programs read has all digits.)
func Score(v, se float64) string {
	if !(se > 0) || math.IsInf(se, 0) || math.IsNaN(v) {
		return Digits(v, max(4, wholeDigits(v)))
	}
	// The power of ten of the error's first digit: of 1.2e-03 it is -3, after "1.2e". unit is that of its second digit.
	power, _ := strconv.Atoi(strconv.FormatFloat(se, 'e', 1, 64)[4:])
	unit := math.Pow(10, float64(power-1))
	format := func(x float64) string { // adding 0 makes a -0 0
		return strconv.FormatFloat(math.Round(x/unit)*unit+0, 'f', max(0, 1-power), 64)
	}
	return format(v) + " ± " + format(se)
}

// wholeDigits returns how many digits a number has before the point, at least 1.
func wholeDigits(v float64) int { return int(math.Log10(max(1, math.Abs(v)))) + 1 }

// Percent returns a share as people read it, in two digits: 1.2 %, 12 %, 120 %. A share below 1 is never shown as 100
// %.
func Percent(share float64) string { return percent(share, 2) }

// percent returns a share in percent with n significant digits. It has more digits where fewer would round a share
// below 1 to 100 %, and those before the point are never cut. A share that would seem to be 0 is given as a bound:
// <0.001 %.
func percent(share float64, n int) string {
	if share != 0 && math.Abs(share) < 1e-5 {
		if share > 0 {
			return "<0.001 %"
		}
		return ">-0.001 %"
	}
	text := Digits(100*share, max(n, wholeDigits(100*share)))
	for ; math.Abs(share) < 1 && n < 17 && (text == "100" || text == "-100"); n++ {
		text = Digits(100*share, n)
	}
	return text + " %"
}

// PercentBeside returns a share and a limit in percent, both in the fewest digits, from two to eight, that tell the one
// from the other. If they are equal, or nearly so, both are the same text.
func PercentBeside(share, limit float64) (text, of string) {
	for n := 2; n < 9 && text == of && (n == 2 || share != limit); n++ {
		text, of = percent(share, n), percent(limit, n)
	}
	return text, of
}

// Digits returns v with n significant digits, without zeros at the end. Only very small and very large numbers, below
// 1e-6 and from 1e21 on, have an exponent, as in JavaScript.
func Digits(v float64, n int) string {
	text := strconv.FormatFloat(v, 'g', n, 64)
	v, _ = strconv.ParseFloat(text, 64) // infinite, with an error, if v was rounded up beyond the largest float64
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return text
	}
	if v == 0 {
		return "0" // never -0
	}
	if math.Abs(v) < 1e-6 || math.Abs(v) >= 1e21 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// orZero returns the number that v points to, or 0 for nil.
func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// ScoreText returns the trial's score as people read it, with its standard error where one is known.
func (r *Result) ScoreText() string { return Score(r.Score, orZero(r.ScoreSE)) }
