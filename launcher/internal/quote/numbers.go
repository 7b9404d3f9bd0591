package quote

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// Time is a duration as it is expected: 3 min.
func Time(seconds float64) string { return plot.Seconds.Format(seconds) }

// Times is a time with its range: 3 min (2 to 7).
func Times(seconds sweep.Range) string { return formatRange(seconds, Time) }

// Hours is the same for an estimate in hours.
func Hours(estimate sweep.Range) string {
	return Times(sweep.Range{Low: 3600 * estimate.Low, Expected: 3600 * estimate.Expected, High: 3600 * estimate.High})
}

// USD is an amount: $0.01.
func USD(v float64) string { return plot.USD.Format(v) }

// Money is an amount with its range: $0.01 (<0.01 to 0.02); "no price" for nil and 0.
func Money(r *sweep.Range) string {
	if r == nil || r.Expected == 0 {
		return "no price"
	}
	return formatRange(*r, USD)
}

// formatRange is the expected value, with the low and the high one in brackets unless both read the same. say writes a
// value with its unit, which is left out of the brackets if all three have the same one.
func formatRange(estimate sweep.Range, say func(float64) string) string {
	text, low, high := say(estimate.Expected), say(estimate.Low), say(estimate.High)
	if _, unit, found := strings.Cut(text, " "); found && strings.HasSuffix(low, " "+unit) &&
		strings.HasSuffix(high, " "+unit) {
		low, high = strings.TrimSuffix(low, " "+unit), strings.TrimSuffix(high, " "+unit)
	}
	if low == high {
		return text
	}
	return fmt.Sprintf("%s (%s to %s)", text, strings.ReplaceAll(low, "$", ""), strings.ReplaceAll(high, "$", ""))
}

// formatBudget writes a budget as it was given, which may be less than a cent: USD would round that to 0.
func formatBudget(usd float64) string {
	if usd >= 0.01 {
		return USD(usd)
	}
	return "$" + strconv.FormatFloat(usd, 'f', -1, 64)
}

// written is a duration as people write it in a spec: without zeros at its end, such as 7m for 7m0s and 2h for 2h0m0s.
// Zeros in front of other parts stay, as in 1h0m30s. Seconds go first, since only then do minutes end the text.
func written(duration time.Duration) string {
	text := duration.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// wholeMinutes rounds up to minutes, or from ten minutes on to tens of them.
func wholeMinutes(seconds float64) time.Duration {
	d, unit := time.Duration(seconds*float64(time.Second)), 10*time.Minute
	if d < unit {
		unit = time.Minute
	}
	return (d + unit - 1).Truncate(unit)
}

// exactly writes a time to the second, to be shown with a limit that is nearly as long.
func exactly(seconds float64) string {
	return written(time.Duration(seconds * float64(time.Second)).Round(time.Second))
}

// model is the word for how machines are paid.
func model(spot bool) string {
	if spot {
		return "Spot"
	}
	return "on-demand"
}

// Priced says which machines a price is of.
func Priced(spot bool) string {
	if spot {
		return "on Spot"
	}
	return "on demand"
}

// roundUp rounds up to cents.
func roundUp(v float64) float64 { return math.Ceil(100*v-1e-6) / 100 }
