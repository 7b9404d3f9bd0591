package sweepstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// Trials gives access to the objects of a plan's trials. It is safe for concurrent use.
type Trials struct {
	bucket blob.Store
	plan   *sweep.Plan
	names  sweep.Names

	// What has been read of paused trials, and will not change.
	paused sync.Map // scores by RungKey
	ended  sync.Map // *sweep.Result by trial
}

// NewTrials returns the trials of a plan in the sweeps bucket.
func NewTrials(bucket blob.Store, p *sweep.Plan) *Trials {
	return &Trials{bucket: bucket, plan: p, names: sweep.Names(p.Sweep)}
}

// Claim reads a claim of a trial. An error of kind Damaged means that the number is taken by an unknown holder.
func (t *Trials) Claim(ctx context.Context, trial, number int) (*sweep.Claim, error) {
	c, _, err := read(ctx, t.bucket, claimKind, t.names.Claim(trial, number), func(data []byte) (*sweep.Claim, error) {
		c, err := sweep.DecodeClaim(data)
		if err == nil && (c.Sweep != t.plan.Sweep || c.Trial != trial || c.Claim != number) {
			err = fmt.Errorf("it is claim %d of trial %d of sweep %s", c.Claim, c.Trial, c.Sweep)
		}
		return c, err
	})
	return c, err
}

// HasClaim reports whether a claim exists, readable or not.
func (t *Trials) HasClaim(ctx context.Context, trial, number int) (bool, error) {
	return exists(ctx, t.bucket, t.names.Claim(trial, number))
}

// CreateClaim claims c's trial. created is false if another task was faster.
func (t *Trials) CreateClaim(ctx context.Context, c sweep.Claim) (created bool, err error) {
	c.Written = written()
	return create(ctx, t.bucket, t.names.Claim(c.Trial, c.Claim), c)
}

// Beat overwrites the heartbeat of a claim's holder.
func (t *Trials) Beat(ctx context.Context, trial, claim int, h sweep.Heartbeat) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	object := t.names.Heartbeat(trial, claim)
	if _, err := t.bucket.Put(ctx, object, blob.Any, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("write %s: %w", object, err)
	}
	return nil
}

// Heartbeat reads a claim's last heartbeat. A new generation is a sign of life even if an error of kind Damaged says
// that the contents cannot be read.
func (t *Trials) Heartbeat(ctx context.Context, trial, claim int) (*sweep.Heartbeat, error) {
	h, _, err := read(ctx, t.bucket, heartbeatKind, t.names.Heartbeat(trial, claim), sweep.DecodeHeartbeat)
	return h, err
}

// LastBeat is the current generation of a claim's heartbeat; 0 before the first.
func (t *Trials) LastBeat(ctx context.Context, trial, claim int) (blob.Generation, error) {
	object := t.names.Heartbeat(trial, claim)
	attrs, err := t.bucket.Stat(ctx, object)
	if errors.Is(err, blob.ErrNotExist) {
		return blob.Absent, nil
	}
	if err != nil {
		return blob.Absent, fmt.Errorf("look for %s: %w", object, err)
	}
	return attrs.Generation, nil
}

// Release gives a claim back. It does not check the outcome of an unconfirmed write: a task that releases is about to
// exit and could do nothing about it.
func (t *Trials) Release(ctx context.Context, trial, claim int) error {
	data, err := json.MarshalIndent(sweep.Release{Format: sweep.FormatVersion, Written: written()}, "", "  ")
	if err != nil {
		return err
	}
	object := t.names.Release(trial, claim)
	if _, err := t.bucket.Put(ctx, object, blob.Absent, bytes.NewReader(append(data, '\n'))); err != nil &&
		!errors.Is(err, blob.ErrPrecondition) {
		return fmt.Errorf("write %s: %w", object, err)
	}
	return nil
}
