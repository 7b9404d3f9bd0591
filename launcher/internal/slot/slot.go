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
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the launcher's image has no other files

	"github.com/robfig/cron/v3"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// schedule is a cron schedule in a time zone, as in Cloud Scheduler.
type schedule struct {
	cron cron.Schedule
	zone *time.Location
	text string // as given
}

// invalid is the error about a schedule or time zone, which are flags: what is wrong, and what to do.
func invalid(text, hint, format string, args ...any) error {
	return problem.New(problem.Usage, "schedule %.80q: %s; %s", text, fmt.Sprintf(format, args...), hint)
}

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

// parseSchedule reads the five fields of cron and the name of a time zone of the IANA database; "" is UTC.
func parseSchedule(text, zone string) (*schedule, error) {
	if len(text) > maxText {
		return nil, invalid(text, useShorter, "it has %d characters, and %d are allowed", len(text), maxText)
	}

	parts := strings.Fields(text)
	// the parser would interpret them
	if len(parts) > 0 && (strings.HasPrefix(parts[0], "TZ=") || strings.HasPrefix(parts[0], "CRON_TZ=")) {
		return nil, invalid(text, useFlag, "it begins with a time zone")
	}
	if len(parts) != fields {
		return nil, invalid(text, useFields, "the number of its fields is %d", len(parts))
	}

	where, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" { // which LoadLocation takes for this machine's own zone
		return nil, invalid(text, useZone, "unknown time zone %.60q", zone)
	}

	parts[fields-1] = sundays(parts[fields-1])
	c, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(strings.Join(parts, " "))
	if err != nil {
		return nil, invalid(text, useFields, "%v", err)
	}
	return &schedule{c, where, text}, nil
}

// weekdays are the numbers of weekday names.
var weekdays = map[string]int{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

// sundays returns the cron field of weekdays with 7 replaced by 0. Cloud Scheduler accepts 7 for Sunday, alone or at
// the end of a range; the parser knows only 0. A range that ends in 7 becomes a list: FRI-7/2 is 5,0. Other text is
// left as it is, and the parser refuses what is wrong.
func sundays(field string) string {
	items := strings.Split(field, ",")
	for i, item := range items {
		days, every, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			step, _ = strconv.Atoi(every) // 0 for a text that is no number, which the parser refuses
		}

		// The first day, by name or number.
		from, to, isRange := strings.Cut(days, "-")
		day, named := weekdays[strings.ToLower(from)]
		if !named {
			n, err := strconv.ParseUint(from, 10, 3) // three bits: 0 to 7
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

// lookbacks are how far back lastTime searches, one after the other until it finds a time. Short ones come first, since
// a frequent schedule has very many times in four years. Four years are for 29 February.
var lookbacks = []time.Duration{2 * time.Hour, 25 * time.Hour, 32 * 24 * time.Hour, 367 * 24 * time.Hour,
	4 * 367 * 24 * time.Hour}

// lastTime returns the latest time of the schedule, in UTC, that is not after now. A time that is to come within early
// counts as well, since this machine's clock may be behind. If there is none within four years, it is an error.
func (s *schedule) lastTime(now time.Time) (time.Time, error) {
	now = now.Add(early)
	clock := wall(now.In(s.zone))

	for _, back := range lookbacks {
		var last time.Time
		for t := s.cron.Next(clock.Add(-back)); !t.IsZero(); t = s.cron.Next(t) {
			at := firstMoment(t, s.zone)
			if at.After(now) { // later local times occur no earlier, so none of those that follow can be due
				break
			}
			last = at
		}
		if !last.IsZero() {
			return last.UTC(), nil
		}
	}
	return time.Time{}, invalid(s.text, useDay, "it has no time in the last four years")
}

// wall returns the local time that clocks show at t in its zone, as a time in UTC: there, no hour is skipped or
// repeated.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// firstMoment returns the first moment at which clocks in the zone show the local time w or a later one. w is as from
// wall. If clocks skip w, that is the moment at which they jump past it; if they show it twice, it is the first time.
func firstMoment(w time.Time, zone *time.Location) time.Time {
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

	// The clocks show w at t. If they were put back at start, they may have shown it before, with the offset from UTC
	// that applied until then.
	_, before := start.Add(-time.Nanosecond).Zone()
	_, offset := t.Zone()
	if earlier := t.Add(time.Duration(offset-before) * time.Second); earlier.Before(start) && offset < before {
		return earlier
	}
	return t
}

// Of returns the latest time of a cron schedule that is not after now. The schedule is in local time of the zone (""
// for UTC), and so is the result. Errors are of kind Usage.
func Of(schedule, zone string, now time.Time) (time.Time, error) {
	s, err := parseSchedule(schedule, zone)
	if err != nil {
		return time.Time{}, err
	}
	at, err := s.lastTime(now)
	return at.In(s.zone), err
}

// ID returns the id of the sweep of that name for a time of its schedule: NAME-YYYYMMDD-HHMM in UTC.
func ID(name string, at time.Time) sweep.ID {
	return sweep.ID(name + "-" + at.UTC().Format("20060102-1504"))
}

// slotEnd matches the suffix of a scheduled sweep's id.
var slotEnd = regexp.MustCompile(`^-\d{8}-\d{4}$`)

// Unchanged returns the sweep of the slot before p's, if it has trained the same spec on the same dataset and ended
// with a winner. Training that again would only register the same model as a new version. The result is "" if there is
// no such sweep, or if p's own sweep exists already.
func Unchanged(ctx context.Context, bucket blob.Store, p *sweep.Plan) (sweep.ID, error) {
	// Find the last sweep of the same name and an earlier slot: ids sort by time.
	last := sweep.ID("")
	for id, err := range sweepstore.List(ctx, bucket) {
		if err != nil {
			return "", err
		}
		if id == p.Sweep {
			return "", nil
		}
		if rest, ok := strings.CutPrefix(string(id), p.Spec.Name); ok && slotEnd.MatchString(rest) && id < p.Sweep {
			last = max(last, id)
		}
	}
	if last == "" {
		return "", nil
	}

	// Compare it with p. A sweep that cannot be read is no reason to skip a night.
	s := sweepstore.New(bucket, last)
	before, _, err := s.Plan(ctx)
	var end *sweep.Conclusion
	if err == nil {
		end, err = s.Conclusion(ctx)
	}
	if problem.Is(err, problem.Damaged) {
		return "", nil
	}
	if err != nil || end == nil || end.Outcome != sweep.OutcomeWinner || before.Dataset.Name != p.Dataset.Name ||
		before.Dataset.Version != p.Dataset.Version || before.Trainable() != nil || !sameSpec(&before.Spec, &p.Spec) {
		return "", err
	}
	return last, nil
}

// sameSpec reports whether two specs train the same. It ignores budget and labels, and what the plan filled in from the
// results of earlier sweeps. It changes neither.
func sameSpec(a, b *sweep.Spec) bool {
	x, y := *a, *b
	for _, s := range []*sweep.Spec{&x, &y} {
		s.Budget, s.Labels = 0, nil
		s.ForgetHistory()
	}
	one, err1 := json.Marshal(x)
	other, err2 := json.Marshal(y)
	return err1 == nil && err2 == nil && bytes.Equal(one, other)
}
