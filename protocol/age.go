package protocol

import "time"

// Age is what is known of how long a sweep has lasted. The clocks of launcher, tasks and aggregator need not agree; the store has one for
// all objects.
type Age struct {
	Planned, Latest time.Time     // the plan, and the newest object of a trial, were written: the store's clock
	Watched         time.Duration // for how long the aggregator has seen none that is newer: its clock
	Created         time.Time     // the launcher's clock
	Now             time.Time     // the aggregator's
}

// clocksApart is how far two machines' clocks may differ for a limit to hold at least.
const clocksApart = time.Hour

// Reached says whether the sweep has reached a limit. By the store's clock it is at least as old as its newest object and what was watched
// since, so it is never ended before its time; while a task lives, it is ended at most a heartbeat after. An aggregator that has just
// been started and finds nothing but old objects cannot know how long ago they were written: then the other clocks decide, later.
func (a Age) Reached(limit time.Duration) bool {
	if !a.Latest.IsZero() && a.Latest.Sub(a.Planned)+a.Watched >= limit {
		return true
	}
	return a.Now.Sub(a.Created) >= limit+clocksApart
}
