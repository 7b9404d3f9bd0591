package gbt

import "coppice/internal/exact"

// Probability turns a raw score of a binary model, the log odds, into a probability, 1 / (1 + e^-raw). It is accurate
// to a few units in the last place and has the same bits on every machine. NaN stays NaN. The smallest result is
// 3e-308.
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
