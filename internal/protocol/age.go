package protocol

import "time"

// Age is what is known about how long a sweep has run. The clocks of launcher, tasks and aggregator need not agree; the
// store stamps all objects with one clock.
type Age struct {
	Planned, Latest time.Time     // write times of the plan and of the newest object of a trial, by the store's clock
	Watched         time.Duration // how long the aggregator has seen no newer object, by its own clock
	Created         time.Time     // when the sweep was created, by the launcher's clock
	Now             time.Time     // the aggregator's clock
}

// clocksApart is the largest difference between two machines' clocks for which a limit is still enforced correctly.
const clocksApart = time.Hour

// Reached reports whether the sweep has reached limit. By the store's clock it is at least as old as its newest object
// plus the time watched since, so it never ends early; while a task lives, it ends at most one heartbeat late. An
// aggregator that has just started and finds only old objects cannot know how long ago they were written: then the
// other clocks decide, with a margin of clocksApart.
func (a Age) Reached(limit time.Duration) bool {
	if !a.Latest.IsZero() && a.Latest.Sub(a.Planned)+a.Watched >= limit {
		return true
	}
	return a.Now.Sub(a.Created) >= limit+clocksApart
}
