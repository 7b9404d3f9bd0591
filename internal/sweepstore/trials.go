package sweepstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Trials gives access to the objects of a plan's trials. It is safe for concurrent use.
type Trials struct {
	bucket blob.Store
	plan   *sweep.Plan
	names  sweep.Names

	// What has been read before, and will not change.
	paused sync.Map // of paused trials: RungKey -> sweep.RungScore
	ended  sync.Map // of trials that have ended: trial -> *sweep.Result
}

// NewTrials returns the trials of a plan in the sweeps bucket.
func NewTrials(bucket blob.Store, p *sweep.Plan) *Trials {
	return &Trials{bucket: bucket, plan: p, names: sweep.Names(p.Sweep)}
}

// Claim reads a claim of a trial. An error of kind Damaged means that the number is taken by an unknown holder.
func (t *Trials) Claim(ctx context.Context, trial, number int) (*sweep.Claim, error) {
	c, _, err := claimKind.read(ctx, t.bucket, t.names.Claim(trial, number), func(c *sweep.Claim) error {
		return checkOwn(c.Sweep == t.plan.Sweep && c.Trial == trial && c.Claim == number,
			"claim %d of trial %d of sweep %s", c.Claim, c.Trial, c.Sweep)
	})
	return c, err
}

// HasClaim reports whether a claim exists, readable or not.
func (t *Trials) HasClaim(ctx context.Context, trial, number int) (bool, error) {
	return exists(ctx, t.bucket, t.names.Claim(trial, number))
}

// CreateClaim claims c's trial. created is false if another task was faster.
func (t *Trials) CreateClaim(ctx context.Context, c sweep.Claim) (created bool, err error) {
	return create(ctx, t.bucket, t.names.Claim(c.Trial, c.Claim), &c)
}

// Claimed returns the write time of a claim, by the store's clock.
func (t *Trials) Claimed(ctx context.Context, trial, claim int) (time.Time, error) {
	attrs, err := t.bucket.Stat(ctx, t.names.Claim(trial, claim))
	if err != nil {
		return time.Time{}, fmt.Errorf("look for claim %d of trial %d: %w", claim, trial, err)
	}
	return attrs.Updated, nil
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
	h, _, err := heartbeatKind.read(ctx, t.bucket, t.names.Heartbeat(trial, claim), nil)
	return h, err
}

// LastBeat returns the current generation of a claim's heartbeat, blob.Absent before the first. It reads no contents:
// any change is a sign of life.
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

