package gbt

// frequentBins holds each feature's most frequent bin. In a table of mostly zeros it is several times as fast to add
// only the other bins and to give the most frequent one the remainder of the total; integer sums come out the same.
type frequentBins struct {
	bin   []byte    // by feature, padded to whole vectors
	share []float64 // of the sampled rows in that bin
}

// frequentSample is how many rows, evenly spaced, decide which bin is the most frequent. It affects only speed.
const frequentSample = 2048

// findFrequentBins finds each feature's most frequent bin; of equal ones, the first.
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

// chooseWay estimates the cost of adding a row, in additions to a bin. The constants come from timing whole trainings
// with 28 and with 400 features; they affect only speed.
func chooseWay(d *Data, frequent *frequentBins, features []int) way {
	width := float64(len(d.Features))
	chosen := float64(len(features))

	// Without vector instructions, picking bytes pays only if it saves a third of them.
	if !canPickBytes() {
		if 3*chosen >= 2*width {
			return wayAll
		}
		return wayChosen
	}

	vectors := float64((len(d.Features) + 63) / 64)
	best, cost := wayAll, width
	if some := chosen + 10*vectors + 2; some < cost {
		best, cost = wayChosen, some
	}

	// The sparse way, only rows outside a feature's most frequent bin are added one by one.
	rest := 0.0
	for _, f := range features {
		rest += 1 - frequent.share[f]
	}
	if 2*rest+14*vectors+16 < cost {
		best = waySparse
	}

	return best
}
