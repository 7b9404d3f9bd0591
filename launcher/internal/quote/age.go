package quote

import (
	"fmt"
	"time"

	"coppice/internal/sweep"
)

// oldPrice is the age from which a price is reported. Spot prices may change once a day
// (https://cloud.google.com/spot-vms/pricing), on-demand prices rarely; after a month a Spot price is out of date.
const oldPrice = 30 * 24 * time.Hour

// Age returns notes about prices in the quote that are too old at the time now; empty if there are none.
func Age(q *sweep.Quote, now time.Time) []string {
	dates := []string{q.PriceDate}
	for _, f := range q.Fallback {
		dates = append(dates, f.PriceDate)
	}
	return age(dates, now)
}

// age is a note about the oldest of the dates, if it is too old. An empty date means no price.
func age(dates []string, now time.Time) []string {
	var oldest time.Time
	for _, date := range dates {
		if d, err := time.Parse(time.DateOnly, date); err == nil && (oldest.IsZero() || d.Before(oldest)) {
			oldest = d
		}
	}
	if oldest.IsZero() || now.Sub(oldest) <= oldPrice {
		return nil
	}
	return []string{fmt.Sprintf("the oldest price is from %s, %d days ago, and may have changed; `launcher prices "+
		"refresh` reads today's",
		oldest.Format(time.DateOnly), int(now.Sub(oldest).Hours()/24))}
}
