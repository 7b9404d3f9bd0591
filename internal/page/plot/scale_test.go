package plot

import (
	"math"
	"strings"
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

// TestRoundTimes: ticks of times lie at whole seconds, minutes and hours.
func TestRoundTimes(t *testing.T) {
	for _, tc := range []struct {
		low, high float64
		log       bool
		want      string
	}{
		{0, 400, false, "0 s|2 min|4 min|6 min"},
		{0, 9000, false, "0 s|60 min|2 h"},
		{37, 900, true, "60 s|2 min|5 min|10 min"},
		{100, 30000, true, "2 min|10 min|30 min|2 h"},
		{0, 0.004, false, "0 s|1 ms|2 ms|3 ms|4 ms"},
	} {
		s := scale{Axis: Axis{Unit: Seconds, Low: tc.low, High: tc.high, Log: tc.log}}
		var texts []string
		for _, v := range s.ticks(4) {
			texts = append(texts, s.say(v))
		}
		if got := strings.Join(texts, "|"); got != tc.want {
			t.Errorf("%v to %v s, logarithmic %t: got %s, want %s", tc.low, tc.high, tc.log, got, tc.want)
		}
	}
}
