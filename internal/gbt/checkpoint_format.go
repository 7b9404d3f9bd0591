package gbt

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"coppice/internal/strictjson"
)

// The format of a checkpoint:
//
//	"coppice checkpoint 1" and a newline
//	the run and its progress, as JSON in one line (checkpointHead)
//	the trees as a model file (WriteTo), if there are any
//	SHA-256 of all bytes before it, 32 bytes
//
// Both texts write a number with enough digits to read back the same bits, so trees survive bit for bit.
const checkpointMagic = "coppice checkpoint 1\n"

// checkpointHead is what a checkpoint holds in addition to its trees.
type checkpointHead struct {
	Run      run
	Progress progress
	Trees    int
	Elapsed  time.Duration
}

// MaxCheckpointBytes is the most bytes of a checkpoint, enough for some six million leaves.
const MaxCheckpointBytes = 1 << 30

// Limits on a checkpoint's contents, far above what occurs. A tree with more leaves could be so deep that recursion
// needs too much stack.
const (
	maxRounds  = 1e6
	mostLeaves = 131072
	maxElapsed = 10 * 365 * 24 * time.Hour
)

// AppendBinary appends the checkpoint's bytes to out. It implements encoding.BinaryAppender. Its only error is a
// checkpoint longer than MaxCheckpointBytes.
func (c *Checkpoint) AppendBinary(out []byte) ([]byte, error) {
	head := checkpointHead{Run: c.run, Progress: c.progress, Trees: c.Trees(), Elapsed: c.elapsed}
	if head.Progress.BestIn == 0 {
		head.Progress.BestMetric = 0 // instead of NaN, which JSON does not have
	}
	line, err := json.Marshal(head)
	if err != nil {
		return out, err
	}

	b := bytes.NewBuffer(out)
	b.WriteString(checkpointMagic)
	b.Write(append(line, '\n'))
	if c.Trees() > 0 {
		if _, err := c.model.WriteTo(b); err != nil {
			return out, err
		}
	}

	sum := sha256.Sum256(b.Bytes()[len(out):])
	b.Write(sum[:])
	if n := b.Len() - len(out); n > MaxCheckpointBytes {
		return out, fmt.Errorf("a checkpoint of %d bytes is more than %d", n, MaxCheckpointBytes)
	}
	return b.Bytes(), nil
}

// ReadCheckpoint decodes what AppendBinary wrote. The data need not be trusted: if it returns no error, resuming from
// the checkpoint terminates and never indexes outside its trees.
func ReadCheckpoint(data []byte) (*Checkpoint, error) {
	body := len(data) - sha256.Size
	switch {
	case len(data) > MaxCheckpointBytes:
		return nil, fmt.Errorf("checkpoint: %d bytes; %d at most", len(data), MaxCheckpointBytes)
	case body < 0 || !bytes.HasPrefix(data[:body], []byte(checkpointMagic)):
		return nil, fmt.Errorf("checkpoint: it does not begin with %q, or is too short", checkpointMagic)
	case sha256.Sum256(data[:body]) != [sha256.Size]byte(data[body:]):
		return nil, fmt.Errorf("checkpoint, byte %d: the bytes before do not have this checksum", body)
	}

	// The checksum only tells an interrupted write from a whole one. What it covers may still be anything.
	line, text, _ := bytes.Cut(data[len(checkpointMagic):body], []byte("\n"))
	if len(line) > maxHeadLine {
		return nil, fmt.Errorf("checkpoint: a head of %d bytes; %d at most", len(line), maxHeadLine)
	}
	var head checkpointHead
	if err := strictjson.Decode(line, &head); err != nil {
		return nil, fmt.Errorf("checkpoint: its head: %w", err)
	}
	if err := head.check(); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}

	// The trees, if the head says that there are any.
	c := &Checkpoint{run: head.Run, progress: head.Progress, elapsed: head.Elapsed, model: &Model{}}
	if c.BestIn == 0 {
		c.BestMetric = math.NaN()
	}
	if head.Trees > 0 {
		var err error
		if c.model, err = ReadModel(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("checkpoint: its trees: %w", err)
		}
	} else if len(text) > 0 {
		return nil, fmt.Errorf("checkpoint: %d bytes after the head, which says that there are no trees", len(text))
	}
	if err := c.checkTrees(head.Trees); err != nil {
		return nil, err
	}
	return c, nil
}

// check returns an error if no training could have this head: a number is outside its bounds, or contradicts another.
func (h *checkpointHead) check() error {
	r, p := &h.Run, &h.Progress
	outside := func(v, most int) bool { return v < 0 || v > most }
	switch {
	case outside(r.Features, math.MaxInt32) || outside(r.Rows, math.MaxUint32) || outside(r.Used, r.Rows):
		return fmt.Errorf("%d features, %d of %d rows", r.Features, r.Used, r.Rows)
	case outside(p.Round, maxRounds) || outside(p.RoundsWithoutSplit, p.Round) || outside(p.BestIn, p.Round) ||
		outside(h.Trees, p.Round) || outside(p.Best, h.Trees):
		return fmt.Errorf("%d trees after %d rounds, %d of them without a split, the best metric at tree %d in "+
			"round %d", h.Trees, p.Round, p.RoundsWithoutSplit, p.Best, p.BestIn)
	case h.Elapsed < 0 || h.Elapsed > maxElapsed:
		return fmt.Errorf("%s of training", h.Elapsed)
	}
	return nil
}

// checkTrees returns an error unless there are as many trees as the head says, with the run's number of features, and
// every tree has a size that training gives. Only with several classes may a tree have a single leaf.
func (c *Checkpoint) checkTrees(trees int) error {
	if c.Trees() != trees || trees > 0 && c.model.Features() != c.run.Features {
		return fmt.Errorf("checkpoint: %d trees of %d features, but its head says %d of %d", c.Trees(),
			c.model.Features(), trees, c.run.Features)
	}
	for i, t := range c.model.Trees {
		if t.Leaves() < 2 && c.model.Outputs() == 1 || t.Leaves() > mostLeaves {
			return fmt.Errorf("checkpoint: tree %d has %d leaves", i, t.Leaves())
		}
	}
	return nil
}
