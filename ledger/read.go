package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/blob"
	"coppice/sweep"
)

const (
	maxObject = 1 << 20 // of a claim or heartbeat
	readers   = 16
)

// Reader reads one sweep's claims and heartbeats again and again, what has changed only. It may be used by one goroutine at a time.
type Reader struct {
	Store blob.Store
	Plan  *sweep.Plan
	Ended time.Time // when the sweep was concluded; zero before

	claims map[key]*entry
	jobs   map[int]bool // numbers that have a record, which stays
}

type key struct{ trial, claim int }

// entry is a claim as far as it has been read. An object that cannot be read as what it should be is not read again until it changes.
type entry struct {
	claimed
	claimRead, beatRead blob.Generation
	known               bool // the claim could be read
}

// Read is the ledger at the time now. results are the sweep's, by trial.
func (r *Reader) Read(ctx context.Context, results map[int]sweep.Result, now time.Time) (Ledger, error) {
	todo, err := r.list(ctx)
	if err != nil {
		return Ledger{}, err
	}
	if err := r.fetch(ctx, todo); err != nil {
		return Ledger{}, err
	}
	recorded, err := r.recorded(ctx)
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
			c.claim.Job = "" // as if it were no job of the sweep
		}
		all = append(all, c)
	}
	l := fold(r.Plan, all, results, r.clock(now))
	l.Unreadable = unreadable
	return l, nil
}

// recorded are the numbers of the jobs that claims name and that were written down before anything ran in them, and the plan's own.
func (r *Reader) recorded(ctx context.Context) (map[int]bool, error) {
	if r.jobs == nil {
		r.jobs = map[int]bool{0: true}
	}
	asked := map[int]bool{}
	for _, e := range r.claims {
		n := r.Plan.JobNumber(e.claim.Job)
		if r.jobs[n] || asked[n] {
			continue
		}
		asked[n] = true
		name := r.Plan.Sweep.JobRecord(n)
		switch _, err := r.Store.Stat(ctx, name); {
		case err == nil:
			r.jobs[n] = true
		case !errors.Is(err, blob.ErrNotExist):
			return nil, fmt.Errorf("look for %s: %w", name, err)
		}
	}
	return r.jobs, nil
}

// wanted is an object to be read.
type wanted struct {
	name  string
	into  *entry
	key   key
	claim bool // else a heartbeat
}

// list finds what there is, and what of it has not been read yet.
func (r *Reader) list(ctx context.Context) ([]wanted, error) {
	if r.claims == nil {
		r.claims = map[key]*entry{}
	}
	id := r.Plan.Sweep
	beats := map[key]blob.Generation{}
	var released []key
	var todo []wanted
	for attrs, err := range r.Store.List(ctx, id.Trials()) {
		if err != nil {
			return nil, fmt.Errorf("list the trials of sweep %s: %w", id, err)
		}
		trial, part, claim, ok := id.ParseTrialObject(attrs.Name)
		if !ok || trial >= len(r.Plan.Trials) {
			continue
		}
		k := key{trial, claim}
		switch part {
		case sweep.PartClaim:
			e := r.claims[k]
			if e == nil {
				e = &entry{}
				r.claims[k] = e
			}
			if e.claimRead != attrs.Generation {
				e.claimRead = attrs.Generation
				todo = append(todo, wanted{attrs.Name, e, k, true})
			}
		case sweep.PartHeartbeat:
			beats[k] = attrs.Generation
		case sweep.PartRelease:
			released = append(released, k)
		}
	}
	for k, generation := range beats {
		if e := r.claims[k]; e != nil && e.beatRead != generation {
			e.beatRead = generation
			todo = append(todo, wanted{id.Heartbeat(k.trial, k.claim), e, k, false})
		}
	}
	for _, k := range released {
		if e := r.claims[k]; e != nil {
			e.released = true
		}
	}
	slices.SortFunc(todo, func(a, b wanted) int { return strings.Compare(a.name, b.name) })
	return todo, nil
}

// fetch reads objects. A damaged one is passed over; one that storage does not give is an error.
func (r *Reader) fetch(ctx context.Context, todo []wanted) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, w := range todo {
		group.Go(func() error {
			data, _, err := blob.ReadAll(ctx, r.Store, w.name, maxObject)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !errors.Is(err, blob.ErrTooLong) {
				w.forget()
				return fmt.Errorf("read %s: %w", w.name, err)
			}
			if err == nil {
				w.take(data, r.Plan.Sweep)
			}
			return nil
		})
	}
	return group.Wait()
}

// forget has the object read again next time.
func (w wanted) forget() {
	if w.claim {
		w.into.claimRead = blob.Absent
	} else {
		w.into.beatRead = blob.Absent
	}
}

// take keeps what an object says, if it is what its name promises.
func (w wanted) take(data []byte, id sweep.ID) {
	if !w.claim {
		if h, err := sweep.DecodeHeartbeat(data); err == nil {
			w.into.beat = *h
		}
		return
	}
	c, err := sweep.DecodeClaim(data)
	if err == nil && c.Sweep == id && c.Trial == w.key.trial && c.Claim == w.key.claim {
		w.into.claim, w.into.known = *c, true
	}
}
