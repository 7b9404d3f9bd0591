package gbt

import (
	"context"
	"crypto/sha256"
	stdbinary "encoding/binary" // binary is an objective here
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"time"

	"coppice/internal/problem"
)

// Checkpoint is the state of a training run between two trees. A run resumed from it, perhaps on another machine, ends
// with the same model as an uninterrupted one. It holds the trees and the progress of early stopping; scores are
// recomputed from the trees, and random choices need no state (sample.go). A Checkpoint is immutable, so another
// goroutine may write it while training continues.
type Checkpoint struct {
	run run
	progress
	model   *Model // the trees so far
	elapsed time.Duration
}

// progress is the state of a training, without its trees.
type progress struct {
	Bias               float64 // the initial constant of the first output
	Round              int     // trees tried, by which random choices are keyed; a round without a split adds no tree
	RoundsWithoutSplit int     // consecutive ones
	Best               int     // number of trees at the best metric
	BestIn             int     // round of the best metric; 0 without Eval
	BestMetric         float64 // NaN without Eval
}

// Trees is how many trees have been grown, of each class if there are several.
func (c *Checkpoint) Trees() int { return c.model.Iterations() }

// Rounds is how many trees have been tried. Of two checkpoints of one run, the one with more rounds is newer.
func (c *Checkpoint) Rounds() int { return c.Round }

// Identity is the run's Options.Identity.
func (c *Checkpoint) Identity() string { return c.run.Identity }

// Elapsed is the training time so far, over all processes that took part.
func (c *Checkpoint) Elapsed() time.Duration { return c.elapsed }

// run identifies what a checkpoint belongs to. Equal runs produce the same model.
type run struct {
	Identity      string   // Options.Identity
	Params        []string // as in the model file
	Features      int
	Rows, Used    int
	Bins          string // SHA-256 of the features' names, kinds and bins
	Target, Valid string // of the rows in use; see fingerprint
	Maximize      bool
}

// MismatchError reports a checkpoint of a different run.
type MismatchError struct {
	What string // the first difference, in words
}

func (e *MismatchError) Error() string { return "the checkpoint is of another training: " + e.What }

// Kind says that there is another run.
func (*MismatchError) Kind() problem.Kind { return problem.Conflict }

// newRun identifies a training by all that changes its trees: parameters, rows, labels, bins and held-out rows. A
// checkpoint resumes only the run that is equal.
func newRun(d *Data, p Params, opt Options) run {
	r := run{Identity: opt.Identity, Params: p.parameterLines(d.Features), Features: len(d.Features),
		Rows: d.tableRows(), Used: d.tableUsed(), Maximize: opt.Maximize, Target: d.fingerprint()}
	if opt.Shift != 0 {
		r.Params = append(r.Params, fmt.Sprintf("[shift: %v]", opt.Shift))
	}
	if opt.Input != nil {
		r.Params = append(r.Params, opt.Input.paramLine())
	}
	if opt.Valid != nil {
		r.Valid = opt.Valid.fingerprint()
	}

	h := sha256.New()
	for i := range d.Features {
		f := &d.Features[i]
		fmt.Fprintf(h, "%q %d %t %d %x %x %d\n", f.Name, f.Bins, f.Categorical, f.Missing, math.Float64bits(f.Min),
			math.Float64bits(f.Max), len(f.Bounds))
		hashAll(h, f.Bounds)
	}
	r.Bins = hex.EncodeToString(h.Sum(nil))
	return r
}

// sampledRows is how many rows' bins fingerprint reads: enough to notice another table, few enough not to page in the
// whole table.
const sampledRows = 1024

// fingerprint hashes what a run learns from: all labels, weights, groups and row numbers in use, and the bins of
// some rows. Hashing all bins would take as long as growing a tree; a caller that has a hash of the table puts
// it into Options.Identity. It is that of the whole table, however many workers share it.
func (d *Data) fingerprint() string {
	h := sha256.New()
	rows, first := d.tableRows(), int(d.firstRow())
	subset, weights := 0, 0
	if d.Subset != nil {
		subset = d.tableUsed()
	}
	if d.Weight != nil {
		weights = rows
	}
	fmt.Fprintf(h, "%d %d %d %d %t\n", rows, subset, rows, weights, d.Subset == nil)
	if d.Copies > 1 {
		fmt.Fprintf(h, "%d copies\n", d.Copies)
	}

	d.link.hashInTurn(h, func() { hashAll(h, d.Label) })
	d.link.hashInTurn(h, func() { hashAll(h, d.Weight) })
	if d.Group != nil {
		fmt.Fprintln(h, "groups")
		d.link.hashInTurn(h, func() { hashAll(h, d.Group) })
	}
	d.link.hashInTurn(h, func() { hashRows(h, d.Subset, uint32(first)) })
	d.link.hashInTurn(h, func() { d.hashSample(h, rows, first) })
	return hex.EncodeToString(h.Sum(nil))
}

