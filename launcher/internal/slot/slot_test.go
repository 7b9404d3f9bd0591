package slot

import (
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// at parses a time.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	return must.Get(time.Parse(time.RFC3339, text))(t)
}

// TestLast: the slot at the time now is the last time of the schedule, in local time of the zone. Where clocks are put
// back and show the time twice, the first counts. Where they are put forward and skip it, the moment of the jump
// counts. A start up to half a minute too early counts for the time that is about to come.
func TestLast(t *testing.T) {
	for _, c := range []struct{ schedule, zone, now, want string }{
		{"0 3 * * *", "", "2026-11-21T03:00:00Z", "2026-11-21T03:00:00Z"},
		{"0 3 * * *", "UTC", "2026-11-21T03:00:04Z", "2026-11-21T03:00:00Z"},
		{"0 3 * * *", "UTC", "2026-11-21T02:59:45Z", "2026-11-21T03:00:00Z"}, // a clock that is behind
		{"0 3 * * *", "UTC", "2026-11-21T02:59:00Z", "2026-11-20T03:00:00Z"},
		{"0 3 * * *", "UTC", "2026-11-22T00:10:00Z", "2026-11-21T03:00:00Z"}, // a retry that comes the next day
		{"0 3 * * *", "Europe/Berlin", "2026-11-21T02:00:04Z", "2026-11-21T02:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-07-21T01:00:04Z", "2026-07-21T01:00:00Z"}, // in summer
		// half past one comes twice that night: at 05:30 and at 06:30 UTC
		{"30 1 * * *", "America/New_York", "2026-11-01T07:00:00Z", "2026-11-01T05:30:00Z"},
		{"30 1 * * *", "America/New_York", "2026-11-01T05:29:00Z", "2026-10-31T05:30:00Z"},
		{"0 2 * * *", "Europe/Amsterdam", "2026-10-25T00:00:00Z", "2026-10-25T00:00:00Z"},
		{"0 2 * * *", "Europe/Amsterdam", "2026-10-25T01:00:00Z", "2026-10-25T00:00:00Z"}, // two comes again
		{"0 2 * * *", "Europe/Amsterdam", "2026-10-26T00:59:00Z", "2026-10-25T00:00:00Z"},
		{"0 2 * * *", "Europe/Amsterdam", "2027-03-28T00:59:00Z", "2027-03-27T01:00:00Z"},
		{"0 2 * * *", "Europe/Amsterdam", "2027-03-28T01:00:00Z", "2027-03-28T01:00:00Z"}, // two is left out
		{"30 2 * * *", "Europe/Amsterdam", "2027-03-28T01:30:00Z", "2027-03-28T01:00:00Z"},
		{"0 2 * * *", "Europe/Amsterdam", "2027-03-29T00:00:00Z", "2027-03-29T00:00:00Z"},
		{"15 2 * * *", "America/New_York", "2027-03-14T07:20:00Z", "2027-03-14T07:00:00Z"},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z"}, // midnight is left out
		{"0 12 * * *", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z"},     // a whole day is
		// Sunday, as Cloud Scheduler takes it
		{"0 2 * * 7", "UTC", "2026-11-21T03:00:00Z", "2026-11-15T02:00:00Z"},
		{"0 2 * * FRI-7/2", "UTC", "2026-11-21T03:00:00Z", "2026-11-20T02:00:00Z"}, // Friday and Sunday
		{"0 2 * * 5-7/2,3", "UTC", "2026-11-19T03:00:00Z", "2026-11-18T02:00:00Z"}, // and Wednesday
		{"0 2 * * 6-7", "UTC", "2026-11-23T03:00:00Z", "2026-11-22T02:00:00Z"},     // the weekend
		{"0 2 * * 7-7", "UTC", "2026-11-21T03:00:00Z", "2026-11-15T02:00:00Z"},
		{"*/5 * * * *", "UTC", "2026-11-21T03:04:00Z", "2026-11-21T03:00:00Z"},
		{"0 */6 * * *", "UTC", "2026-11-21T17:59:00Z", "2026-11-21T12:00:00Z"},
		{"0 4 * * MON", "UTC", "2026-11-21T03:00:00Z", "2026-11-16T04:00:00Z"},
		{"15 2 1 * *", "UTC", "2026-11-21T03:00:00Z", "2026-11-01T02:15:00Z"},
		{"0 0 29 2 *", "UTC", "2026-11-21T03:00:00Z", "2024-02-29T00:00:00Z"},
	} {
		s, err := parseSchedule(c.schedule, c.zone)
		if err != nil {
			t.Fatalf("parsing the schedule of %v: %v, want no error", c, err)
		}
		got, err := s.lastTime(at(t, c.now))
		if err != nil || !got.Equal(at(t, c.want)) {
			t.Errorf("%q in %q at %s: got %v (error %v), want %s", c.schedule, c.zone, c.now, got, err, c.want)
		}
	}
}

// TestID: the id has the time in UTC. With the longest name, it and the id of its last job are valid.
func TestID(t *testing.T) {
	got := ID(strings.Repeat("n", 40), at(t, "2026-11-21T03:00:00+01:00"))
	if want := strings.Repeat("n", 40) + "-20261121-0200"; string(got) != want || sweep.CheckID(string(got)) != nil {
		t.Errorf("the id is %s, want %s", got, want)
	}
	if job := got.JobID(sweep.MaxFallbacks); sweep.CheckID(string(job)) != nil {
		t.Errorf("%s leaves no room for the job %s, want a valid id", got, job)
	}
}

// TestRefuses: a schedule or time zone that is wrong is an error of kind Usage, which says what is wrong and what to
// use.
func TestRefuses(t *testing.T) {
	const cron, zone = `; use the five fields of cron, such as "0 3 * * *"`,
		"; give --time-zone a name such as Europe/Berlin, or leave it out for UTC"
	for _, c := range []struct{ schedule, zone, says string }{
		{"", "", "the number of its fields is 0" + cron},
		{"0 3 * *", "", "the number of its fields is 4" + cron},
		{"0 0 3 * * *", "", "the number of its fields is 6" + cron},
		{"@daily", "", "the number of its fields is 1" + cron},
		{"every 24 hours at", "", "the number of its fields is 4" + cron},
		{"61 3 * * *", "", cron},
		{"*/0 * * * *", "", cron},
		{"0 3 * * 8", "", cron},
		{"0 3 * * 7-1", "", cron},
		{"0 3 * * 5-7/0", "", cron},
		{"0 3 * * 5-7/9223372036854775807", "", cron},
		{"0 3 * 7-13 *", "", cron},
		{"0 3 * * A=1", "", cron},
		{"TZ=UTC 0 3 * *", "", "it begins with a time zone; leave it out there and give it as --time-zone"},
		{" CRON_TZ=UTC 0 3 * * *", "", "it begins with a time zone; leave it out there and give it as --time-zone"},
		{"0 3 * * *", "Mars/Olympus", `unknown time zone "Mars/Olympus"` + zone},
		{"0 3 * * *", "Local", `unknown time zone "Local"` + zone},
		{"0 3 * * *", "../../etc/passwd", "unknown time zone" + ` "../../etc/passwd"` + zone},
		{strings.Repeat("1,", 200) + "1 3 * * *", "",
			"it has 409 characters, and 200 are allowed; write ranges and steps, such as 0-30/5, for long lists"},
	} {
		if _, err := parseSchedule(c.schedule, c.zone); problem.Of(err) != problem.Usage ||
			!strings.HasSuffix(err.Error(), c.says) ||
			!strings.HasPrefix(err.Error(), "schedule ") {
			t.Errorf("%q in %q: %v, want %s", c.schedule, c.zone, err, c.says)
		}
	}
	s := must.Get(parseSchedule("0 0 30 2 *", ""))(t)
	if _, err := s.lastTime(at(t, "2026-11-21T03:00:00Z")); problem.Of(err) != problem.Usage ||
		!strings.HasSuffix(err.Error(), "it has no time in the last four years; name a day that its month has") {
		t.Errorf("the last 30 February: %v; want wrong usage, since there is none", err)
	}
}

// TestNightsInWhichTheClocksChange compares lastTime, for every minute around nights in which clocks change, with a
// clock that is watched minute by minute: a slot begins when the clock first shows the time of the schedule or a later
// one, and never again.
func TestNightsInWhichTheClocksChange(t *testing.T) {
	for _, s := range []struct {
		schedule string
		period   time.Duration         // between two times
		at       func(minute int) bool // whether the schedule has a time at this minute of the day
	}{
		{"0 2 * * *", 24 * time.Hour, func(m int) bool { return m == 120 }},
		{"30 2 * * *", 24 * time.Hour, func(m int) bool { return m == 150 }},
		{"30 1 * * *", 24 * time.Hour, func(m int) bool { return m == 90 }},
		{"0 3 * * *", 24 * time.Hour, func(m int) bool { return m == 180 }},
		{"20 */2 * * *", 2 * time.Hour, func(m int) bool { return m%120 == 20 }},
		{"*/15 * * * *", 15 * time.Minute, func(m int) bool { return m%15 == 0 }},
	} {
		for _, n := range [][2]string{
			{"Europe/Amsterdam", "2026-10-25"}, {"Europe/Amsterdam", "2027-03-28"}, {"America/New_York", "2026-11-01"},
			{"America/New_York", "2027-03-14"},
			{"Australia/Lord_Howe", "2027-04-04"}, {"Australia/Lord_Howe", "2026-10-04"}, // by half an hour
			{"Asia/Kolkata", "2026-10-25"}, // never
		} {
			watch(t, s.schedule, n[0], at(t, n[1]+"T00:00:00Z"), s.period, s.at)
		}
	}
}

// watch goes minute by minute from a day before the midnight night to two days after it. It keeps track of what the
// zone's clock has shown so far, and in which minute that last reached a time of the schedule (begins): that is the
// slot that lastTime has to return. period is the time between two slots.
func watch(t *testing.T, schedule, zone string, night time.Time, period time.Duration, begins func(minute int) bool) {
	t.Helper()
	s := must.Get(parseSchedule(schedule, zone))(t)
	const change = time.Hour // no clock above is put forward or back by more
	var slot, shown time.Time
	for now := night.AddDate(0, 0, -1); now.Before(night.AddDate(0, 0, 2)); now = now.Add(time.Minute) {
		local := now.In(s.zone)
		clock := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
		if shown.IsZero() {
			shown = clock
		}
		for shown.Before(clock) { // it may have jumped
			shown = shown.Add(time.Minute)
			if begins(60*shown.Hour() + shown.Minute()) {
				slot = now
			}
		}
		last, err := s.lastTime(now)
		if err != nil || !slot.IsZero() && !last.Equal(slot) || last.After(now) || now.Sub(last) > period+change {
			t.Fatalf("%q in %s at %v: got %v, error %v; want %v, at most %v ago", schedule, zone, local,
				last.In(s.zone), err, slot.In(s.zone), period+change)
		}
	}
	if slot.IsZero() {
		t.Fatalf("%q in %s never came; want at least one slot", schedule, zone)
	}
}

// FuzzParse: any schedule and zone is refused, or has a last time that is not in the future.
func FuzzParse(f *testing.F) {
	f.Add("0 3 * * *", "Europe/Berlin")
	f.Add("TZ= 0 3 * *", "")
	f.Add("0 2 * * 7,fri-7/2", "America/New_York")
	f.Add("*/5 1-3,7 ? JAN-MAR SUN#2", "UTC")
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, schedule, zone string) {
		s, err := parseSchedule(schedule, zone)
		if err != nil {
			return
		}
		if last, err := s.lastTime(now); err == nil && last.After(now.Add(early)) {
			t.Fatalf("the last slot %v is after %v, by more than half a minute; want it by less", last, now)
		}
	})
}

