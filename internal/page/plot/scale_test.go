package plot

import (
	"math"
	"slices"
	"testing"

	"coppice/internal/must"
)

// TestMoney: amounts in USD are written with cents and commas, those under half a cent as "<$0.01", and infinite ones
// as unknown.
func TestMoney(t *testing.T) {
	for v, want := range map[float64]string{0: "$0", 0.7: "$0.70", 0.0123: "$0.01", 0.1234: "$0.12", 0.999: "$1.00",
		1.5: "$1.50", 3: "$3.00", 1234.567: "$1,234.57", -2.5: "-$2.50", 1e-5: "<$0.01", -1e-5: "<$0.01",
		0.0049: "<$0.01", 0.005: "$0.01", math.Inf(1): "-"} {
		must.Equal(t, USD.Format(v), want, "%v USD is written", v)
	}
}

// TestNamesAreCutInTheirMiddle: a long name keeps its beginning and its end, and is cut between characters, not bytes.
func TestNamesAreCutInTheirMiddle(t *testing.T) {
	for text, want := range map[string]string{"user_clicks_last_seven_days_by_campaign": "user_clicks_…by_campaign",
		// Of 24 characters the ellipsis is one, 12 are the beginning and 11 the end.
		"short": "short", "שםשםשםשםשםשםשםשםשםשםשםשםשםשםשם": "שםשםשםשםשםשם…םשםשםשםשםשם"} {
		must.Equal(t, Clip(text, 24), want, "%q in 24 characters", text)
	}
}

// TestNoExponents: numbers of usual size are written without exponents, which 1e-9 is not, and percentages and amounts
// next to zero as less than the smallest that is shown.
func TestNoExponents(t *testing.T) {
	for _, tc := range []struct {
		unit Unit
		v    float64
		want string
	}{
		{Percent, 6.98e-7, "<0.001 %"}, {Percent, -6.98e-7, ">-0.001 %"}, {Percent, 0, "0 %"},
		{Percent, 0.000137, "0.014 %"}, {Plain, 5.81e-05, "0.0000581"}, {Plain, 12345678, "12345678"},
		{Plain, 1e-9, "1e-09"}, {USD, 0.00012, "<$0.01"},
	} {
		must.Equal(t, tc.unit.Format(tc.v), tc.want, "%v is written", tc.v)
	}
}

// TestTicksKeepApart: on a logarithmic axis, 1 to 9 are not all ticks if the texts of 8 and 9 would touch. From 1.08 %
// to 10 % the ticks are 2, 5 and 10 %; from 1.08 % to 3 % they are 2 and 3 %.
func TestTicksKeepApart(t *testing.T) {
	for high, want := range map[float64][]float64{0.1: {0.02, 0.05, 0.1}, 0.03: {0.02, 0.03}} {
		if got := logTicks(0.0108, high, 7); !slices.Equal(got, want) { // about 7 ticks are asked for
			t.Errorf("from .0108 to %v: ticks at %v, expected %v", high, got, want)
		}
	}
}
