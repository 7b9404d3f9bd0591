package gbt

// coarsen sets g.coarseBin and g.leftBins, which make the table's bins as coarse as max_bin asks for. So one table
// serves every max_bin of a sweep. Bins and histograms stay as they are. Of a numerical feature with too many bins,
// neighbouring bins are joined to coarse bins, which no threshold divides. Of a categorical one, only the most frequent
// categories may go left.
func (g *grower) coarsen() {
	g.coarseBin = make([][]uint8, len(g.data.Features))
	g.leftBins = make([]int, len(g.data.Features))

	// Count the rows in each bin of the numerical features with too many bins, in all workers' rows.
	counts := make([]int64, byteBins*len(g.data.Features))
	g.pool.parallel(len(g.data.Features), 1, func(_, lo, hi int) {
		for f := lo; f < hi; f++ {
			if feature := &g.data.Features[f]; feature.Bins > g.p.MaxBin && !feature.Categorical {
				g.countBins(f, counts[byteBins*f:])
			}
		}
	})
	g.data.link.sumWords(counts)

	g.pool.parallel(len(g.data.Features), 1, func(_, lo, hi int) {
		for f := lo; f < hi; f++ {
			feature := &g.data.Features[f]
			g.leftBins[f] = feature.Bins
			if feature.Bins <= g.p.MaxBin {
				continue
			}

			// The bins of categories are sorted by descending frequency, when the table is staged. The rarest ones act
			// as if they shared the last of max_bin bins; they never go left.
			if feature.Categorical {
				g.leftBins[f] = g.p.MaxBin - 1
				continue
			}

			// The missing bin, if there is one, is one of the max_bin bins; the present values share the others.
			allowed := g.p.MaxBin - (feature.Bins - feature.valueBins())
			g.coarseBin[f] = evenCoarseBins(counts[byteBins*f:][:feature.valueBins()], max(allowed, 1))
		}
	})
}

// countBins adds the number of this worker's used rows in each bin of feature f to counts.
func (g *grower) countBins(f int, counts []int64) {
	column := g.data.Columns[f]
	if g.data.Subset == nil {
		for _, b := range column {
			counts[b]++
		}
	} else {
		for _, r := range g.data.Subset {
			counts[column[r]]++
		}
	}
}

// evenCoarseBins joins consecutive bins to at most limit coarse bins of about equal numbers of rows, and returns the
// coarse bin of each bin. counts has each bin's number of rows. A bin with many rows may be a coarse bin by itself.
func evenCoarseBins(counts []int64, limit int) []uint8 {
	remaining := int64(0) // rows in this coarse bin and in all after it
	for _, c := range counts {
		remaining += c
	}

	out := make([]uint8, len(counts))
	coarse, rows := 0, int64(0)
	for b, c := range counts {
		// Begin another coarse bin if more than half of this bin's rows would be beyond an equal share of the rows that
		// remain. The last coarse bin takes all that is left.
		share := float64(remaining) / float64(limit-coarse)
		if rows > 0 && coarse < limit-1 && float64(rows)+float64(float64(c)/2) > share {
			remaining -= rows
			coarse, rows = coarse+1, 0
		}

		out[b] = uint8(coarse)
		rows += c
	}
	return out
}
