package gbt

import "unsafe"

// The kernel is where most of the training time goes: for every row of a leaf, add the row's word to one bin of every
// feature. Three things make it fast, each measured in BenchmarkKernel:
//
//   - A row's bins are read eight at a time, and a feature's bins lie at a fixed distance (stride) from the next one's, so
//     an update is a shift, a mask and one addition to memory. The stride is not a power of two: with 2,048 bytes all
//     features' first bins would fall on the same two sets of the first-level cache.
//   - Rows of a small leaf are far apart, and an update waits for its row from main memory. The processor cannot look
//     ahead far enough by itself, because the additions of three rows fill its store buffer. So each group of
//     kernelRows rows is touched first, in a loop with nothing but loads that wait for memory side by side; 5 times as
//     fast at one row in sixteen.
//   - No bounds checks: Data.check has made sure that the table has rows x width bytes; a bin is a byte and stride > 255.
//     Addresses are made of a start and an offset, never by moving a pointer on: behind the last element it would point at
//     nothing, and the garbage collector ends a process in which it finds such a pointer.
const (
	kernelRows  = 64
	kernelWidth = 8
	stride      = 264
	strideBytes = stride * 8
)

type kernel struct {
	words unsafe.Pointer // stride words for each feature
	table unsafe.Pointer // row-major bins
	width int            // bytes per row
	block []int64        // kernelRows words
	gh    []uint32
	pack  packing
}

// newKernel points a kernel at a workspace and at a table of rows of width bytes; neither is empty.
func newKernel(space *workspace, table []byte, width int, gh []uint32, pack packing) kernel {
	return kernel{
		words: unsafe.Pointer(&space.words[0]), table: unsafe.Pointer(&table[0]),
		width: width, block: space.block, gh: gh, pack: pack,
	}
}

// fill makes the words of rows, at most kernelRows of them.
func (k *kernel) fill(rows []uint32) {
	words := k.block[:len(rows)]
	for i, r := range rows {
		words[i] = k.pack.word(k.gh[r])
	}
}

// touch brings the bytes of rows into the cache. What it returns has no meaning; it keeps the loads from being optimised
// away.
func (k *kernel) touch(rows []uint32) (sum byte) {
	for _, r := range rows {
		p := unsafe.Add(k.table, int(r)*k.width)
		for at := 0; at < k.width; at += 64 {
			sum += *(*byte)(unsafe.Add(p, at))
		}
		sum += *(*byte)(unsafe.Add(p, k.width-1))
	}
	return sum
}

// countAllGo is countAll without prefetching.
func (k *kernel) countAllGo(rows []uint32) {
	for len(rows) > 0 {
		group := rows[:min(len(rows), kernelRows)]
		rows = rows[len(group):]
		k.countGroup(group)
	}
}

func (k *kernel) countGroup(rows []uint32) {
	k.fill(rows)
	touched(k.touch(rows))
	whole := k.width &^ (kernelWidth - 1)
	for i, r := range rows {
		w := k.block[i]
		p := unsafe.Add(k.table, int(r)*k.width)
		for at := 0; at < whole; at += kernelWidth {
			bins := *(*uint64)(unsafe.Add(p, at)) // of eight neighbouring features; the first one's is the lowest byte on little-endian processors, which all of Batch's are
			h := unsafe.Add(k.words, at*strideBytes)
			*(*int64)(unsafe.Add(h, uintptr(bins&255)*8)) += w
			*(*int64)(unsafe.Add(h, 1*strideBytes+uintptr(bins>>8&255)*8)) += w
			*(*int64)(unsafe.Add(h, 2*strideBytes+uintptr(bins>>16&255)*8)) += w
			*(*int64)(unsafe.Add(h, 3*strideBytes+uintptr(bins>>24&255)*8)) += w
			*(*int64)(unsafe.Add(h, 4*strideBytes+uintptr(bins>>32&255)*8)) += w
			*(*int64)(unsafe.Add(h, 5*strideBytes+uintptr(bins>>40&255)*8)) += w
			*(*int64)(unsafe.Add(h, 6*strideBytes+uintptr(bins>>48&255)*8)) += w
			*(*int64)(unsafe.Add(h, 7*strideBytes+uintptr(bins>>56)*8)) += w
		}
		for at := whole; at < k.width; at++ {
			bin := *(*byte)(unsafe.Add(p, at))
			*(*int64)(unsafe.Add(k.words, at*strideBytes+int(bin)*8)) += w
		}
	}
}

// countChosen counts only the features whose numbers are given.
func (k *kernel) countChosen(rows, features []uint32) {
	for len(rows) > 0 {
		group := rows[:min(len(rows), kernelRows)]
		rows = rows[len(group):]
		k.fill(group)
		touched(k.touch(group))
		for i, r := range group {
			w := k.block[i]
			p := unsafe.Add(k.table, int(r)*k.width)
			for _, f := range features {
				bin := *(*byte)(unsafe.Add(p, f))
				*(*int64)(unsafe.Add(k.words, uintptr(f)*strideBytes+uintptr(bin)*8)) += w
			}
		}
	}
}

//go:noinline
func touched(byte) {}
