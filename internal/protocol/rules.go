package protocol

import "time"

// Creation is what is known about a create-only write. The store's answer to it may be lost. Then the storage client
// repeats the write and hears that the object exists, or it gives up. The object has an id of this write in it, so
// reading it tells whether it is the writer's own.
type Creation struct {
	Confirmed bool // the store says it created the object
	Read      bool // the existing object could be read
	Own       bool // it equals what was written here, byte for byte
}

// Settled returns whether the existing object is the writer's own, and whether that is known at all. A write that the
// store has confirmed is the writer's own. In any other case only reading the object can tell.
func (c Creation) Settled() (own, known bool) {
	if c.Confirmed {
		return true, true
	}
	return c.Read && c.Own, c.Read
}

// Age is what is known about how long a sweep has run. The clocks of launcher, tasks and aggregator need not agree; the
// store stamps all objects with one clock.
type Age struct {
	Planned, Latest time.Time     // write times of the plan and of the newest object of a trial, by the store's clock
	Watched         time.Duration // how long the aggregator has seen no newer object, by its own clock
	Created         time.Time     // when the sweep was created, by the launcher's clock
	Now             time.Time     // the aggregator's clock
}

// ClocksApart is the largest difference between two machines' clocks for which a limit is still enforced correctly.
const ClocksApart = time.Hour

// Reached reports whether the sweep has reached limit. It is at least as old as its newest object was when that was
// written, by the store's clock, plus the time watched since. So no sweep ends early by this rule, and while a task
// lives, one ends at most a heartbeat late. An aggregator that has just started and finds only old objects cannot know
// how long ago they were written. For that case the other clocks decide as well, with a margin of ClocksApart.
func (a Age) Reached(limit time.Duration) bool {
	if !a.Latest.IsZero() && a.Latest.Sub(a.Planned)+a.Watched >= limit {
		return true
	}
	return a.Now.Sub(a.Created) >= limit+ClocksApart
}

// Between two saves, training goes on for at least so many times the duration of the last save. So saving takes at most
// a fiftieth of a long training. It may take a twelfth of the first minute, in which more saves are worth their time,
// since the machine may not live longer.
const (
	saveShare  = 50
	freshShare = 12
	fresh      = time.Minute
)

// lossShare is the inverse of the share of its training that an attempt may lose.
const lossShare = 10

// Unsaved returns how long a training may go on after its last save, or after its first tree if there was no save.
// trained is how long it had trained by then, and took is how long the last save took. every is the longest that it may
// go unsaved, unless saving takes long: then the shares above allow more.
//
// The first tree is saved at once. After that a tenth of the training so far may be lost. So an attempt that lives for
// half a minute keeps nearly all of its work. Since it has saved, its vanishing does not count as a death of the trial.
func Unsaved(trained, every, took time.Duration) time.Duration {
	share := int64(saveShare)
	if trained < fresh {
		share = freshShare
	}
	return max(min(every, trained/lossShare), time.Duration(share*int64(took)))
}
