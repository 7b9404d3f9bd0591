package report

import (
	"math"
	"testing"

	"coppice/internal/page"
	"coppice/internal/sweep"
)

// TestAConfigurationHasItsMean: the first of its folds stands for it.
func TestAConfigurationHasItsMean(t *testing.T) {
	trials := []page.TrialRow{{Number: 0}, {Number: 1}, {Number: 2}}
	mean := 0.7
	configurations(trials,
		sweep.Board{Configurations: []sweep.Rated{{State: sweep.ConfigurationDone, Trials: []int{0, 1, 2},
			Scores: make([]*float64, 3), Mean: &mean}}}, &page.Differing{})
	if trials[0].Score != mean || !math.IsNaN(trials[1].Score) {
		t.Errorf("the scores are %v and %v, expected the mean %v and none", trials[0].Score, trials[1].Score, mean)
	}
}
