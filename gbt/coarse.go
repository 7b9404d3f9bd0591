package gbt

// coarsen prepares a max_bin below the data's. The bytes and the histograms stay as they are: only fewer thresholds are
// scored, those that divide the training rows most evenly. So one table serves every max_bin of a sweep.
func (g *grower) coarsen() {
	g.groups = make([][]uint8, len(g.data.Features))
	g.usable = make([]int, len(g.data.Features))

	g.pool.parallel(len(g.data.Features), 1, func(_, lo, hi int) {
		for f := lo; f < hi; f++ {
			feature := &g.data.Features[f]
			g.usable[f] = feature.Bins
			if feature.Bins <= g.p.MaxBin {
				continue
			}
			if feature.Categorical { // bins are in order of frequency: the rarest may not go left any more
				g.usable[f] = g.p.MaxBin - 1
				continue
			}

			// The missing bin stays as it is; the bins of values share what is left.
			allowed := g.p.MaxBin - (feature.Bins - feature.valueBins())
			g.groups[f] = evenGroups(g.countBins(f), max(allowed, 1))
		}
	})
}

// countBins is how many rows in use have each value bin of feature f.
func (g *grower) countBins(f int) []int {
	counts := make([]int, MaxBins)
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
	return counts[:g.data.Features[f].valueBins()]
}

// evenGroups numbers consecutive bins with at most groups different numbers, each covering about as many rows as the
// others; a bin with more than its share stands alone.
func evenGroups(counts []int, groups int) []uint8 {
	left := 0
	for _, c := range counts {
		left += c
	}

	out := make([]uint8, len(counts))
	group, inGroup := 0, 0
	for b, c := range counts {
		share := float64(left) / float64(groups-group)
		if inGroup > 0 && group < groups-1 && float64(inGroup)+float64(c)/2 > share {
			left -= inGroup
			group, inGroup = group+1, 0
		}

		out[b] = uint8(group)
		inGroup += c
	}
	return out
}
