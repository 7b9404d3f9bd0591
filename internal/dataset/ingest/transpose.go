package ingest

import "encoding/binary"

// transpose writes rows from row from on of the columns, one after the other: value from+r of column j goes to
// out[r*len(columns)+j].
func transpose(columns [][]uint8, from, rows int, out []uint8) {
	width := len(columns)
	if width < 8 || rows < 8 {
		for j, column := range columns {
			for r, value := range column[from : from+rows] {
				out[r*width+j] = value
			}
		}
		return
	}

	for r := 0; r < rows; r += 8 {
		r := min(r, rows-8) // the last squares overlap earlier ones, and write the same again
		for j := 0; j < width; j += 8 {
			j := min(j, width-8)
			transposeSquare((*[8][]uint8)(columns[j:]), from+r, out[r*width+j:], width)
		}
	}
}

// transposeSquare transposes eight rows of eight columns from row r on, held in eight words: it swaps halves of pairs
// of words, then quarters, then bytes (Warren, Hacker's Delight, 7-3). That is nearly twice as fast as byte by byte.
func transposeSquare(columns *[8][]uint8, r int, out []uint8, width int) {
	w0 := binary.LittleEndian.Uint64(columns[0][r:])
	w1 := binary.LittleEndian.Uint64(columns[1][r:])
	w2 := binary.LittleEndian.Uint64(columns[2][r:])
	w3 := binary.LittleEndian.Uint64(columns[3][r:])
	w4 := binary.LittleEndian.Uint64(columns[4][r:])
	w5 := binary.LittleEndian.Uint64(columns[5][r:])
	w6 := binary.LittleEndian.Uint64(columns[6][r:])
	w7 := binary.LittleEndian.Uint64(columns[7][r:])

	// Halves of pairs, then quarters, then bytes.
	w0, w4 = swap(w0, w4, 32, 0x00000000ffffffff)
	w1, w5 = swap(w1, w5, 32, 0x00000000ffffffff)
	w2, w6 = swap(w2, w6, 32, 0x00000000ffffffff)
	w3, w7 = swap(w3, w7, 32, 0x00000000ffffffff)
	w0, w2 = swap(w0, w2, 16, 0x0000ffff0000ffff)
	w1, w3 = swap(w1, w3, 16, 0x0000ffff0000ffff)
	w4, w6 = swap(w4, w6, 16, 0x0000ffff0000ffff)
	w5, w7 = swap(w5, w7, 16, 0x0000ffff0000ffff)
	w0, w1 = swap(w0, w1, 8, 0x00ff00ff00ff00ff)
	w2, w3 = swap(w2, w3, 8, 0x00ff00ff00ff00ff)
	w4, w5 = swap(w4, w5, 8, 0x00ff00ff00ff00ff)
	w6, w7 = swap(w6, w7, 8, 0x00ff00ff00ff00ff)

	binary.LittleEndian.PutUint64(out[0*width:], w0)
	binary.LittleEndian.PutUint64(out[1*width:], w1)
	binary.LittleEndian.PutUint64(out[2*width:], w2)
	binary.LittleEndian.PutUint64(out[3*width:], w3)
	binary.LittleEndian.PutUint64(out[4*width:], w4)
	binary.LittleEndian.PutUint64(out[5*width:], w5)
	binary.LittleEndian.PutUint64(out[6*width:], w6)
	binary.LittleEndian.PutUint64(out[7*width:], w7)
}

// swap exchanges the bits of a that are shift above mask with those of b in mask.
func swap(a, b uint64, shift int, mask uint64) (uint64, uint64) {
	t := (a>>shift ^ b) & mask
	return a ^ t<<shift, b ^ t
}
