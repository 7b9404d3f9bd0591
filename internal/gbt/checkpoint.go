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

// Checkpoint is the state of a training run between two rounds. A run resumed from it, perhaps on another machine, ends
// with the same model as an uninterrupted one. It holds the trees and the progress of early stopping. Raw scores are
// recomputed from the trees, and random choices need no state (sample.go). A Checkpoint is immutable, so another
// goroutine may write it while training continues.
type Checkpoint struct {
	run run
	progress
	model   *Model // the trees so far, without an input model's
	elapsed time.Duration
}

// progress is the state of a training besides its trees.
type progress struct {
	Bias               float64 // the initial constant of the first output
	Round              int     // rounds begun, by which random choices are keyed; a round without a split adds no tree
	RoundsWithoutSplit int     // how many of the last rounds in a row had no split
	Best               int     // number of trees, by output, when the metric was best; 0 without Eval
	BestIn             int     // the round in which it was; 0 without Eval
	BestMetric         float64 // NaN without Eval
}

// Trees is how many trees have been grown; with several classes, of each.
func (c *Checkpoint) Trees() int { return c.model.Iterations() }

// Rounds is how many rounds were tried, with or without a split. Of two checkpoints of one run, the one with more
// rounds is newer.
func (c *Checkpoint) Rounds() int { return c.Round }

// Identity is the run's Options.Identity.
func (c *Checkpoint) Identity() string { return c.run.Identity }

// Elapsed is the training time so far, over all processes that took part.
func (c *Checkpoint) Elapsed() time.Duration { return c.elapsed }

// run identifies the training run that a checkpoint belongs to. Equal runs produce the same model.
type run struct {
	Identity      string   // Options.Identity
	Params        []string // as in the model file
	Features      int      // their number
	Rows, Used    int      // of the whole table, whatever the number of workers
	Bins          string   // SHA-256 of the features' names, kinds and bins
	Target, Valid string   // fingerprints of the training and held-out rows; Valid is empty without these
	Maximize      bool
}

// MismatchError reports a checkpoint of a different run.
type MismatchError struct {
	What string // the first difference, in words
}

func (e *MismatchError) Error() string { return "the checkpoint is of another training: " + e.What }

// Kind says that the checkpoint conflicts with what was asked for.
func (*MismatchError) Kind() problem.Kind { return problem.Conflict }

// newRun identifies a training by everything that changes its trees: parameters, rows, labels, bins and held-out rows.
// In a team, all workers call it and get the same result; the caller then checks the link for an error.
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

	// The features.
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

// sampledRows is of how many rows fingerprint reads the bins: enough to notice another table, and so few that the
// operating system need not read the whole mapped table from disk.
const sampledRows = 1024

// fingerprint returns a hash of what a run learns from: all labels, weights, groups and numbers of rows in use, and the
// bins of some rows. Hashing all bins would take as long as growing a tree; a caller who has a hash of the table puts
// it into Options.Identity. In a team it is the hash of the whole table, which the workers compute one after the other.
func (d *Data) fingerprint() string {
	// Begin with the lengths, so that the same bytes divided among the columns in another way have another hash. There
	// are as many labels as rows, so the third number is the first one.
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

// hashSample writes the bins of sampled rows to h: of those rows of the sample that this worker has. The sample is
// spread evenly over the whole table, which has this many rows; first is the number of this worker's first row in it.
func (d *Data) hashSample(h hash.Hash, rows, first int) {
	f := len(d.Features)
	n := min(sampledRows, rows)
	for i := range n {
		if r := i*(rows/n) - first; 0 <= r && r < d.Rows {
			h.Write(d.RowMajor[r*f : (r+1)*f])
		}
	}
}

// hashRows writes the numbers that a worker's rows have in the whole table to h, where first is that of its row 0.
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

// hashAll writes the values to h in little endian. It converts some thousands at a time, to need little memory.
func hashAll[T uint32 | uint64 | float32 | float64](h hash.Hash, values []T) {
	var piece []byte
	for part := range slices.Chunk(values, 16<<10) {
		piece, _ = stdbinary.Append(piece[:0], stdbinary.LittleEndian, part) // cannot fail for fixed-size numbers
		h.Write(piece)
	}
}

// differenceFrom returns a *MismatchError with the first difference between r, the run of a checkpoint, and here, the
// run that is to resume from it; nil if they are equal.
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

// checkpoint returns the current state, between two rounds. The trees are shared, not copied: once a round is over, its
// trees do not change any more, and the capacity is cut so that nobody appends to the booster's slice.
func (b *booster) checkpoint() *Checkpoint {
	return &Checkpoint{run: b.run, progress: b.progress, elapsed: b.elapsed(), model: &Model{Objective: b.obj.String(),
		FeatureNames: b.names, FeatureInfos: b.infos, Trees: b.trees[:len(b.trees):len(b.trees)]}}
}

// resume puts a new booster into the state of c, which must belong to the same run: it takes over trees and progress,
// and recomputes raw scores. If ctx ends, it returns ctx's error.
func (b *booster) resume(ctx context.Context, c *Checkpoint) error {
	b.progress = c.progress
	b.before = c.elapsed
	b.resumed = c.Trees()

	// The trees of a checkpoint that was read from a file do not know bins.
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

	// Train offers no checkpoint after the last round, but a file may say anything, and its numbers are only checked to
	// be possible (ReadCheckpoint).
	b.checkStop()
	return nil
}

// rescore recomputes the raw scores of the current output, which is the k-th, from the trees of a checkpoint.
func (b *booster) rescore(ctx context.Context, k int) error {
	trees := b.treesOf(k, b.trees)

	// The scores are already those of an input model (continueInput): add the trees to them.
	if b.opt.Input != nil {
		addPredictions(ctx, trees, b.data.Columns, b.data.rows(), b.raw, b.walks)
		b.addToValid(ctx, trees...)
		return ctx.Err()
	}

	// Else begin anew. Only the held-out scores contain Options.Shift.
	if err := replay(ctx, trees, b.data, b.raw, b.bias, b.walks); err != nil {
		return err
	}
	if b.valid == nil {
		return nil
	}
	return replay(ctx, b.shifted(trees), b.valid, b.validRaw, b.bias, b.walks)
}

// saveCheckpoint passes a state to Options.Checkpoint, if there is one, and returns its error.
func (b *booster) saveCheckpoint(state *Checkpoint) error {
	if b.opt.Checkpoint == nil {
		return nil
	}
	if err := b.opt.Checkpoint(state); err != nil {
		return fmt.Errorf("keep a checkpoint after tree %d: %w", state.Trees(), err)
	}
	return nil
}

// abandoned returns the error of a training that ends with err while a tree is being grown. If it ends because ctx has
// ended, state, which is that before the tree, is first passed to Options.Checkpoint once more: so only this tree is
// lost.
func (b *booster) abandoned(ctx context.Context, state *Checkpoint, err error) error {
	// If ctx has ended, that is why the team failed, too.
	if ctx.Err() != nil && errors.Is(err, ErrTeam) {
		err = ctx.Err()
	}
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(err, b.saveCheckpoint(state))
}

// elapsed is the training time so far, that before resuming included.
func (b *booster) elapsed() time.Duration { return b.before + time.Since(b.started) }
