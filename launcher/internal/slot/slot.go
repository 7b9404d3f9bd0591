// Package slot says which time of a schedule a launcher was started for.
//
// Cloud Scheduler starts a Cloud Run job at least once, and a Cloud Run job starts a failed task again; neither tells the
// program for which time it was started (the header X-CloudScheduler-ScheduleTime reaches services only, and
// CLOUD_RUN_EXECUTION differs from one start to the next). So the launcher knows the schedule itself, and every start between
// two of its times means the earlier one.
package slot

import (
	"fmt"
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
}

func (e *Error) Error() string {
	return fmt.Sprintf("schedule %.80q: %v; use the five fields of cron, such as \"0 3 * * *\", and a time zone such as Europe/Berlin", e.Text, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

const (
	fields  = 5
	maxText = 200
)

// Parse reads the five fields of cron and the name of a time zone of the IANA database; "" is UTC. Errors are *Error.
func Parse(schedule, zone string) (*Schedule, error) {
	if n := len(strings.Fields(schedule)); n != fields || len(schedule) > maxText || strings.Contains(schedule, "=") {
		return nil, &Error{schedule, fmt.Errorf("it has %d fields", n)}
	}
	where, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, &Error{schedule, fmt.Errorf("there is no time zone %.60q", zone)}
	}
	c, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(schedule)
	if err != nil {
		return nil, &Error{schedule, err}
	}
	return &Schedule{c, where, schedule}, nil
}

// early is by how much this machine's clock may be behind the scheduler's.
const early = 30 * time.Second

// lookbacks are how far back the last time is looked for, shortest first: frequent schedules need no long search.
var lookbacks = []time.Duration{2 * time.Hour, 25 * time.Hour, 32 * 24 * time.Hour, 367 * 24 * time.Hour, 4 * 367 * 24 * time.Hour}

// Last is the newest time of the schedule that is not after now, in UTC. A schedule that has none in four years is an *Error.
func (s *Schedule) Last(now time.Time) (time.Time, error) {
	now = now.Add(early).In(s.zone)
	for _, back := range lookbacks {
		var last time.Time
		for t := s.cron.Next(now.Add(-back)); !t.IsZero() && !t.After(now); t = s.cron.Next(t) {
			last = t
		}
		if !last.IsZero() {
			return last.UTC(), nil
		}
	}
	return time.Time{}, &Error{s.text, fmt.Errorf("it has no time in the last four years")}
}

// ID is the id of the sweep of that name for that time.
func ID(name string, at time.Time) sweep.ID {
	return sweep.ID(name + "-" + at.UTC().Format("20060102-1504"))
}
