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

type kernel struct {
	table    unsafe.Pointer // row-major bins
	width    int            // bytes per row
	gh       []uint32
	pack     packing
	features []int
	chosen   []uint64 // the features as a bit set
	frequent []byte
}

// newKernel points a kernel at a table of rows of width bytes.
func newKernel(table []byte, width int, features []int, frequent *frequentBins, gh []uint32, pack packing) kernel {
	k := kernel{table: unsafe.Pointer(unsafe.SliceData(table)), width: width, gh: gh, pack: pack, features: features,
		chosen: make([]uint64, (width+63)/64), frequent: frequent.bin}
	for _, f := range features {
		k.chosen[f/64] |= 1 << (f % 64)
	}
	return k
}

// fill computes the histogram words of rows, at most kernelRows of them, in the space's rowWords.
func (k *kernel) fill(space *workspace, rows []uint32) []int64 {
	words := space.rowWords[:len(rows)]
	for i, r := range rows {
		words[i] = k.pack.word(k.gh[r])
	}
	return words
}

// touch brings the bytes of rows into the cache. What it returns has no meaning; it keeps the loads from being
// optimised away.
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

// addAllGo adds every feature of rows to the space's words, each feature at the place of its number.
func (k *kernel) addAllGo(space *workspace, rows []uint32) {
	for len(rows) > 0 {
		group := rows[:min(len(rows), kernelRows)]
		rows = rows[len(group):]
		touched(k.touch(group))
		k.addRowsGo(unsafe.Pointer(&space.words[0]), group, k.fill(space, group))
	}
}

// addRowsGo adds each row's word, its packed gradient and hessian, to the row's bin of every feature: eight features at
// a time, then those left over.
func (k *kernel) addRowsGo(words unsafe.Pointer, rows []uint32, rowWords []int64) {
	whole := k.width &^ (kernelWidth - 1)
	for i, r := range rows {
		w := rowWords[i]
		p := unsafe.Add(k.table, int(r)*k.width)
		for at := 0; at < whole; at += kernelWidth {
			// Of eight neighbouring features; the first one's is the lowest byte on little-endian processors, which all
			// of Batch's are.
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

// addChosenGo adds only the chosen features, the i-th of them at the i-th place.
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

// addSparseGo adds the chosen features whose bin is not their most frequent one, each at the place of its number, and
// returns the sum of the rows' words.
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

func subtractWordsGo(from, words []int64) {
	for i, w := range words {
		from[i] -= w
	}
}

//go:noinline
func touched(byte) {}
