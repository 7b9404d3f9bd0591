package gbt

import (
	"context"
	"crypto/sha256"
	stdbinary "encoding/binary" // binary is an objective here
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"time"
)

// Checkpoint is a training run between two trees: enough to resume there, perhaps on another machine, and to end with
// the same model as if nothing had happened. It holds the trees and how far patience has run out; scores are computed again
// from the trees, and random choices need no state (sample.go). A Checkpoint does not change while the training goes on,
// so it may be written by another goroutine.
type Checkpoint struct {
	run run

	bias               float64
	trees              []*Tree
	round              int
	roundsWithoutSplit int
	best               int
	bestIn             int
	bestAt             float64
	elapsed            time.Duration
}

// Trees is how many trees have been grown.
func (c *Checkpoint) Trees() int { return len(c.trees) }

// Rounds is how many trees have been tried: of two checkpoints of one run, the one with more rounds is further on.
func (c *Checkpoint) Rounds() int { return c.round }

// Identity is what Options.Identity said of its run.
func (c *Checkpoint) Identity() string { return c.run.identity }

// Elapsed is how long training has taken up to here, in all processes that took part.
func (c *Checkpoint) Elapsed() time.Duration { return c.elapsed }

// run is what a checkpoint belongs to. Two runs with equal runs make the same model.
type run struct {
	identity       string   // Options.Identity
	params         []string // as in the model file
	features       int
	rows, used     int
	describe       [sha256.Size]byte // of the features
	target, valid  [sha256.Size]byte // of the rows in use; see fingerprint
	validMaximizes bool
}

// MismatchError is a checkpoint of another run than the one that is to resume from it.
type MismatchError struct {
	What string // the first difference, for people
}

func (e *MismatchError) Error() string { return "the checkpoint is of another training: " + e.What }

// IsConflict says that the checkpoint is somebody else's.
func (*MismatchError) IsConflict() bool { return true }

func newRun(d *Data, p Params, opt Options) run {
	r := run{identity: opt.Identity, params: p.lines(d.Features), features: len(d.Features), rows: d.Rows, used: d.Used(), validMaximizes: opt.Maximize}
	if opt.Shift != 0 {
		r.params = append(r.params, fmt.Sprintf("[shift: %v]", opt.Shift))
	}
	if opt.Input != nil {
		r.params = append(r.params, opt.Input.line())
	}

	// What the features are, and how they are binned.
	h := sha256.New()
	for i := range d.Features {
		f := &d.Features[i]
		fmt.Fprintf(h, "%q %d %t %d %x %x %d\n", f.Name, f.Bins, f.Categorical, f.Missing, math.Float64bits(f.Min), math.Float64bits(f.Max), len(f.Bounds))
		hashAll(h, f.Bounds)
	}
	h.Sum(r.describe[:0])

	r.target = d.fingerprint()
	if opt.Valid != nil {
		r.valid = opt.Valid.fingerprint()
	}
	return r
}

// sampledRows is how many rows' bins fingerprint reads: enough to notice another table, few enough not to page one in.
const sampledRows = 1024

// fingerprint is a hash of what a run learns from: the labels, weights and rows in use, whole, and the bins of some rows.
// Reading all bins would take as long as a tree; whoever has a hash of the table puts it into Options.Identity.
func (d *Data) fingerprint() (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d %d %t\n", d.Rows, len(d.Subset), len(d.Label), len(d.Weight), d.Subset == nil)
	if d.Copies > 1 {
		fmt.Fprintf(h, "%d copies\n", d.Copies)
	}

	hashAll(h, d.Label)
	hashAll(h, d.Weight)
	hashAll(h, d.Subset)

	// Of the rows themselves a sample, spread evenly over the table.
	f := len(d.Features)
	for i := range min(sampledRows, d.Rows) {
		r := i * (d.Rows / min(sampledRows, d.Rows))
		h.Write(d.RowMajor[r*f : (r+1)*f])
	}

	h.Sum(sum[:0])
	return sum
}

