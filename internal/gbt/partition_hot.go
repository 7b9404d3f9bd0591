package gbt

// partitionGo is partition for rows[from:]. Of the rows before these, front have gone left and are at rows[:front]. It
// returns how many have gone left in the end.
//
// There is no branch on the data, which would be mispredicted for every other row: each row is written to both places,
// and only the place that it belongs to is advanced. front never passes the current row.
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
