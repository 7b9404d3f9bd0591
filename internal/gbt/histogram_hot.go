package gbt

import "unsafe"

// The kernel is where most of the training time goes: for every row of a leaf, add the row's word to one bin of every
// feature. Three things make it fast, each measured in BenchmarkKernel:
//
//   - A row's bins are read eight at a time, and a feature's bins lie at a fixed distance (stride) from the next
//     one's, so an update is a shift, a mask and one addition to memory. The stride is not a power of two: with
//     2,048 bytes all features' first bins would fall on the same two sets of the first-level cache.
//   - Rows of a small leaf are far apart, and an update waits for its row from main memory. The processor cannot
//     look ahead far enough by itself, because the additions of three rows fill its store buffer. The assembly asks
//     for rows 32 ahead (kernel_amd64.s), which costs next to nothing. Go has no way to ask; there, each group of
//     kernelRows rows is touched first, in a loop with nothing but loads that wait for memory side by side.
//   - No bounds checks: Data.check has made sure that the table has rows x width bytes; a bin is a byte and stride
//     > 255. Addresses are made of a start and an offset, never by moving a pointer on: behind the last element it
//     would point at nothing, and the garbage collector ends a process in which it finds such a pointer.
const (
	kernelRows  = 64
	kernelWidth = 8
	stride      = 264
	strideBytes = stride * 8
)

// kernel is what the loops need to know of the table and of the current tree.
type kernel struct {
	table    unsafe.Pointer // row-major bins
	width    int            // bytes per row, one for each feature of the table
	gh       []uint32       // by row, the packed gradient and hessian
	pack     packing
	features []int    // the wanted features, ascending
	chosen   []uint64 // the wanted features as a bit set
	frequent []byte   // by feature of the table, its most frequent bin
}

// newKernel returns a kernel for a table with rows of width bytes. The kernel keeps all its arguments.
func newKernel(table []byte, width int, features []int, frequent *frequentBins, gh []uint32, pack packing) kernel {
	k := kernel{table: unsafe.Pointer(unsafe.SliceData(table)), width: width, gh: gh, pack: pack, features: features,
		chosen: make([]uint64, (width+63)/64), frequent: frequent.bin}
	for _, f := range features {
		k.chosen[f/64] |= 1 << (f % 64)
	}
	return k
}

// fill computes the histogram word of each of at most kernelRows rows, and returns them in the memory of
// space.rowWords.
func (k *kernel) fill(space *workspace, rows []uint32) []int64 {
	words := space.rowWords[:len(rows)]
	for i, r := range rows {
		words[i] = k.pack.word(k.gh[r])
	}
	return words
}

// touch brings the bins of rows into the cache. It loads a byte of each cache line, which has 64 bytes, and the last
// byte of a row, which may be in one more line. Its result means nothing, but without one the compiler would remove
// the loads.
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

// addAllGo adds rows to the space's words for every feature of the table, each at the place of its number.
func (k *kernel) addAllGo(space *workspace, rows []uint32) {
	for len(rows) > 0 {
		group := rows[:min(len(rows), kernelRows)]
		rows = rows[len(group):]
		touched(k.touch(group))
		k.addRowsGo(unsafe.Pointer(&space.words[0]), group, k.fill(space, group))
	}
}

// addRowsGo adds the word of each row to the row's bin of every feature: eight features at a time, then those left
// over. words is where the first feature's words begin; rowWords has the rows' words.
func (k *kernel) addRowsGo(words unsafe.Pointer, rows []uint32, rowWords []int64) {
	whole := k.width &^ (kernelWidth - 1)
	for i, r := range rows {
		w := rowWords[i]
		p := unsafe.Add(k.table, int(r)*k.width)
		for at := 0; at < whole; at += kernelWidth {
			// The bins of eight neighbouring features. The first one's is the lowest byte, because all processors that
			// are supported are little-endian.
			bins := *(*uint64)(unsafe.Add(p, at))
			h := unsafe.Add(words, at*strideBytes)
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
			*(*int64)(unsafe.Add(words, at*strideBytes+int(bin)*8)) += w
		}
	}
}

// addChosenGo adds rows to the space's words for the wanted features only, the i-th of them at place i.
func (k *kernel) addChosenGo(space *workspace, rows []uint32) {
	words := unsafe.Pointer(&space.words[0])
	for len(rows) > 0 {
		group := rows[:min(len(rows), kernelRows)]
		rows = rows[len(group):]
		touched(k.touch(group))

		for i, w := range k.fill(space, group) {
			p := unsafe.Add(k.table, int(group[i])*k.width)
			for at, f := range k.features {
				bin := *(*byte)(unsafe.Add(p, f))
				*(*int64)(unsafe.Add(words, at*strideBytes+int(bin)*8)) += w
			}
		}
	}
}

// addSparseGo adds each row to the space's words for those wanted features in whose most frequent bin it is not, each
// at the place of its number. It returns the sum of the rows' words.
func (k *kernel) addSparseGo(space *workspace, rows []uint32) (total int64) {
	for _, r := range rows {
		w := k.pack.word(k.gh[r])
		total += w
		for _, f := range k.features {
			if bin := *(*byte)(unsafe.Add(k.table, int(r)*k.width+f)); bin != k.frequent[f] {
				space.words[f*stride+int(bin)] += w
			}
		}
	}
	return total
}

// subtractWordsGo subtracts words from as many of from, in place.
func subtractWordsGo(from, words []int64) {
	for i, w := range words {
		from[i] -= w
	}
}

// touched takes the result of touch, which so counts as used.
//
//go:noinline
func touched(byte) {}
