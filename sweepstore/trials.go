package sweepstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"coppice/blob"
	"coppice/sweep"
)

// Trials is what lies in the bucket of a plan's trials. Its methods may be called from any goroutine.
type Trials struct {
	bucket blob.Store
	plan   *sweep.Plan
	names  sweep.Names
}

// NewTrials gives access to the trials of a plan in the sweeps bucket.
func NewTrials(bucket blob.Store, p *sweep.Plan) *Trials {
	return &Trials{bucket, p, sweep.Names(p.Sweep)}
}

// Claim reads a claim of a trial. A *DamagedError means that the number is taken and that nobody knows by whom.
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

// HasClaim says whether a claim was made, readable or not.
func (t *Trials) HasClaim(ctx context.Context, trial, number int) (bool, error) {
	return exists(ctx, t.bucket, t.names.Claim(trial, number))
}

// CreateClaim takes c's trial. created is false where somebody else was faster.
func (t *Trials) CreateClaim(ctx context.Context, c sweep.Claim) (created bool, err error) {
	c.Written = written()
	return create(ctx, t.bucket, t.names.Claim(c.Trial, c.Claim), c)
}

// Beat writes the sign of life of a claim's holder, over the one before.
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

// Heartbeat reads a claim's last sign of life. That there is another one than before shows life even where a *DamagedError
// says that nothing more can be learnt from it.
func (t *Trials) Heartbeat(ctx context.Context, trial, claim int) (*sweep.Heartbeat, error) {
	h, _, err := read(ctx, t.bucket, heartbeatKind, t.names.Heartbeat(trial, claim), sweep.DecodeHeartbeat)
	return h, err
}

// LastBeat is the generation of a claim's heartbeat now; 0 before the first.
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

// Release gives a claim back.
func (t *Trials) Release(ctx context.Context, trial, claim int) error {
	_, err := create(ctx, t.bucket, t.names.Release(trial, claim), sweep.Release{Format: sweep.FormatVersion, Written: written()})
	return err
}