// hashSample writes this worker's part of a sample of bins, spread evenly over a table of so many rows.
func (d *Data) hashSample(h hash.Hash, rows, first int) {
	f := len(d.Features)
	n := min(sampledRows, rows)
	for i := range n {
		if r := i*(rows/n) - first; 0 <= r && r < d.Rows {
			h.Write(d.RowMajor[r*f : (r+1)*f])
		}
	}
}

// hashRows writes the numbers of rows, counted from the first row of the whole table, to h.
func hashRows(h hash.Hash, rows []uint32, first uint32) {
	var moved []uint32
	for part := range slices.Chunk(rows, 16<<10) {
		moved = append(moved[:0], part...)
		for i := range moved {
			moved[i] += first
		}
		hashAll(h, moved)
	}
}

// hashAll writes the values to h in little endian, piece by piece.
func hashAll[T uint32 | uint64 | float32 | float64](h hash.Hash, values []T) {
	var piece []byte
	for part := range slices.Chunk(values, 16<<10) {
		piece, _ = stdbinary.Append(piece[:0], stdbinary.LittleEndian, part) // cannot fail for fixed-size numbers
		h.Write(piece)
	}
}

// differenceFrom returns a *MismatchError naming the first difference between the checkpoint's run and here.
func (r *run) differenceFrom(here *run) error {
	differ := func(format string, args ...any) error { return &MismatchError{fmt.Sprintf(format, args...)} }
	if len(r.Params) != len(here.Params) {
		return differ("it has %d parameters, this one %d", len(r.Params), len(here.Params))
	}
	for i, line := range here.Params {
		if line != r.Params[i] {
			return differ("its parameters say %s, this one's %s", r.Params[i], line)
		}
	}

	switch {
	case r.Identity != here.Identity:
		return differ("it is of %q, this one of %q", r.Identity, here.Identity)
	case r.Rows != here.Rows || r.Used != here.Used:
		return differ("it learns from %d of %d rows, this one from %d of %d", r.Used, r.Rows, here.Used, here.Rows)
	case r.Features != here.Features || r.Bins != here.Bins:
		return differ("its features or their bins differ")
	case r.Target != here.Target:
		return differ("its rows, labels, weights, groups, copies or choice of rows differ")
	case r.Valid != here.Valid || r.Maximize != here.Maximize:
		return differ("its held-out rows or the direction of their metric differ")
	}
	return nil
}

// checkpoint returns the state between two trees. Nothing is copied: finished trees are never changed.
func (b *booster) checkpoint() *Checkpoint {
	return &Checkpoint{run: b.run, progress: b.progress, elapsed: b.elapsed(), model: &Model{Objective: b.obj.String(),
		FeatureNames: b.names, FeatureInfos: b.infos, Trees: b.trees[:len(b.trees):len(b.trees)]}}
}

// resume puts a fresh booster into the state of c, which must belong to the same run.
func (b *booster) resume(ctx context.Context, c *Checkpoint) error {
	b.progress = c.progress
	b.before = c.elapsed
	b.resumed = c.Trees()

	// Trees that were read do not know bins.
	for i, t := range c.model.Trees {
		if t.left == nil {
			var err error
			if t, err = t.onBins(b.data.Features); err != nil {
				return fmt.Errorf("checkpoint, tree %d: %w", i, err)
			}
		}
		b.trees = append(b.trees, t)
	}

	for k := range b.outputs {
		b.output = &b.outputs[k]
		if err := b.rescore(ctx, k); err != nil {
			return err
		}
	}
	b.checkStop()
	return nil
}

// rescore recomputes the current output's raw scores, which a checkpoint does not hold, from an input model, whose
// scores they are already, and then from the trees.
func (b *booster) rescore(ctx context.Context, k int) error {
	trees := b.treesOf(k, b.trees)
	if b.opt.Input != nil {
		addPredictions(ctx, trees, b.data.Columns, b.data.rows(), b.raw, b.walks)
		b.addToValid(ctx, trees...)
		return ctx.Err()
	}
	if err := replay(ctx, trees, b.data, b.raw, b.bias, b.walks); err != nil {
		return err
	}
	if b.valid == nil {
		return nil
	}
	return replay(ctx, b.shifted(trees), b.valid, b.validRaw, b.bias, b.walks)
}

// saveCheckpoint passes the state to Options.Checkpoint.
func (b *booster) saveCheckpoint(at *Checkpoint) error {
	if b.opt.Checkpoint == nil {
		return nil
	}
	if err := b.opt.Checkpoint(at); err != nil {
		return fmt.Errorf("keep a checkpoint after tree %d: %w", at.Trees(), err)
	}
	return nil
}

// abandoned returns the error of a run that ends within a tree. If ctx has ended, it first passes the state before that
// tree to Options.Checkpoint once more, so that only this tree is lost.
func (b *booster) abandoned(ctx context.Context, at *Checkpoint, err error) error {
	if ctx.Err() != nil && errors.Is(err, ErrTeam) { // its end is why the team ended
		err = ctx.Err()
	}
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(err, b.saveCheckpoint(at))
}

func (b *booster) elapsed() time.Duration { return b.before + time.Since(b.started) }