// hashAll writes the values to h, little endian, a piece at a time.
func hashAll[T uint32 | float32 | float64](h hash.Hash, values []T) {
	var piece []byte
	for part := range slices.Chunk(values, 16<<10) {
		piece, _ = stdbinary.Append(piece[:0], stdbinary.LittleEndian, part) // it has no error for numbers of fixed size
		h.Write(piece)
	}
}

// same says, with a *MismatchError, in what the checkpoint's run differs from here.
func (r *run) same(here *run) error {
	differ := func(format string, args ...any) error { return &MismatchError{fmt.Sprintf(format, args...)} }
	if len(r.params) != len(here.params) {
		return differ("it has %d parameters, this one %d", len(r.params), len(here.params))
	}
	for i, line := range here.params {
		if line != r.params[i] {
			return differ("its parameters say %s, this one's %s", r.params[i], line)
		}
	}

	switch {
	case r.identity != here.identity:
		return differ("it is of %q, this one of %q", r.identity, here.identity)
	case r.rows != here.rows || r.used != here.used:
		return differ("it learns from %d of %d rows, this one from %d of %d", r.used, r.rows, here.used, here.rows)
	case r.features != here.features || r.describe != here.describe:
		return differ("its features or their bins are others")
	case r.target != here.target:
		return differ("its rows, labels, weights, copies or choice of rows are others")
	case r.valid != here.valid || r.validMaximizes != here.validMaximizes:
		return differ("its held-out rows or the direction of their rating are others")
	}
	return nil
}

// checkpoint is the run as it stands between two trees. Nothing is copied: trees are never changed once they are grown.
func (b *booster) checkpoint() *Checkpoint {
	return &Checkpoint{run: b.run, bias: b.bias, trees: b.trees[:len(b.trees):len(b.trees)], round: b.round, roundsWithoutSplit: b.roundsWithoutSplit,
		best: b.best, bestIn: b.bestIn, bestAt: b.bestAt, elapsed: b.elapsed()}
}

// resume puts a fresh booster where c, which is of the same run, was taken.
func (b *booster) resume(ctx context.Context, c *Checkpoint) error {
	b.bias = c.bias
	b.trees = slices.Clone(c.trees)
	b.round = c.round
	b.roundsWithoutSplit = c.roundsWithoutSplit
	b.best = c.best
	b.bestIn = c.bestIn
	b.bestAt = c.bestAt
	b.before = c.elapsed
	b.resumed = len(c.trees)

	// A checkpoint holds trees and no scores: add these up again, after those of an input model.
	if b.opt.Input != nil {
		addScores(ctx, b.trees, b.data.Columns, b.data.rows(), b.score, b.walks)
		if b.opt.Valid != nil {
			addScores(ctx, b.trees, b.opt.Valid.Columns, b.opt.Valid.rows(), b.validScore, b.walks)
		}
		b.decide()
		return ctx.Err()
	}
	if err := replay(ctx, b.trees, b.data, b.score, b.bias, b.walks); err != nil {
		return err
	}
	if b.opt.Valid != nil {
		if err := replay(ctx, b.shifted(b.trees), b.opt.Valid, b.validScore, b.bias, b.walks); err != nil {
			return err
		}
	}

	b.decide()
	return nil
}

// save lends the state to whoever keeps checkpoints.
func (b *booster) save(at *Checkpoint) error {
	if b.opt.Checkpoint == nil {
		return nil
	}
	if err := b.opt.Checkpoint(at); err != nil {
		return fmt.Errorf("keep a checkpoint after tree %d: %w", len(at.trees), err)
	}
	return nil
}

// abandoned is the error of a run that ends within a tree. When that is because ctx has ended, the state before the
// tree is shown once more, so that only this tree is lost.
func (b *booster) abandoned(ctx context.Context, at *Checkpoint, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(err, b.save(at))
}

func (b *booster) elapsed() time.Duration { return b.before + time.Since(b.started) }
