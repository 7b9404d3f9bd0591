package ledger

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// readers is how many objects are read at a time.
const readers = 16

// Reader reads one sweep's claims and heartbeats again and again, fetching only what has changed. The caller sets the
// exported fields and may set Ended later. A Reader is not safe for concurrent use.
type Reader struct {
	Store blob.Store
	Plan  *sweep.Plan
	Ended time.Time // when the sweep was concluded; zero before

	claims map[key]*entry
	jobs   map[int]bool // numbers of jobs known to have a record
}

// key names a claim: the trial's number, and the claim's number in the trial.
type key struct{ trial, claim int }

// entry is what has been read of a claim. The generations are those of the objects that were read, so that an object is
// read again only after it has been written again, even if it could not be decoded.
type entry struct {
	claimed
	claimRead, beatRead blob.Generation
	known               bool // the claim could be read
}

// Read returns the ledger at the time now. results are the sweep's results, by trial. Objects that cannot be decoded
// are skipped; the ledger counts the unreadable claims. A failure of the storage is an error, and the objects that were
// not read are read by the next call.
func (r *Reader) Read(ctx context.Context, results map[int]sweep.Result, now time.Time) (Ledger, error) {
	// Fetch what has changed.
	todo, err := r.listUnread(ctx)
	if err != nil {
		return Ledger{}, err
	}
	if err := r.readObjects(ctx, todo); err != nil {
		return Ledger{}, err
	}

	recorded, err := r.readJobNumbers(ctx)
	if err != nil {
		return Ledger{}, err
	}

	// Collect the claims that could be read.
	var all []claimed
	unreadable := 0
	for _, e := range r.claims {
		if !e.known {
			unreadable++
			continue
		}

		c := e.claimed
		if !recorded[r.Plan.JobNumber(c.claim.Job)] {
			c.claim.Job = "" // charge it at the price of the plan's own job, since this name may be forged
		}
		all = append(all, c)
	}

	l := makeLedger(r.Plan, all, results, r.clockAt(now))
	l.Unreadable = unreadable
	return l, nil
}

// readJobNumbers returns the numbers of the sweep's jobs that have a record: the plan's own job, and of the fallback
// jobs that claims name, those that have been recorded. The map belongs to r.
func (r *Reader) readJobNumbers(ctx context.Context) (map[int]bool, error) {
	if r.jobs == nil {
		r.jobs = map[int]bool{0: true}
	}

	// Records are permanent, so only numbers without one are looked up, once per read.
	asked := map[int]bool{}
	for _, e := range r.claims {
		n := r.Plan.JobNumber(e.claim.Job)
		if r.jobs[n] || asked[n] {
			continue
		}

		asked[n] = true
		has, err := sweepstore.New(r.Store, r.Plan.Sweep).HasJob(ctx, n)
		if err != nil {
			return nil, err
		}

		if has {
			r.jobs[n] = true
		}
	}

	return r.jobs, nil
}

// wanted is an object to read.
type wanted struct {
	into  *entry
	key   key
	claim bool // otherwise a heartbeat
}

// listUnread lists the sweep's objects and returns the claims and heartbeats that are new or have been written again.
// It makes their entries and marks them as read, which readObjects undoes if reading fails.
func (r *Reader) listUnread(ctx context.Context) ([]wanted, error) {
	if r.claims == nil {
		r.claims = map[key]*entry{}
	}
	l, err := sweepstore.NewTrials(r.Store, r.Plan).List(ctx)
	if err != nil {
		return nil, err
	}

	// A claim or heartbeat is new, or was written again, if its generation differs from the one that was read.
	var todo []wanted
	for _, t := range l.Trials {
		for _, c := range t.Claims {
			k := key{t.Number, c.Number}
			e := r.claims[k]
			if e == nil {
				e = &entry{}
				r.claims[k] = e
			}
			e.released, e.paused = c.Released, c.Paused

			if e.claimRead != c.Made {
				e.claimRead = c.Made
				todo = append(todo, wanted{into: e, key: k, claim: true})
			}
			if e.beatRead != blob.Generation(c.Beat) {
				e.beatRead = blob.Generation(c.Beat)
				todo = append(todo, wanted{into: e, key: k})
			}
		}
	}
	return todo, nil
}

// readObjects reads objects into their entries, several at a time. A damaged object is skipped. If the storage fails,
// the object is marked as not read and the first error is returned.
func (r *Reader) readObjects(ctx context.Context, todo []wanted) error {
	trials := sweepstore.NewTrials(r.Store, r.Plan)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)

	for _, w := range todo {
		group.Go(func() error {
			var c *sweep.Claim
			var h *sweep.Heartbeat
			var err error
			if w.claim {
				c, err = trials.Claim(ctx, w.key.trial, w.key.claim)
			} else {
				h, err = trials.Heartbeat(ctx, w.key.trial, w.key.claim)
			}

			mu.Lock()
			defer mu.Unlock()
			switch {
			case problem.Is(err, problem.Damaged): // it stays marked as read, until it is written again
				return nil
			case err != nil && w.claim: // mark it as not read
				w.into.claimRead = blob.Absent
			case err != nil:
				w.into.beatRead = blob.Absent
			case w.claim:
				w.into.claim, w.into.known = *c, true
			default:
				w.into.beat = *h
			}
			return err
		})
	}
	return group.Wait()
}
