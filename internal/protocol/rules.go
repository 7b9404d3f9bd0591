package protocol

import "time"

// Creation is the outcome of a create-only write. Its answer may be lost: the storage client then repeats the write and
// hears that the object exists, or it gives up. The object carries an id of this write, so a reader can tell whose it
// is.
type Creation struct {
	Confirmed bool // the store says it created the object
	Read      bool // the existing object could be read
	Own       bool // it equals what was written here, byte for byte
}

// Settled reports whether the existing object is the writer's own, and whether that is known at all. Only a confirmed
// write is taken as such; any other outcome is settled by reading the object.
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

// Reached reports whether the sweep has reached limit. By the store's clock it is at least as old as its newest object
// plus the time watched since, so it never ends early; while a task lives, it ends at most one heartbeat late. An
// aggregator that has just started and finds only old objects cannot know how long ago they were written: then the
// other clocks decide, with a margin of ClocksApart.
func (a Age) Reached(limit time.Duration) bool {
	if !a.Latest.IsZero() && a.Latest.Sub(a.Planned)+a.Watched >= limit {
		return true
	}
	return a.Now.Sub(a.Created) >= limit+ClocksApart
}

// Training goes on for at least this many times the duration of the last save. So saving takes at most a fiftieth of a
// long training, and a twelfth of its first minute, which may be all that its machine gets.
const (
	saveShare  = 50
	freshShare = 12
	fresh      = time.Minute
)

// lossShare is the inverse of the share of its training that an attempt may lose.
const lossShare = 10

// Unsaved returns how long a training may go on since its last save, or since its first tree if there was none. trained
// is how long it had trained by then, every the most it may go unsaved, and took the duration of the last save.
//
// The first tree is saved at once; after that a tenth of the training so far may be lost. So an attempt that lives for
// half a minute keeps nearly all of its work, and losing it without notice does not count as a death of the trial.
func Unsaved(trained, every, took time.Duration) time.Duration {
	share := int64(saveShare)
	if trained < fresh {
		share = freshShare
	}
	return max(min(every, trained/lossShare), time.Duration(share*int64(took)))
}
