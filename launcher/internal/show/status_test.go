package show

import (
	"testing"

	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// TestJobOfAnEndedSweep: a concluded sweep's status does not make a forgotten job sound like a fault.
func TestJobOfAnEndedSweep(t *testing.T) {
	gone := provision.JobStatus{Name: "sweep-1", State: sweepview.JobMissing, Finished: true}
	for concluded, want := range map[bool]string{true: "no longer known to Batch, nor needed (sweep-1)",
		false: "not there (sweep-1)"} {
		if got := job(gone, concluded); got != want {
			t.Errorf("concluded: %v: the job is %q, expected %q", concluded, got, want)
		}
	}
}

// TestCountsLeaveOutZeros: what does not occur is not mentioned.
func TestCountsLeaveOutZeros(t *testing.T) {
	f := &sweepview.FoldCounts{Done: 1, Dropped: 1, Open: 2}
	if got, want := f.String(), "1 done, 1 dropped, 2 open"; got != want {
		t.Errorf("configurations in short: got %q, expected %q", got, want)
	}
}
