package sweep

import (
	"math"
	"strconv"
)

// Score is a metric's value as people read it everywhere, or another number: with its standard error, to that's second
// digit, 0.0767 ± 0.0012; where none is known, which is 0, in four digits, and not fewer than there are before the
// point. What programs read has all digits.
func Score(v, se float64) string {
	if !(se > 0) || math.IsInf(se, 0) || math.IsNaN(v) {
		return Digits(v, max(4, whole(v)))
	}
	power, _ := strconv.Atoi(strconv.FormatFloat(se, 'e', 1, 64)[4:]) // 1.2e-03: of its first digit
	unit := math.Pow(10, float64(power-1))
	at := func(x float64) string {
		return strconv.FormatFloat(math.Round(x/unit)*unit+0, 'f', max(0, 1-power), 64)
	}
	return at(v) + " ± " + at(se)
}

// whole is how many digits a number has before the point.
func whole(v float64) int { return int(math.Log10(max(1, math.Abs(v)))) + 1 }

// Percent is a share as people read it: in two digits, whole from 10 % on, and never 100 % of less.
func Percent(share float64) string { return percent(share, 2) }

// percent is a share in n digits, in more where it would seem to be 100 %, and a bound where it would seem to be 0.
func percent(share float64, n int) string {
	if share != 0 && math.Abs(share) < 1e-5 {
		return map[bool]string{true: "<0.001 %", false: ">-0.001 %"}[share > 0]
	}
	text := Digits(100*share, max(n, whole(100*share)))
	for ; math.Abs(share) < 1 && n < 17 && (text == "100" || text == "-100"); n++ {
		text = Digits(100*share, n)
	}
	return text + " %"
}

// PercentBeside is a share and a limit in as many digits as tell the one from the other.
func PercentBeside(share, limit float64) (text, of string) {
	for n := 2; n < 9 && text == of && (n == 2 || share != limit); n++ {
		text, of = percent(share, n), percent(limit, n)
	}
	return text, of
}

// Digits is v with n significant digits and no more, as a script writes it: exponents are of what is very small or
// large.
func Digits(v float64, n int) string {
	text := strconv.FormatFloat(v, 'g', n, 64)
	if v, _ = strconv.ParseFloat(text, 64); math.IsNaN(v) || math.IsInf(v, 0) { // the largest round beyond all
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

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// ScoreText is a trial's score, with its standard error where one is known, as people read it.
func (r *Result) ScoreText() string { return Score(r.Score, orZero(r.ScoreSE)) }
