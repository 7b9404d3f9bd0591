package gbt

// partitionGo is partition from rows[from] on, of which front have gone left before. There is no branch on the data, which
// would be mispredicted every other row: both places are written, and only one of them is kept. The front is never ahead
// of the row being looked at.
func partitionGo(rows, right []uint32, column []byte, left *binSet, from, front int) int {
	right = right[:len(rows)]
	for i := from; i < len(rows); i++ {
		r := rows[i]
		bin := column[r]
		rows[front] = r
		right[i-front] = r
		front += int(left[bin>>6] >> (bin & 63) & 1)
	}
	return front
}
