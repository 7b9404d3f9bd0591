package gbt

// partition writes the rows that go left to the front of scratch and the others to its back, backwards, and returns how
// many went left. There is no branch on the data, which would be mispredicted every other row: both places are written,
// and only one of them is kept. len(scratch) must be len(rows); rows must lie inside column.
func partition(rows, scratch []uint32, column []byte, table *lookup) int {
	if len(rows) == 0 {
		return 0
	}
	scratch = scratch[:len(rows)]
	front, back := 0, len(rows)-1
	for _, r := range rows {
		goesLeft := int(table[column[r]])
		scratch[front] = r
		scratch[back] = r
		front += goesLeft
		back -= 1 - goesLeft
	}
	return front
}
