package gbt

import (
	"bytes"
	"crypto/sha256"
	stdbinary "encoding/binary" // binary is an objective here
	"fmt"
	"math"
	"time"
)

// The format of a checkpoint. Numbers are little endian, reals IEEE 754 doubles, so that trees survive bit for bit;
// texts and lists are preceded by their length in 32 bits.
//
//	 8  "COPCKPT1"
//	 8  length n of the body
//	 n  body
//	32  SHA-256 of all before
//
// The body is the run (identity, the lines of its parameters, features, rows, rows in use, SHA-256 of the features, of
// the training rows and of the held-out ones, 1 if a higher score is better), the state (bias, round, rounds without a
// split, trees of the best score, its round, the best score, nanoseconds) and the list of trees.
//
// A tree is its shrinkage, the number of its leaves L, L-1 nodes (feature 32 bits, threshold, decision 8, left and
// right child 32 each, gain, value, weight, rows 32, the set of bins that go left 256), L leaves (value, weight, rows
// 32), the list of cat_boundaries and that of cat_threshold, as in the model file.
const checkpointMagic = "COPCKPT1"

// MaxCheckpointBytes bounds a checkpoint: eight million leaves.
const MaxCheckpointBytes = 1 << 30

// Sizes in bytes.
const (
	headBytes = len(checkpointMagic) + 8
	nodeBytes = 4 + 8 + 1 + 4 + 4 + 3*8 + 4 + 32
	leafBytes = 8 + 8 + 4
	treeBytes = 8 + 4 + nodeBytes + 2*leafBytes + 4 + 4 // minimum size
)

// CheckpointError reports bytes that are not a valid checkpoint. Offset is the position of the error.
type CheckpointError struct {
	Offset int
	Msg    string
}

func (e *CheckpointError) Error() string {
	return fmt.Sprintf("checkpoint, byte %d: %s", e.Offset, e.Msg)
}

// AppendBinary appends the checkpoint's bytes. It implements encoding.BinaryAppender; its only error is a checkpoint
// longer than MaxCheckpointBytes.
func (c *Checkpoint) AppendBinary(out []byte) ([]byte, error) {
	start := len(out)
	w := checkpointWriter{append(out, checkpointMagic...)}
	// Placeholder for the body's length, which is known only at the end.
	w.u64(0)

	w.run(&c.run)
	w.f64(c.bias)
	for _, n := range []int{c.round, c.roundsWithoutSplit, c.best, c.bestIn} {
		w.u32(n)
	}
	w.f64(c.bestMetric)
	w.u64(uint64(c.elapsed))
	w.u32(len(c.trees))
	for _, t := range c.trees {
		w.tree(t)
	}

	body := len(w.out) - start - headBytes
	if body > MaxCheckpointBytes-headBytes-sha256.Size {
		return out, fmt.Errorf("a checkpoint of %d bytes is more than %d", body, MaxCheckpointBytes)
	}

	// Fill in the body's length, and append the checksum.
	stdbinary.LittleEndian.PutUint64(w.out[start+len(checkpointMagic):], uint64(body))
	sum := sha256.Sum256(w.out[start:])
	return append(w.out, sum[:]...), nil
}

type checkpointWriter struct{ out []byte }

func (w *checkpointWriter) u8(v uint8)    { w.out = append(w.out, v) }
func (w *checkpointWriter) u32(v int)     { w.out = stdbinary.LittleEndian.AppendUint32(w.out, uint32(v)) }
func (w *checkpointWriter) u64(v uint64)  { w.out = stdbinary.LittleEndian.AppendUint64(w.out, v) }
func (w *checkpointWriter) f64(v float64) { w.u64(math.Float64bits(v)) }

func (w *checkpointWriter) text(s string) {
	w.u32(len(s))
	w.out = append(w.out, s...)
}

func (w *checkpointWriter) run(r *run) {
	w.text(r.identity)
	w.u32(len(r.params))
	for _, line := range r.params {
		w.text(line)
	}

	w.u64(uint64(r.features))
	w.u64(uint64(r.rows))
	w.u64(uint64(r.used))

	for _, sum := range [][sha256.Size]byte{r.describe, r.target, r.valid} {
		w.out = append(w.out, sum[:]...)
	}
	w.u8(0)
	if r.validMaximizes {
		w.out[len(w.out)-1] = 1
	}
}

