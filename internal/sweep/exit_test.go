package sweep_test

import (
	"slices"
	"testing"

	"coppice/internal/sweep"
)

// TestAMachineThatGoesCostsAnAttempt: a task that is stopped from outside, however early, is tried again; a failure
// that would recur is not.
func TestAMachineThatGoesCostsAnAttempt(t *testing.T) {
	codes := sweep.RetryableExitCodes()
	for code, want := range map[int]bool{
		sweep.ExitTransient: true, sweep.ExitInterrupt: true, sweep.ExitTerminated: true, sweep.ExitKilled: true,
		sweep.ExitOK: false, sweep.ExitError: false, sweep.ExitInput: false, sweep.ExitSetup: false,
	} {
		if got := slices.Contains(codes, int32(code)); got != want {
			t.Errorf("exit code %d is tried again: %t, want %t", code, got, want)
		}
	}
}
