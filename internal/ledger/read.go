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

const readers = 16

// Reader reads one sweep's claims and heartbeats repeatedly, fetching only what has changed. It is not safe for
// concurrent use.
type Reader struct {
	Store blob.Store
	Plan  *sweep.Plan
	Ended time.Time // when the sweep was concluded; zero before

	claims map[key]*entry
	jobs   map[int]bool // numbers that have a record; records are permanent
}

type key struct{ trial, claim int }

// entry is what has been read of a claim. An object that cannot be decoded is not read again until it changes.
type entry struct {
	claimed
	claimRead, beatRead blob.Generation
	known               bool // the claim could be read
}

// Read returns the ledger at the time now. results are the sweep's, by trial.
func (r *Reader) Read(ctx context.Context, results map[int]sweep.Result, now time.Time) (Ledger, error) {
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

	var all []claimed
	unreadable := 0
	for _, e := range r.claims {
		if !e.known {
			unreadable++
			continue
		}

		c := e.claimed
		if !recorded[r.Plan.JobNumber(c.claim.Job)] {
			c.claim.Job = "" // as if it belonged to no job of the sweep
		}
		all = append(all, c)
	}

	l := makeLedger(r.Plan, all, results, r.clock(now))
	l.Unreadable = unreadable
	return l, nil
}

// readJobNumbers returns the numbers of the jobs that are named by claims and have been recorded, and of the plan's own
// job.
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

// listUnread lists the objects and returns those not read yet.
func (r *Reader) listUnread(ctx context.Context) ([]wanted, error) {
	if r.claims == nil {
		r.claims = map[key]*entry{}
	}
	l, err := sweepstore.NewTrials(r.Store, r.Plan).List(ctx)
	if err != nil {
		return nil, err
	}

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
				todo = append(todo, wanted{e, k, true})
			}
			if e.beatRead != blob.Generation(c.Beat) {
				e.beatRead = blob.Generation(c.Beat)
				todo = append(todo, wanted{e, k, false})
			}
		}
	}
	return todo, nil
}

// readObjects reads objects. A damaged one is skipped; a storage failure is an error.
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
			case problem.Is(err, problem.Damaged):
				return nil
			case err != nil && w.claim: // it is read again next time
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
