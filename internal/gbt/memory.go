package gbt

// PrivateBytes estimates the memory in bytes that Train takes in addition to the table that it borrows. The estimate is
// an upper bound, within a few percent for tables of over a million rows, as long as a tree has no more than rows /
// min_data_in_leaf leaves. (Trees whose rows have very different hessians may have some more, since the rows of a child
// are estimated.) rows and validRows are the numbers of rows in use, and features has the number of bins of each
// feature. This is what it adds up:
//
//	20 per row                     raw score 8, packed gradient 4, row order 4, spare memory to reorder rows 4
//	16 per row                     residuals by leaf, if leaf values are quantiles
//	20 per row                     gradients and rows by query, if queries are ranked
//	8 per row and class            raw scores of several classes, and a sum over the classes
//	16 per valid row               raw scores by row 8, and for Eval 8; 8 more each per further class
//	8 per bin and leaf             histograms of leaves of up to 65,536 rows; 4 more leaves per thread, if several
//	16 per bin and large leaf      histograms of larger leaves, at most 2 x rows/65,536 + 1, and one per thread
//	2,112 per feature and thread   the kernel's workspace
//	256 KiB per thread             windows of rows that are sent down a tree, and the assembly's buffers
func PrivateBytes(p Params, rows, validRows int, features []int, threads int) int64 {
	bins := 0
	for _, b := range features {
		bins += b
	}

	// Histograms: one per leaf, wide ones for large leaves, and those of leaves prepared ahead.
	leaves := int64(min(p.NumLeaves, rows/max(p.MinDataInLeaf, 1)+1))
	large := min(leaves, int64(rows/maxPackedRows)*2+1)
	if rows <= maxPackedRows {
		large = 0
	}
	if threads > 1 {
		leaves += int64(leavesEach * threads)
	}

	// Per row, per bin and per thread.
	bytes := 20*int64(rows) + int64(8+8*p.NumClass)*int64(validRows)
	if p.NumClass > 1 {
		bytes += 8*int64(p.NumClass)*int64(rows) + 8*int64(p.NumClass-1)*int64(validRows)
	}
	if o := findObjective(p.Objective); o != nil && o.renews {
		bytes += 16 * int64(rows)
	} else if o != nil && o.ranks {
		bytes += 20 * int64(rows)
	}
	bytes += int64(bins) * (8*leaves + 16*(large+int64(threads)))
	bytes += int64(threads) * (int64(len(features))*strideBytes + 256<<10)
	return bytes
}
