package report

import (
	"testing"
	"time"

	"coppice/internal/page"
	"coppice/internal/sweep"
)

// TestAMeanIsKnownWithItsLastFold: in the plots over time a configuration stands where its mean was known.
func TestAMeanIsKnownWithItsLastFold(t *testing.T) {
	at := func(minutes int) time.Time { return time.Date(2026, 11, 21, 3, minutes, 0, 0, time.UTC) }
	trials := []page.TrialRow{{Number: 0, Ended: at(1)}, {Number: 1, Ended: at(5)}, {Number: 2, Ended: at(2)}}
	mean := 0.7
	configurations(trials,
		sweep.Board{Configurations: []sweep.Rated{{State: sweep.ConfigurationDone, Trials: []int{0, 1, 2},
			Scores: make([]*float64, 3), Mean: &mean}}}, &params{})
	if want := at(5); trials[0].Score != mean || !trials[0].Known.Equal(want) {
		t.Errorf("the mean %v is known at %v, expected %v at %v", trials[0].Score, trials[0].Known, mean, want)
	}
}