// TestSameSpec: specs that differ only in their budget, or in rungs that follow from other results of earlier nights,
// are the same; any other difference makes another. Comparing changes neither.
func TestSameSpec(t *testing.T) {
	spec := func(warm string, eta int, budget float64, rungs ...int) *sweep.Spec {
		s := &sweep.Spec{Model: "ctr", Budget: budget}
		s.Search.WarmStart, s.Search.Stop = warm, &sweep.Stop{Rule: sweep.StopASHA, By: sweep.ByTrees, Eta: eta,
			MinTrees: 10, Rungs: rungs}
		return s
	}
	spot := func(is bool) *sweep.Spec {
		s := spec(sweep.WarmAuto, 3, 5, 11, 33)
		s.Machine.Spot = &is
		return s
	}
	before := spec(sweep.WarmAuto, 3, 5, 11, 33)

	for name, tc := range map[string]struct {
		a, b *sweep.Spec
		want bool
	}{
		"another budget":                 {before, spec(sweep.WarmAuto, 3, 7, 11, 33), true},
		"rungs of other winners":         {before, spec(sweep.WarmAuto, 3, 5, 12, 37, 111), true},
		"another eta":                    {before, spec(sweep.WarmAuto, 4, 5, 11, 33), false},
		"other rungs without warm start": {spec("", 3, 5, 11, 33), spec("", 3, 5, 12, 37), false},
		"on demand from now on":          {spot(true), spot(false), false},
	} {
		must.Equal(t, sameSpec(tc.a, tc.b), tc.want, "%s: the same spec", name)
	}
	if got := before.Search.Stop.Rungs; !slices.Equal(got, []int{11, 33}) {
		t.Errorf("after it was compared the spec has the rungs %v, want [11 33]", got)
	}
}