func (w *checkpointWriter) tree(t *Tree) {
	w.f64(t.Shrinkage)
	w.u32(len(t.LeafValue))

	for i := range t.Feature {
		w.u32(t.Feature[i])
		w.f64(t.Threshold[i])
		w.u8(t.Decision[i])
		w.u32(t.Left[i])
		w.u32(t.Right[i])
		w.f64(t.Gain[i])
		w.f64(t.InternalValue[i])
		w.f64(t.InternalWeight[i])
		w.u32(t.InternalCount[i])
		for _, word := range t.left[i] {
			w.u64(word)
		}
	}

	for i := range t.LeafValue {
		w.f64(t.LeafValue[i])
		w.f64(t.LeafWeight[i])
		w.u32(t.LeafCount[i])
	}

	w.u32(len(t.CatBoundaries))
	for _, b := range t.CatBoundaries {
		w.u32(b)
	}
	w.u32(len(t.CatThreshold))
	for _, b := range t.CatThreshold {
		w.u32(int(b))
	}
}

// ReadCheckpoint decodes what AppendBinary wrote. Errors are *CheckpointError. For any input: resuming from an accepted
// checkpoint never indexes outside its trees, and terminates.
func ReadCheckpoint(data []byte) (*Checkpoint, error) {
	r := &checkpointReader{data: data}

	switch body := len(data) - headBytes - sha256.Size; {
	case len(data) > MaxCheckpointBytes:
		r.failf("%d bytes; %d at most", len(data), MaxCheckpointBytes)
	case body < 0 || !bytes.HasPrefix(data, []byte(checkpointMagic)):
		r.failf("it does not begin with %q, or is too short", checkpointMagic)
	case stdbinary.LittleEndian.Uint64(data[len(checkpointMagic):]) != uint64(body):
		r.at = len(checkpointMagic)
		r.failf("a body of %d bytes was written, %d are there",
			stdbinary.LittleEndian.Uint64(data[len(checkpointMagic):]), body)
	case sha256.Sum256(data[:headBytes+body]) != [sha256.Size]byte(data[headBytes+body:]):
		r.at = headBytes + body
		r.failf("the bytes before do not have this checksum")
	default:
		r.data = data[:headBytes+body]
		r.at = headBytes
	}

	// After an error, the reader returns zeros and keeps the first error.
	c := r.checkpoint()
	if r.err == nil && r.at != len(r.data) {
		r.failf("%d bytes too many", len(r.data)-r.at)
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// checkpointReader decodes a body. It keeps the first error, after which it returns zeros.
type checkpointReader struct {
	data []byte
	at   int
	err  error
}

func (r *checkpointReader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = &CheckpointError{r.at, fmt.Sprintf(format, args...)}
	}
}

// take returns the next n bytes; zeros after an error.
func (r *checkpointReader) take(n int) []byte {
	if r.err == nil && n > len(r.data)-r.at {
		r.failf("%d bytes are missing", n-(len(r.data)-r.at))
	}
	if r.err != nil {
		return make([]byte, n)
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *checkpointReader) u8() uint8    { return r.take(1)[0] }
func (r *checkpointReader) u32() int     { return int(stdbinary.LittleEndian.Uint32(r.take(4))) }
func (r *checkpointReader) i32() int     { return int(int32(stdbinary.LittleEndian.Uint32(r.take(4)))) }
func (r *checkpointReader) u64() uint64  { return stdbinary.LittleEndian.Uint64(r.take(8)) }
func (r *checkpointReader) f64() float64 { return math.Float64frombits(r.u64()) }

// finite reads a real that must be finite.
func (r *checkpointReader) finite() float64 {
	v := r.f64()
	if v-v != 0 {
		r.failf("%v", v)
	}
	return v
}

// atMost checks that a whole number is at most most.
func (r *checkpointReader) atMost(v uint64, most int) int {
	if v > uint64(most) {
		r.failf("%d is more than %d", v, most)
		return 0
	}
	return int(v)
}

// count reads the length of a list whose items take at least size bytes each, and checks it against the bytes left.
func (r *checkpointReader) count(size int) int {
	n := r.u32()
	if r.err == nil && n > (len(r.data)-r.at)/size {
		r.failf("a list of %d items, with %d bytes left", n, len(r.data)-r.at)
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *checkpointReader) text() string { return string(r.take(r.count(1))) }

// Limits on a checkpoint's contents, far above what occurs.
const (
	maxLines   = 1000
	maxElapsed = int(10 * 365 * 24 * time.Hour)
)

func (r *checkpointReader) run() (x run) {
	x.identity = r.text()

	lines := r.count(4)
	if lines > maxLines {
		r.failf("%d lines of parameters", lines)
		return x
	}
	for range lines {
		x.params = append(x.params, r.text())
	}

	x.features = r.atMost(r.u64(), math.MaxInt32)
	x.rows = r.atMost(r.u64(), math.MaxUint32)
	x.used = r.atMost(r.u64(), x.rows)

	for _, sum := range []*[sha256.Size]byte{&x.describe, &x.target, &x.valid} {
		copy(sum[:], r.take(len(sum)))
	}

	x.validMaximizes = r.atMost(uint64(r.u8()), 1) == 1
	return x
}

func (r *checkpointReader) checkpoint() *Checkpoint {
	c := &Checkpoint{run: r.run()}
	c.bias = r.finite()
	c.round = r.atMost(uint64(r.u32()), maxRounds)
	c.roundsWithoutSplit = r.atMost(uint64(r.u32()), c.round)
	c.best = r.atMost(uint64(r.u32()), c.round)
	c.bestIn = r.atMost(uint64(r.u32()), c.round)
	c.bestMetric = r.f64()
	c.elapsed = time.Duration(r.atMost(r.u64(), maxElapsed))

	n := r.count(treeBytes)
	if n > c.round || n < c.best {
		r.failf("%d trees after %d rounds, the best score at tree %d", n, c.round, c.best)
	}
	for len(c.trees) < n && r.err == nil {
		c.trees = append(c.trees, r.tree(c.run.features))
	}
	return c
}

// Limits on num_iterations and num_leaves. A tree with more leaves could be so deep that recursion needs too much
// stack.
const (
	maxRounds  = 1e6
	mostLeaves = 131072
)

func (r *checkpointReader) tree(features int) *Tree {
	t := &Tree{Shrinkage: r.finite()}

	leaves := r.count(leafBytes)
	if leaves < 2 || leaves > mostLeaves {
		r.failf("a tree of %d leaves", leaves)
		return t
	}
	if (leaves-1)*nodeBytes > len(r.data)-r.at {
		r.failf("a tree of %d leaves, with %d bytes left", leaves, len(r.data)-r.at)
		return t
	}

	r.nodes(t, leaves-1)
	for range leaves {
		t.LeafValue = append(t.LeafValue, r.finite())
		t.LeafWeight = append(t.LeafWeight, r.f64())
		t.LeafCount = append(t.LeafCount, r.u32())
	}

	for range r.count(4) {
		t.CatBoundaries = append(t.CatBoundaries, r.u32())
	}
	for range r.count(4) {
		t.CatThreshold = append(t.CatThreshold, uint32(r.u32()))
	}
	if r.err == nil {
		if err := t.check(features); err != nil {
			r.failf("%v", err)
		}
	}
	return t
}

func (r *checkpointReader) nodes(t *Tree, n int) {
	for range n {
		t.Feature = append(t.Feature, r.u32())
		t.Threshold = append(t.Threshold, r.finite())
		t.Decision = append(t.Decision, r.u8())
		t.Left = append(t.Left, r.i32())
		t.Right = append(t.Right, r.i32())
		t.Gain = append(t.Gain, r.f64())
		t.InternalValue = append(t.InternalValue, r.f64())
		t.InternalWeight = append(t.InternalWeight, r.f64())
		t.InternalCount = append(t.InternalCount, r.u32())

		var left binSet
		for i := range left {
			left[i] = r.u64()
		}
		t.left = append(t.left, left)
	}
}
