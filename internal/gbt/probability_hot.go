package gbt

import "coppice/internal/exact"

// Probability turns a raw score of a binary model into a probability, 1 / (1 + e^-raw), accurate to a few units in the
// last place and with the same bits on every machine, by exact.Exp. NaN stays NaN; the smallest
// result is 3e-308.
func Probability(raw float64) float64 {
	if raw != raw {
		return raw
	}
	return 1 / (1 + exact.Exp(-raw))
}

func probabilitiesGo(scores []float64) {
	for i, s := range scores {
		scores[i] = Probability(s)
	}
}
