package sweep_test

import (
	"slices"
	"testing"

	"coppice/sweep"
)

// TestAMachineThatGoesCostsAnAttempt: however early a task is told to go, or whatever tells it, it is tried again; what will be as
// wrong the next time is not.
func TestAMachineThatGoesCostsAnAttempt(t *testing.T) {
	codes := sweep.RetryableExitCodes()
	for code, want := range map[int]bool{
		sweep.ExitTransient: true, sweep.ExitInterrupt: true, sweep.ExitTerminated: true, sweep.ExitKilled: true, sweep.BatchPreempted: true,
		sweep.ExitOK: false, sweep.ExitError: false, sweep.ExitInput: false, sweep.ExitSetup: false, sweep.BatchOverTime: false,
	} {
		if got := slices.Contains(codes, int32(code)); got != want {
			t.Errorf("exit code %d is tried again: %t, want %t", code, got, want)
		}
	}
}
