package nights_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
)

// window is the table of so many days up to one, with fifteen rows a day.
func window(days, last int) nightstest.Table {
	t := nightstest.Table{Names: []string{"ts", "campaign_id", "advertiser_id", "user_id", "price", "is_click"}}
	for day := last - days + 1; day <= last; day++ {
		r := rand.New(rand.NewPCG(uint64(day), 1))
		for i := range 15 {
			at := nightstest.First.AddDate(0, 0, day).Add(time.Duration(i) * 96 * time.Minute)
			campaign, click := r.IntN(8), 0
			if r.IntN(10) < 1+campaign/2 {
				click = 1
			}
			t.Rows = append(t.Rows, []string{at.Format("2006-01-02T15:04:05.000Z"), fmt.Sprint(campaign),
				fmt.Sprint(campaign / 2), fmt.Sprint("u", r.IntN(300)), fmt.Sprintf("%.4f", 1+r.Float64()),
				fmt.Sprint(click)})
		}
	}
	return t
}

// TestHonestWindows: nearly all rows of a window of 28, 90 or 180 days are last night's, as they should be, on the
// second night and after nights that were left out, too. The same window again, with new dates or without, is not.
func TestHonestWindows(t *testing.T) {
	for _, days := range []int{28, 90, 180} {
		var before []*nights.Profile
		tonight := func(table nightstest.Table) []nights.Finding {
			n := stageGood(t, table, before)
			found := compare(t, n, before)
			before = append(before, n.profile)
			return found
		}
		for i, day := range []int{200, 201, 203, 205, 206, 208} {
			if found := tonight(window(days, day)); nights.Blocked(found) {
				t.Errorf("honest night %d of %d days is held back: %v", i, days, found)
			}
		}
		last, usual := window(days, 208), before
		for name, table := range map[string]nightstest.Table{"the same rows": last, "new dates": last.Moved(24 * time.Hour)} {
			before = slices.Clone(usual)
			if found := tonight(table); !nights.Blocked(found) || found[0].Code != nights.CodeSameRows {
				t.Errorf("%s, %d days: found %v, want same_rows", name, days, found)
			}
		}
	}
}

// TestAWindowFillsWithALeak: a column that knows the labels of all days from one on explains more of them each night,
// and what the last nights have let pass does not become usual.
func TestAWindowFillsWithALeak(t *testing.T) {
	const days, first = 14, 208
	var before []*nights.Profile
	for day := first - 8; day < first+days/2; day++ {
		table := window(days, day)
		for i, row := range table.Rows {
			if day-days+1+i/15 >= first && row[5] == "1" {
				row[4] = "0.5"
			}
		}
		n := must.Get(stage(t, table, before))(t)
		found := compare(t, n, before)
		leaks := slices.ContainsFunc(found, func(f nights.Finding) bool { return f.Code == nights.CodeLeak })
		switch {
		case day < first && nights.Blocked(found):
			t.Errorf("an honest night is held back: %v", found)
		case leaks && nights.Blocked(found):
			return
		}
		before = append(before, n.profile)
	}
	t.Errorf("price knows the label of half of the days, and no night was held back for a leak")
}
