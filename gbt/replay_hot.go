package gbt

import "unsafe"

// Row numbers of a replayed window (replay.go) begin below its length and are only moved about, and columns and scores are
// at least as long, so bounds are not checked. A row costs three loads and two stores a level; nothing is mispredicted but
// the ends of the lists.

// spread writes the rows that go left to the front of scratch and the others behind them, in any order, and returns how many
// went left. len(scratch) is len(rows).
func (w *replayer) spread(rows, scratch []uint16, column []byte) int {
	if len(rows) == 0 {
		return 0
	}
	out, bins, table := unsafe.Pointer(&scratch[0]), unsafe.Pointer(&column[0]), unsafe.Pointer(&w.table)
	front, back := uintptr(0), uintptr(len(rows)-1)*2
	for _, r := range rows {
		left := uintptr(*(*uint8)(unsafe.Add(table, *(*uint8)(unsafe.Add(bins, r))))) * 2
		*(*uint16)(unsafe.Add(out, front)) = r
		*(*uint16)(unsafe.Add(out, back)) = r
		front += left
		back += left - 2
	}
	return int(front / 2)
}

// addEither adds the value of each row's leaf, left or right, to its score.
func (w *replayer) addEither(rows []uint16, column []byte, left, right float64) {
	if len(rows) == 0 {
		return
	}
	values := [2]float64{right, left}
	score, bins, table := unsafe.Pointer(&w.score[0]), unsafe.Pointer(&column[0]), unsafe.Pointer(&w.table)
	for _, r := range rows {
		side := *(*uint8)(unsafe.Add(table, *(*uint8)(unsafe.Add(bins, r))))
		*(*float64)(unsafe.Add(score, uintptr(r)*8)) += values[side&1]
	}
}

// add adds v to the rows' scores.
func (w *replayer) add(rows []uint16, v float64) {
	if len(rows) == 0 {
		return
	}
	score := unsafe.Pointer(&w.score[0])
	for _, r := range rows {
		*(*float64)(unsafe.Add(score, uintptr(r)*8)) += v
	}
}
