package plot

import (
	"math"
	"testing"
)

// TestMoney: cents, three digits of what is less than a dollar, and no number where there is none.
func TestMoney(t *testing.T) {
	for v, want := range map[float64]string{0: "$0", 0.7: "$0.70", 0.0123: "$0.0123", 0.1234: "$0.123", 0.999: "$1.00",
		1.5: "$1.50", 3: "$3.00", 1234.567: "$1,234.57", -2.5: "-$2.50", 1e-5: "$1e-05", math.Inf(1): "-"} {
		if got := USD.Format(v); got != want {
			t.Errorf("%v USD is written %q, expected %q", v, got, want)
		}
	}
}

// TestNamesAreCutInTheirMiddle: what names begin and end with tells them apart, characters are not cut apart.
func TestNamesAreCutInTheirMiddle(t *testing.T) {
	for text, want := range map[string]string{"user_clicks_last_seven_days_by_campaign": "user_clicks_…by_campaign",
		"short": "short", "שםשםשםשםשםשםשםשםשםשםשםשםשםשםשם": "שםשםשםשםשםשם…םשםשםשםשםשם"} {
		if got := Clip(text, 24); got != want {
			t.Errorf("%q in 24 characters is %q, want %q", text, got, want)
		}
	}
}
