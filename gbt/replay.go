package gbt

import bin "encoding/binary" // binary is an objective here

// lookup is a binSet as bytes, 1 for members.
type lookup [MaxBins]uint8

// window is the rows that are replayed together: few enough that their numbers, scores and the bytes of a hundred features
// stay in the second-level cache while all trees are run over them, and that a number takes two bytes.
const window = 1 << 14

// replayer sends a window of rows through one tree after another. It differs from growing (partition.go) in that the order
// of a leaf's rows does not matter, so what one level writes is what the next one reads.
type replayer struct {
	table   lookup
	columns [][]byte  // from the window's first row on
	score   []float64 // likewise
	own     [window]uint16
	rows    [window]uint16
	scratch [window]uint16
	numbers [window]uint32
}

// replay makes the scores that growing the trees made, bit for bit: a row's score began at the bias and took one value per
// tree, in the trees' order. The first tree carries the bias by now, and bias + value is what its leaf says, so rows in
// use begin at zero.
func replay(trees []*Tree, d *Data, score []float64, bias float64, threads int) {
	for i := range score {
		score[i] = bias
	}
	if len(trees) == 0 {
		return
	}
	rows := d.rows()
	parallel(threads, rows.len(), window, func(_, lo, hi int) {
		w := &replayer{columns: make([][]byte, len(d.Columns))}
		for lo < hi {
			lo += w.replay(trees, d, rows, lo, hi, score)
		}
	})
}

// replay takes those rows at positions lo to hi of the set that fit into a window through all trees, and returns how many
// those were.
func (w *replayer) replay(trees []*Tree, d *Data, rows rowSet, lo, hi int, score []float64) int {
	numbers := w.numbers[:min(window, hi-lo)]
	rows.copy(numbers, lo)
	first, n := numbers[0], 0
	for n < len(numbers) && numbers[n]-first < window {
		score[numbers[n]] = 0
		w.own[n] = uint16(numbers[n] - first)
		n++
	}
	for f, column := range d.Columns {
		w.columns[f] = column[first:]
	}
	w.score = score[first:]
	for _, t := range trees {
		copy(w.rows[:n], w.own[:n])
		w.down(t, 0, w.rows[:n], w.scratch[:n])
	}
	return n
}

// down adds to the scores of rows, which have reached the node.
func (w *replayer) down(t *Tree, node int, rows, scratch []uint16) {
	if len(rows) == 0 {
		return
	}
	column, left, right := w.columns[t.Feature[node]], t.Left[node], t.Right[node]
	t.left[node].expand(&w.table)
	if left < 0 && right < 0 {
		w.addEither(rows, column, t.LeafValue[^left], t.LeafValue[^right])
		return
	}
	n := w.spread(rows, scratch, column)
	if left < 0 {
		w.add(scratch[:n], t.LeafValue[^left])
	} else {
		w.down(t, left, scratch[:n], rows[:n])
	}
	if right < 0 {
		w.add(scratch[n:], t.LeafValue[^right])
	} else {
		w.down(t, right, scratch[n:], rows[n:])
	}
}

// expand is fill, eight bins at a time: there are as many nodes as a window has rows by the hundred.
func (s *binSet) expand(t *lookup) {
	const ones, diagonal, carry = 0x0101010101010101, 0x8040201008040201, 0x7f7f7f7f7f7f7f7f
	for i := range MaxBins / 8 {
		bits := uint64(uint8(s[i>>3] >> (i & 7 * 8)))
		// Every byte of the product holds all eight bits, of which byte k keeps bit k; adding 127 moves it to the top.
		bin.LittleEndian.PutUint64(t[8*i:], (bits*ones&diagonal+carry)>>7&ones)
	}
}