// Release gives a claim back. That it was given back before is no error. Unlike other create-only writes, one without a
// clear answer is not checked: a task that releases is about to exit and could do nothing about it.
func (t *Trials) Release(ctx context.Context, trial, claim int) error {
	r := sweep.Release{Format: sweep.FormatVersion}
	r.MarkWrite(rand.Text())
	data, err := json.MarshalIndent(r, "", "  ")
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

// CreateCurve writes the learning curve of a claim, rounded. created is false if there is one already.
func (t *Trials) CreateCurve(ctx context.Context, c sweep.Curve) (created bool, err error) {
	c = c.Rounded()
	c.MarkWrite(rand.Text())
	data, err := json.Marshal(c) // not indented: a line per score would make it half as long again
	if err != nil {
		return false, err
	}
	return createBytes(ctx, t.bucket, t.names.Curve(c.Trial, c.Claim), append(data, '\n'))
}

// Curve reads one claim's learning curve.
func (t *Trials) Curve(ctx context.Context, trial, claim int) (*sweep.Curve, error) {
	c, _, err := curveKind.read(ctx, t.bucket, t.names.Curve(trial, claim), func(c *sweep.Curve) error {
		return checkOwn(c.Sweep == t.plan.Sweep && c.Trial == trial && c.Claim == claim,
			"claim %d of trial %d of sweep %s", c.Claim, c.Trial, c.Sweep)
	})
	return c, err
}

// Curves reads the learning curves of a listed trial, by claim; sweep.JoinCurves joins them. Damaged ones are left out.
func (t *Trials) Curves(ctx context.Context, listed Listed) ([]sweep.Curve, error) {
	var all []sweep.Curve
	for _, claim := range listed.Claims {
		if !claim.Curve {
			continue
		}

		c, err := t.Curve(ctx, listed.Number, claim.Number)
		if problem.Is(err, problem.Damaged) {
			continue
		}
		if err != nil {
			return nil, err
		}

		all = append(all, *c)
	}

	return all, nil
}

// Meeting is the folder of the bucket where tasks meet that train a trial together with the holder of a claim. Package
// team says what lies there.
func (t *Trials) Meeting(trial, claim int) (s blob.Store, folder string) {
	return t.bucket, t.names.Team(trial, claim)
}

// Checkpoints are the saved training states of one trial's claims. A store cannot delete (package blob), so a dropped
// object becomes empty, and its name is reused.
type Checkpoints struct {
	bucket blob.Store
	folder string // ends in a slash
	limit  int64
}

// Checkpoints returns those of a trial. An object of more than limit bytes is not a checkpoint.
func (t *Trials) Checkpoints(trial int, limit int64) Checkpoints {
	return Checkpoints{t.bucket, t.names.Checkpoints(trial), limit}
}

// Prefix begins the names of one claim's checkpoints. Only that claim's holder writes to them.
func (c Checkpoints) Prefix(claim int) string { return c.folder + strconv.Itoa(claim) + "/" }

// List names the checkpoints that are not empty.
func (c Checkpoints) List(ctx context.Context) ([]string, error) {
	var names []string
	for attrs, err := range c.bucket.List(ctx, c.folder) {
		if err != nil {
			return nil, err
		}
		if attrs.Size > 0 {
			names = append(names, attrs.Name)
		}
	}
	return names, nil
}

// Read returns a checkpoint's bytes, unless it is too long to be one.
func (c Checkpoints) Read(ctx context.Context, name string) ([]byte, error) {
	data, _, err := blob.ReadAll(ctx, c.bucket, name, c.limit)
	return data, err
}

// Write replaces a checkpoint. It is an error if the store then has another length or checksum than what was written.
func (c Checkpoints) Write(ctx context.Context, name string, data []byte) error {
	if _, err := c.bucket.Put(ctx, name, blob.Any, bytes.NewReader(data)); err != nil {
		return err
	}
	attrs, err := c.bucket.Stat(ctx, name)
	if err != nil {
		return err
	}
	if sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); attrs.Size != int64(len(data)) ||
		attrs.CRC32C != sum {
		return fmt.Errorf("%s: the store has %d bytes with checksum %08x, written were %d with %08x", name, attrs.Size,
			attrs.CRC32C, len(data), sum)
	}
	return nil
}

// DropCheckpoints empties the checkpoints of all trials, which is for a sweep that has ended. It returns how many it
// has emptied, also with an error.
func (s *Sweep) DropCheckpoints(ctx context.Context) (dropped int, err error) {
	for attrs, err := range s.bucket.List(ctx, s.names.Trials()) {
		if err != nil {
			return dropped, fmt.Errorf("list the trials of sweep %s: %w", s.id, err)
		}
		if _, part, _, ok := s.names.ParseTrialObject(attrs.Name); !ok || part != sweep.PartCheckpoint ||
			attrs.Size == 0 {
			continue
		}
		if err := (Checkpoints{bucket: s.bucket}).Drop(ctx, attrs.Name); err != nil {
			return dropped, fmt.Errorf("empty %s: %w", attrs.Name, err)
		}
		dropped++
	}
	return dropped, nil
}

// Drop empties a checkpoint. The object stays: it shows that its claim got further than the one before.
func (c Checkpoints) Drop(ctx context.Context, name string) error {
	_, err := c.bucket.Put(ctx, name, blob.Any, bytes.NewReader(nil))
	return err
}
