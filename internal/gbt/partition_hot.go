package gbt

// partitionGo is partition for rows[from:], of which front earlier rows have gone left. It has no branch on the data,
// which would be mispredicted for every other row: both destinations are written, and only one is advanced. front never
// passes the current row.
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
