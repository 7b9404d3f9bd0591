package gbt

// coarsen prepares for a max_bin below the data's. Bins and histograms stay as they are; only those thresholds are scored that divide the
// training rows most evenly. So one table serves every max_bin of a sweep.
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
			if feature.Categorical { // bins are in order of frequency: the rarest may no longer go left
				g.usable[f] = g.p.MaxBin - 1
				continue
			}

			// The missing bin is kept; the value bins share the rest of the allowance.
			allowed := g.p.MaxBin - (feature.Bins - feature.valueBins())
			g.groups[f] = evenGroups(g.countBins(f), max(allowed, 1))
		}
	})
}

// countBins returns the number of used rows in each value bin of feature f.
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

// evenGroups assigns consecutive bins to at most groups groups of about equal numbers of rows; a bin with more than its share is a group of
// its own.
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
