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

// Checkpoint is the state of a training run between two trees. A run resumed from it, perhaps on another machine, ends
// with the same model as an uninterrupted one. It holds the trees and the progress of early stopping; scores are
// recomputed from the trees, and random choices need no state (sample.go). A Checkpoint is immutable, so another
// goroutine may write it while training continues.
type Checkpoint struct {
	run run

	bias               float64
	trees              []*Tree
	round              int
	roundsWithoutSplit int
	best               int
	bestIn             int
	bestMetric         float64
	elapsed            time.Duration
}

// Trees is how many trees have been grown.
func (c *Checkpoint) Trees() int { return len(c.trees) }

// Rounds is how many trees have been tried. Of two checkpoints of one run, the one with more rounds is newer.
func (c *Checkpoint) Rounds() int { return c.round }

// Identity is the run's Options.Identity.
func (c *Checkpoint) Identity() string { return c.run.identity }

// Elapsed is the training time so far, over all processes that took part.
func (c *Checkpoint) Elapsed() time.Duration { return c.elapsed }

// run identifies what a checkpoint belongs to. Equal runs produce the same model.
type run struct {
	identity       string   // Options.Identity
	params         []string // as in the model file
	features       int
	rows, used     int
	describe       [sha256.Size]byte // of the features
	target, valid  [sha256.Size]byte // of the rows in use; see fingerprint
	validMaximizes bool
}

// MismatchError reports a checkpoint of a different run.
type MismatchError struct {
	What string // the first difference, in words
}

func (e *MismatchError) Error() string { return "the checkpoint is of another training: " + e.What }

// IsConflict marks the checkpoint as belonging to another run.
func (*MismatchError) IsConflict() bool { return true }

func newRun(d *Data, p Params, opt Options) run {
	r := run{identity: opt.Identity, params: p.lines(d.Features), features: len(d.Features), rows: d.Rows,
		used: d.Used(), validMaximizes: opt.Maximize}
	if opt.Shift != 0 {
		r.params = append(r.params, fmt.Sprintf("[shift: %v]", opt.Shift))
	}
	if opt.Input != nil {
		r.params = append(r.params, opt.Input.line())
	}

	// Names, kinds and bins of the features.
	h := sha256.New()
	for i := range d.Features {
		f := &d.Features[i]
		fmt.Fprintf(h, "%q %d %t %d %x %x %d\n", f.Name, f.Bins, f.Categorical, f.Missing, math.Float64bits(f.Min),
			math.Float64bits(f.Max), len(f.Bounds))
		hashAll(h, f.Bounds)
	}
	h.Sum(r.describe[:0])

	r.target = d.fingerprint()
	if opt.Valid != nil {
		r.valid = opt.Valid.fingerprint()
	}
	return r
}

// sampledRows is how many rows' bins fingerprint reads: enough to notice another table, few enough not to page in the
// whole table.
const sampledRows = 1024

// fingerprint hashes what a run learns from: all labels, weights and row numbers in use, and the bins of some rows.
// Hashing all bins would take as long as growing a tree; a caller that has a hash of the table puts it into
// Options.Identity.
func (d *Data) fingerprint() (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d %d %t\n", d.Rows, len(d.Subset), len(d.Label), len(d.Weight), d.Subset == nil)
	if d.Copies > 1 {
		fmt.Fprintf(h, "%d copies\n", d.Copies)
	}

	hashAll(h, d.Label)
	hashAll(h, d.Weight)
	hashAll(h, d.Subset)

	// Of the bins, a sample spread evenly over the table.
	f := len(d.Features)
	for i := range min(sampledRows, d.Rows) {
		r := i * (d.Rows / min(sampledRows, d.Rows))
		h.Write(d.RowMajor[r*f : (r+1)*f])
	}

	h.Sum(sum[:0])
	return sum
}

// hashAll writes the values to h in little endian, piece by piece.
func hashAll[T uint32 | float32 | float64](h hash.Hash, values []T) {
	var piece []byte
	for part := range slices.Chunk(values, 16<<10) {
		piece, _ = stdbinary.Append(piece[:0], stdbinary.LittleEndian, part) // cannot fail for fixed-size numbers
		h.Write(piece)
	}
}

// same returns a *MismatchError naming the first difference between the checkpoint's run and here.
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

// checkpoint returns the state between two trees. Nothing is copied: finished trees are never changed.
func (b *booster) checkpoint() *Checkpoint {
	return &Checkpoint{run: b.run, bias: b.bias, trees: b.trees[:len(b.trees):len(b.trees)], round: b.round,
		roundsWithoutSplit: b.roundsWithoutSplit,
		best:               b.best, bestIn: b.bestIn, bestMetric: b.bestMetric, elapsed: b.elapsed()}
}

// resume puts a fresh booster into the state of c, which must belong to the same run.
func (b *booster) resume(ctx context.Context, c *Checkpoint) error {
	b.bias = c.bias
	b.trees = slices.Clone(c.trees)
	b.round = c.round
	b.roundsWithoutSplit = c.roundsWithoutSplit
	b.best = c.best
	b.bestIn = c.bestIn
	b.bestMetric = c.bestMetric
	b.before = c.elapsed
	b.resumed = len(c.trees)

	// A checkpoint holds no scores: recompute them from an input model and then from the trees.
	if b.opt.Input != nil {
		addPredictions(ctx, b.trees, b.data.Columns, b.data.rows(), b.raw, b.walks)
		if b.opt.Valid != nil {
			addPredictions(ctx, b.trees, b.opt.Valid.Columns, b.opt.Valid.rows(), b.validRaw, b.walks)
		}
		b.decide()
		return ctx.Err()
	}
	if err := replay(ctx, b.trees, b.data, b.raw, b.bias, b.walks); err != nil {
		return err
	}
	if b.opt.Valid != nil {
		if err := replay(ctx, b.shifted(b.trees), b.opt.Valid, b.validRaw, b.bias, b.walks); err != nil {
			return err
		}
	}

	b.decide()
	return nil
}

// save passes the state to Options.Checkpoint.
func (b *booster) save(at *Checkpoint) error {
	if b.opt.Checkpoint == nil {
		return nil
	}
	if err := b.opt.Checkpoint(at); err != nil {
		return fmt.Errorf("keep a checkpoint after tree %d: %w", len(at.trees), err)
	}
	return nil
}

// abandoned returns the error of a run that ends within a tree. If ctx has ended, it first passes the state before that
// tree to Options.Checkpoint once more, so that only this tree is lost.
func (b *booster) abandoned(ctx context.Context, at *Checkpoint, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(err, b.save(at))
}

func (b *booster) elapsed() time.Duration { return b.before + time.Since(b.started) }
