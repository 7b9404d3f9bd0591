package slot

import (
	"errors"
	"strings"
	"testing"
	"time"

	"coppice/sweep"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLast(t *testing.T) {
	for _, c := range []struct{ schedule, zone, now, want string }{
		{"0 3 * * *", "", "2026-11-21T03:00:00Z", "2026-11-21T03:00:00Z"},
		{"0 3 * * *", "UTC", "2026-11-21T03:00:04Z", "2026-11-21T03:00:00Z"},
		{"0 3 * * *", "UTC", "2026-11-21T02:59:45Z", "2026-11-21T03:00:00Z"}, // a clock that is behind
		{"0 3 * * *", "UTC", "2026-11-21T02:59:00Z", "2026-11-20T03:00:00Z"},
		{"0 3 * * *", "UTC", "2026-11-22T00:10:00Z", "2026-11-21T03:00:00Z"}, // a retry that comes the next day
		{"0 3 * * *", "Europe/Berlin", "2026-11-21T02:00:04Z", "2026-11-21T02:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-07-21T01:00:04Z", "2026-07-21T01:00:00Z"},     // in summer
		{"30 1 * * *", "America/New_York", "2026-11-01T07:00:00Z", "2026-11-01T06:30:00Z"}, // half past one comes twice that night
		{"*/5 * * * *", "UTC", "2026-11-21T03:04:00Z", "2026-11-21T03:00:00Z"},
		{"0 */6 * * *", "UTC", "2026-11-21T17:59:00Z", "2026-11-21T12:00:00Z"},
		{"0 4 * * MON", "UTC", "2026-11-21T03:00:00Z", "2026-11-16T04:00:00Z"},
		{"15 2 1 * *", "UTC", "2026-11-21T03:00:00Z", "2026-11-01T02:15:00Z"},
		{"0 0 29 2 *", "UTC", "2026-11-21T03:00:00Z", "2024-02-29T00:00:00Z"},
	} {
		s, err := Parse(c.schedule, c.zone)
		if err != nil {
			t.Fatal(c, err)
		}
		got, err := s.Last(at(t, c.now))
		if err != nil || !got.Equal(at(t, c.want)) {
			t.Errorf("%+v: %v %v", c, got, err)
		}
	}
}

func TestID(t *testing.T) {
	id := ID(strings.Repeat("n", 40), at(t, "2026-11-21T03:00:00+01:00"))
	if want := strings.Repeat("n", 40) + "-20261121-0200"; string(id) != want || sweep.CheckID(string(id)) != nil {
		t.Errorf("%s, want %s", id, want)
	}
	if job := id.JobID(sweep.MaxFallbacks); sweep.CheckID(string(job)) != nil {
		t.Errorf("%s leaves no room for the job %s", id, job)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range [][2]string{{"", ""}, {"0 3 * *", ""}, {"0 0 3 * * *", ""}, {"61 3 * * *", ""}, {"*/0 * * * *", ""}, {"@daily", ""}, {"every 24 hours at", ""},
		{"0 3 * * 7", ""}, {"TZ=UTC 0 3 * *", ""}, {"0 3 * * *", "Mars/Olympus"}, {"0 3 * * *", "Local"}, {"0 3 * * *", "../../etc/passwd"}, {strings.Repeat("1,", 200) + "1 3 * * *", ""}} {
		var bad *Error
		if _, err := Parse(c[0], c[1]); !errors.As(err, &bad) {
			t.Errorf("%q: %v", c, err)
		}
	}
	s, err := Parse("0 0 30 2 *", "")
	if err != nil {
		t.Fatal(err)
	}
	var never *Error
	if _, err := s.Last(at(t, "2026-11-21T03:00:00Z")); !errors.As(err, &never) {
		t.Errorf("30 February: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0 3 * * *", "Europe/Berlin")
	f.Add("TZ= 0 3 * *", "")
	f.Add("*/5 1-3,7 ? JAN-MAR SUN#2", "UTC")
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, schedule, zone string) {
		s, err := Parse(schedule, zone)
		if err != nil {
			return
		}
		if last, err := s.Last(now); err == nil && last.After(now.Add(early)) {
			t.Fatalf("%v is after %v", last, now)
		}
	})
}
