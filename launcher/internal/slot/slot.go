// Package slot says which time of a schedule a launcher was started for.
//
// Cloud Scheduler starts a Cloud Run job at least once, and a Cloud Run job starts a failed task again; neither tells the
// program for which time it was started (the header X-CloudScheduler-ScheduleTime reaches services only, and
// CLOUD_RUN_EXECUTION differs from one start to the next). So the launcher knows the schedule itself, and every start between
// two of its times means the earlier one.
//
// Cloud Scheduler goes by the clock on the wall, and its documentation leaves open how often it starts something whose time
// comes twice, or never, in the night in which the clocks change. All that is assumed is that it does not start it before that
// time. A time that comes twice is one slot, the first of the two; a time that is left out is the moment at which the clocks
// go on behind it. So one start, two, or a late one make one sweep. A schedule of every few minutes has no new slots in the
// hour that comes again: what is started then means the last slot of the first of the two hours.
package slot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the launcher's image has no files but its own

	"github.com/robfig/cron/v3"

	"coppice/sweep"
)

// Schedule is a cron schedule in a time zone, as Cloud Scheduler has it.
type Schedule struct {
	cron cron.Schedule
	zone *time.Location
	text string
}

// Error is a schedule or time zone that cannot be read, or that never comes.
type Error struct {
	Text string
	Err  error
	Hint string // what to do
}

func (e *Error) Error() string { return fmt.Sprintf("schedule %.80q: %v; %s", e.Text, e.Err, e.Hint) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

const (
	fields  = 5
	maxText = 200
)

// What to do about what is wrong.
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
		return nil, &Error{schedule, fmt.Errorf("it has %d characters, and %d are allowed", len(schedule), maxText), useShorter}
	}

	parts := strings.Fields(schedule)
	if len(parts) > 0 && (strings.HasPrefix(parts[0], "TZ=") || strings.HasPrefix(parts[0], "CRON_TZ=")) { // the parser would take them
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

// weekdays are the numbers of the names that a day of the week may have.
var weekdays = map[string]int{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

// sundays writes the 7 that Cloud Scheduler takes for Sunday, alone or at the end of a range, as the 0 that the parser knows.
// What is none of the two stays as it is, for the parser to judge.
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

// early is by how much this machine's clock may be behind the scheduler's.
const early = 30 * time.Second

// lookbacks are how far back the last time is looked for, shortest first: frequent schedules need no long search.
var lookbacks = []time.Duration{2 * time.Hour, 25 * time.Hour, 32 * 24 * time.Hour, 367 * 24 * time.Hour, 4 * 367 * 24 * time.Hour}

// Last is the newest time of the schedule that is not after now, in UTC. A schedule that has none in four years is an *Error.
func (s *Schedule) Last(now time.Time) (time.Time, error) {
	now = now.Add(early)
	clock := wall(now.In(s.zone))

	for _, back := range lookbacks {
		var last time.Time
		for t := s.cron.Next(clock.Add(-back)); !t.IsZero(); t = s.cron.Next(t) {
			at := first(t, s.zone)
			if at.After(now) { // not before, since later times of the clock never come first at an earlier moment
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

// wall is what the clock on the wall shows at t in its zone, written as a time of UTC, where no hour is left out or comes twice.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// first is the first moment at which the clock on the wall shows w or later.
func first(w time.Time, zone *time.Location) time.Time {
	t := time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), w.Nanosecond(), zone)
	start, end := t.ZoneBounds()

	switch shown := wall(t); {
	case shown.Before(w): // left out, and t is before the change
		return end
	case shown.After(w): // left out, and t is behind the change
		return start
	case start.IsZero(): // the zone has always been so
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
