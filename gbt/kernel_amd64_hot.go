//go:build amd64 && !purego

package gbt

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The routines of kernel_amd64.s. Where the processor has no AVX-512, and for the rows that do not fill a vector, the
// twins in Go do the work; nothing but the time depends on which.

//go:noescape
func countRows(words, table unsafe.Pointer, gh, rows *uint32, n, ahead, width, shift int)

//go:noescape
func fillBinary8(c *binaryConstants, gh *uint32, score *float64, label, weight *float32, n int)

//go:noescape
func partition16(rows, left, right *uint32, n int, column *byte, set *binSet) int

func hasVectors() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL }

// How far ahead rows are asked for. A row from main memory takes some 100 ns, in which a narrow table's kernel adds ten
// rows; a wide row fills much of the first-level cache by itself.
const (
	prefetchRows  = 32
	prefetchBytes = 4 << 10
)

// countAll counts every feature.
func (k *kernel) countAll(rows []uint32) {
	ahead := min(prefetchRows, max(prefetchBytes/k.width, 1))
	touched(k.touch(rows[:min(ahead, len(rows))])) // nobody asks for these
	countRows(k.words, k.table, &k.gh[0], &rows[0], len(rows), ahead, k.width, int(k.pack.shift))
}

// binaryConstants are fillBinary8's operands, so that both twins compute with the same numbers.
type binaryConstants struct {
	lowest, highest, negLog2e, magic, ln2 float64
	taylor                                [7]float64
	one, gInv, hInv, unit, offset         float64
	negative, positive                    float64 // class weights
	counter                               [8]uint64
	step, mul1, mul2                      uint64
}

// fillBinary writes the packed gradients of rows lo..hi-1.
func fillBinary(gh []uint32, score []float64, label, weight []float32, class [2]float64, pack packing, lo, hi int, k key) {
	n := (hi - lo) &^ 7
	if !hasVectors() || n == 0 {
		fillBinaryGo(gh, score, label, weight, class, pack, lo, hi, k)
		return
	}
	c := binaryConstants{
		lowest: -sigmoidLimit, highest: sigmoidLimit, negLog2e: -expLog2e, magic: expMagic, ln2: expLn2, taylor: expTaylor,
		one: 1, gInv: 1 / pack.g1, hInv: 1 / pack.h1, unit: randomUnit, offset: roundOffset,
		negative: class[0], positive: class[1], step: 8 * mixStep & math.MaxUint64, mul1: mixMul1, mul2: mixMul2,
	}
	for i := range c.counter {
		c.counter[i] = uint64(k) + uint64(lo+i)*mixStep
	}
	var w *float32
	if weight != nil {
		w = &weight[lo : lo+n][0]
	}
	fillBinary8(&c, &gh[lo : lo+n][0], &score[lo : lo+n][0], &label[lo : lo+n][0], w, n)
	fillBinaryGo(gh, score, label, weight, class, pack, lo+n, hi, k)
}

// partition moves those of rows whose bin is in left to the front of rows, and writes the others to right, both in their
// order. It returns how many went left. rows are ascending and lie inside column; right is as long as rows.
func partition(rows, right []uint32, column []byte, left *binSet) int {
	n := len(rows) &^ 15
	// A bin is read with the three bytes behind it, and row numbers are signed there.
	for n > 0 && int(rows[n-1]) > min(len(column)-4, 1<<31-1) {
		n -= 16
	}
	if n == 0 || !hasVectors() {
		return partitionGo(rows, right, column, left, 0, 0)
	}
	right = right[:len(rows)]
	front := partition16(&rows[0], &rows[0], &right[0], n, &column[0], left)
	return partitionGo(rows, right, column, left, n, front)
}
