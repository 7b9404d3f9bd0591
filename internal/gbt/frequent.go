package gbt

// frequentBins holds each feature's most frequent bin. In a table of mostly zeros it is several times as fast to add
// only rows in other bins, and to give the most frequent bin what these lack of the total over all rows. The sums are
// integers, so they come out the same.
type frequentBins struct {
	bin   []byte    // by feature, padded to a multiple of 64 for the vectors of the assembly
	share []float64 // by feature, the share of the sampled rows that are in that bin
}

// frequentSample is how many rows, evenly spaced, decide which bin is the most frequent. It affects only speed.
const frequentSample = 2048

// findFrequentBins finds each feature's most frequent bin; of equal ones, the first. For a worker of a team that has no
// rows, shares are 0/0, NaN, with which chooseWay does not choose waySparse.
func findFrequentBins(d *Data) frequentBins {
	n := len(d.Features)
	frequent := frequentBins{bin: make([]byte, (n+63)&^63), share: make([]float64, n)}
	rows := min(d.Rows, frequentSample)

	for f := range n {
		var counts [byteBins]int
		for i := range rows {
			counts[d.Columns[f][i*(d.Rows/rows)]]++
		}

		best := 0
		for b := range d.Features[f].Bins {
			if counts[b] > counts[best] {
				best = b
			}
		}

		frequent.bin[f] = byte(best)
		frequent.share[f] = float64(counts[best]) / float64(rows)
	}
	return frequent
}

// chooseWay returns the fastest way to add rows to the histograms of these features. It estimates the cost of a row in
// additions to a bin. The constants come from timing whole trainings with 28 and with 400 features; they affect only
// speed.
func chooseWay(d *Data, frequent *frequentBins, features []int) way {
	width := float64(len(d.Features))
	chosen := float64(len(features))

	// Without the vector instructions for it, adding only the chosen features pays if more than a third of the features
	// are not chosen.
	if !canPickBytes() {
		if 3*chosen >= 2*width {
			return wayAll
		}
		return wayChosen
	}

	vectors := float64((len(d.Features) + 63) / 64)
	// An addition for each feature of the table or, after picking the bytes from the row's vectors of 64, for each
	// chosen feature.
	best, cost := wayAll, width
	if some := chosen + 10*vectors + 2; some < cost {
		best, cost = wayChosen, some
	}

	// With waySparse, only rows outside a feature's most frequent bin are added, but finding these takes time, too.
	rest := 0.0
	for _, f := range features {
		rest += 1 - frequent.share[f]
	}
	if 2*rest+14*vectors+16 < cost {
		best = waySparse
	}

	return best
}
