package gbt

// coarsen prepares for a max_bin below the data's. Bins and histograms stay as they are; only those thresholds are
// scored that divide the training rows most evenly. So one table serves every max_bin of a sweep.
func (g *grower) coarsen() {
	g.coarseBin = make([][]uint8, len(g.data.Features))
	g.leftBins = make([]int, len(g.data.Features))

	counts := make([]int64, byteBins*len(g.data.Features)) // of rows in each value bin of the features to coarsen
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
			// bins are in order of frequency: the rarest share the last of the max_bin bins, which never goes left
			if feature.Categorical {
				g.leftBins[f] = g.p.MaxBin - 1
				continue
			}

			// The missing bin is kept; the value bins share the rest of the allowance.
			allowed := g.p.MaxBin - (feature.Bins - feature.valueBins())
			g.coarseBin[f] = evenCoarseBins(counts[byteBins*f:][:feature.valueBins()], max(allowed, 1))
		}
	})
}

// countBins adds the number of used rows in each bin of feature f to counts.
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

// evenCoarseBins joins consecutive bins, whose numbers of rows are counts, to at most most coarse bins of about equal
// numbers of rows, and returns the coarse bin of each bin. A bin with more than its share is a coarse bin by itself.
func evenCoarseBins(counts []int64, most int) []uint8 {
	remaining := int64(0) // rows in this coarse bin and those to come
	for _, c := range counts {
		remaining += c
	}

	out := make([]uint8, len(counts))
	coarse, rows := 0, int64(0)
	for b, c := range counts {
		share := float64(remaining) / float64(most-coarse)
		if rows > 0 && coarse < most-1 && float64(rows)+float64(float64(c)/2) > share {
			remaining -= rows
			coarse, rows = coarse+1, 0
		}

		out[b] = uint8(coarse)
		rows += c
	}
	return out
}
