// Package slot tells for which time of a schedule a launcher was started.
//
// Cloud Scheduler starts a Cloud Run job at least once, and Cloud Run restarts a failed task; neither tells the program
// for which time (the header X-CloudScheduler-ScheduleTime reaches services only, and CLOUD_RUN_EXECUTION differs
// between starts). So the launcher itself knows the schedule, and any start between two of its times counts for the
// earlier one.
//
// Cloud Scheduler uses local time, and its documentation does not say how often it starts something whose time occurs
// twice, or never, in the night in which the clocks change. The only assumption is that it does not start it before
// that time. A time that occurs twice is one slot, at its first occurrence; a time that is skipped is the moment at
// which the clocks move past it. So one start, two, or a late one make one sweep. A schedule of every few minutes has
// no new slots in the repeated hour: a start then counts for the last slot before it.
package slot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the launcher's image has no other files

	"github.com/robfig/cron/v3"

	"coppice/internal/sweep"
)

// Schedule is a cron schedule in a time zone, as in Cloud Scheduler.
type Schedule struct {
	cron cron.Schedule
	zone *time.Location
	text string
}

// Error reports an invalid schedule or time zone, or a schedule that never occurs.
type Error struct {
	Text string
	Err  error
	Hint string // what to do
}

func (e *Error) Error() string { return fmt.Sprintf("schedule %.80q: %v; %s", e.Text, e.Err, e.Hint) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

const (
	fields  = 5
	maxText = 200
)

// Hints.
const (
	useFields  = "use the five fields of cron, such as \"0 3 * * *\""
	useShorter = "write ranges and steps, such as 0-30/5, for long lists"
	useFlag    = "leave it out there and give it as --time-zone"
	useZone    = "give --time-zone a name such as Europe/Berlin, or leave it out for UTC"
	useDay     = "name a day that its month has"
)

// Parse reads the five fields of cron and the name of a time zone of the IANA database; "" is UTC. Errors are *Error.
func Parse(schedule, zone string) (*Schedule, error) {
	if len(schedule) > maxText {
		return nil, &Error{schedule, fmt.Errorf("it has %d characters, and %d are allowed", len(schedule), maxText),
			useShorter}
	}

	parts := strings.Fields(schedule)
	// the parser would interpret them
	if len(parts) > 0 && (strings.HasPrefix(parts[0], "TZ=") || strings.HasPrefix(parts[0], "CRON_TZ=")) {
		return nil, &Error{schedule, errors.New("it begins with a time zone"), useFlag}
	}
	if len(parts) != fields {
		return nil, &Error{schedule, fmt.Errorf("the number of its fields is %d", len(parts)), useFields}
	}

	where, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, &Error{schedule, fmt.Errorf("there is no time zone %.60q", zone), useZone}
	}

	parts[fields-1] = sundays(parts[fields-1])
	c, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(strings.Join(parts, " "))
	if err != nil {
		return nil, &Error{schedule, err, useFields}
	}
	return &Schedule{c, where, schedule}, nil
}

// weekdays are the numbers of weekday names.
var weekdays = map[string]int{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

// sundays replaces 7, which Cloud Scheduler accepts for Sunday, alone or at the end of a range, by the 0 that the
// parser knows. Other text is left for the parser.
func sundays(field string) string {
	items := strings.Split(field, ",")
	for i, item := range items {
		days, every, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			step, _ = strconv.Atoi(every)
		}

		from, to, isRange := strings.Cut(days, "-")
		day, named := weekdays[strings.ToLower(from)]
		if !named {
			n, err := strconv.ParseUint(from, 10, 3)
			if err != nil {
				continue
			}
			day = int(n)
		}

		switch {
		case item == "7":
			items[i] = "0"
		case isRange && to == "7" && step >= 1 && step <= 7:
			var list []string
			for ; day <= 7; day += step {
				list = append(list, strconv.Itoa(day%7))
			}
			items[i] = strings.Join(list, ",")
		}
	}
	return strings.Join(items, ",")
}

// early is how far this machine's clock may be behind the scheduler's.
const early = 30 * time.Second

// lookbacks are how far back to search for the last time, shortest first, since frequent schedules need no long search.
var lookbacks = []time.Duration{2 * time.Hour, 25 * time.Hour, 32 * 24 * time.Hour, 367 * 24 * time.Hour,
	4 * 367 * 24 * time.Hour}

// Last returns the latest time of the schedule that is not after now, in UTC. A schedule without one in four years is
// an *Error.
func (s *Schedule) Last(now time.Time) (time.Time, error) {
	now = now.Add(early)
	clock := wall(now.In(s.zone))

	for _, back := range lookbacks {
		var last time.Time
		for t := s.cron.Next(clock.Add(-back)); !t.IsZero(); t = s.cron.Next(t) {
			at := first(t, s.zone)
			if at.After(now) { // later local times occur no earlier, so none of those that follow can be due
				break
			}
			last = at
		}
		if !last.IsZero() {
			return last.UTC(), nil
		}
	}
	return time.Time{}, &Error{s.text, errors.New("it has no time in the last four years"), useDay}
}

// wall is the local time shown at t in its zone, expressed in UTC, where no hour is skipped or repeated.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// first is the first moment at which the local time is w or later.
func first(w time.Time, zone *time.Location) time.Time {
	t := time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), w.Nanosecond(), zone)
	start, end := t.ZoneBounds()

	switch shown := wall(t); {
	case shown.Before(w): // skipped, and t is before the change
		return end
	case shown.After(w): // skipped, and t is after the change
		return start
	case start.IsZero(): // the zone has always been like this
		return t
	}

	_, before := start.Add(-time.Nanosecond).Zone()
	_, offset := t.Zone()
	if earlier := t.Add(time.Duration(offset-before) * time.Second); earlier.Before(start) && offset < before {
		return earlier
	}
	return t
}

// ID is the id of the sweep of that name for that time.
func ID(name string, at time.Time) sweep.ID {
	return sweep.ID(name + "-" + at.UTC().Format("20060102-1504"))
}
