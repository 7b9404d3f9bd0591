package sweepstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// readers is how many objects are read at the same time.
const readers = 16

// HasResult reports whether a trial has ended: it has a result, readable or not.
func (t *Trials) HasResult(ctx context.Context, trial int) (bool, error) {
	return exists(ctx, t.bucket, t.names.Result(trial))
}

// Result reads a trial's result. A damaged result stays damaged, since results are create-only. In its place a failed
// result that says so is returned, and damage has the reason, for a log. err is an error of the store, or
// blob.ErrNotExist.
func (t *Trials) Result(ctx context.Context, trial int) (r *sweep.Result, damage, err error) {
	r, _, err = resultKind.read(ctx, t.bucket, t.names.Result(trial), func(r *sweep.Result) error {
		return t.checkResult(trial, r)
	})
	if problem.Is(err, problem.Damaged) {
		return t.Unreadable(trial, errors.Unwrap(err)), err, nil
	}
	return r, nil, err
}

// checkResult checks that a result is that of the trial under whose name it stands and, if it is done, that it is of
// the trial's fold and says what an open configuration has trained.
func (t *Trials) checkResult(trial int, r *sweep.Result) error {
	if r.Sweep != t.plan.Sweep || r.Trial != trial {
		return checkOwn(false, "sweep %s, trial %d", r.Sweep, r.Trial)
	}
	if r.Status != sweep.StatusDone || trial >= len(t.plan.Trials) {
		return nil // no other trial depends on what it trained
	}

	// Later folds of an open configuration, and the refit, train what the result says.
	its := t.plan.Trials[trial]
	if its.Open && its.Fold > 0 && len(r.Params) == 0 {
		return errors.New("it does not say what the trial has trained")
	}
	return checkOwn(r.Fold == its.Fold && r.Configuration == its.Configuration,
		"fold %d of configuration %d, and the trial is fold %d of %d", r.Fold, r.Configuration, its.Fold,
		its.Configuration)
}

// Unreadable returns the failed result that stands for one that cannot be read.
func (t *Trials) Unreadable(trial int, why error) *sweep.Result {
	return &sweep.Result{Format: sweep.FormatVersion, Sweep: t.plan.Sweep, Trial: trial, Status: sweep.StatusFailed,
		Reason: fmt.Sprintf("its result cannot be read: %v", why)}
}

// Results reads those results in a listing that are not in known, which is by trial, and adds them to it. A damaged
// result is added as a failed one, and reported to damage, which may be nil; it is called by one goroutine at a time.
func (t *Trials) Results(ctx context.Context, l Listing, known map[int]sweep.Result,
	damage func(trial int, why error)) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)

	for _, listed := range l.Trials {
		// Readers that are running already add to known.
		mu.Lock()
		_, have := known[listed.Number]
		mu.Unlock()
		if have || !listed.Ended {
			continue
		}

		group.Go(func() error {
			r, why, err := t.Result(ctx, listed.Number)
			if err != nil {
				return err
			}

			mu.Lock()
			defer mu.Unlock()
			known[listed.Number] = *r

			if why != nil && damage != nil {
				damage(listed.Number, why)
			}
			return nil
		})
	}

	return group.Wait()
}

// CreateResult ends a trial. created is false if it had ended before.
func (t *Trials) CreateResult(ctx context.Context, r sweep.Result) (created bool, err error) {
	return create(ctx, t.bucket, t.names.Result(r.Trial), &r)
}

// WriteFile writes a file into the folder of one attempt, to which no other attempt writes.
func (t *Trials) WriteFile(ctx context.Context, trial, claim int, file string, data []byte) (sweep.Object, error) {
	sum := sha256.Sum256(data)
	o := sweep.Object{Name: t.names.Attempt(trial, claim) + file, Bytes: int64(len(data)),
		SHA256: hex.EncodeToString(sum[:])}
	if _, err := t.bucket.Put(ctx, o.Name, blob.Any, bytes.NewReader(data)); err != nil {
		return sweep.Object{}, fmt.Errorf("write %s: %w", o.Name, err)
	}
	return o, nil
}

var errOtherContents = problem.New(problem.Damaged, "it is not what the trial wrote: its SHA-256 differs")

// File reads a file that a result names. lost is not nil if reading it again would not help: the file is missing, or it
// has another length or other contents than the result says, or a wrong checksum. err is an error of the store.
func (t *Trials) File(ctx context.Context, o sweep.Object) (data []byte, lost, err error) {
	data, _, err = blob.ReadAll(ctx, t.bucket, o.Name, o.Bytes)
	sum := sha256.Sum256(data)
	switch {
	case errors.Is(err, blob.ErrNotExist) || problem.Is(err, problem.Damaged):
		return nil, fmt.Errorf("%s: %w", o.Name, err), nil
	case err != nil:
		return nil, nil, fmt.Errorf("read %s: %w", o.Name, err)
	case hex.EncodeToString(sum[:]) != o.SHA256 || int64(len(data)) != o.Bytes:
		return nil, fmt.Errorf("%s: %w", o.Name, errOtherContents), nil
	}
	return data, nil, nil
}
