package sweep

// Exit codes of launcher, task and aggregator. They are an interface, defined only here. The Batch lifecycle policy is
// derived from them.
const (
	ExitOK       = 0
	ExitError    = 1 // something unexpected
	ExitUsage    = 2 // a wrong flag or argument
	ExitInput    = 3 // a spec, a table or a dataset that cannot be used; the message names the place
	ExitNotFound = 4 // no such dataset, sweep, model or version
	ExitConflict = 5 // it exists with other contents, or was changed concurrently
	ExitSetup    = 6 // the environment is incomplete: a variable, credentials, the emulator
	ExitNoWinner = 7 // the sweep ended without a winner, or was cancelled
	ExitBlocked  = 8 // tonight's table deviates from earlier ones: nothing is trained on it
	// a sweep whose winner did not become the champion; the message says why
	ExitNotPromoted = 9
	ExitTransient   = 75 // EX_TEMPFAIL: retry; Batch retries such a task
	ExitInterrupt   = 130
)

// Exit codes of a program that did not exit by itself. The machine may have been out of memory; the trial that such a
// task held is not retried forever (MaxClaims).
const (
	// the Go runtime's, after a panic or out of memory; indistinguishable from a wrong flag (ExitUsage)
	ExitCrash   = 2
	ExitAborted = 134 // SIGABRT
	ExitKilled  = 137 // SIGKILL, by the kernel when out of memory
	// ExitTerminated is SIGTERM before the program could handle it: its machine was taken away in the first moments, or
	// while an earlier script was running.
	ExitTerminated = 143
)

// MaxClaims is how many tasks may die on one trial before it counts as failed: otherwise a trial that kills its tasks
// would use up the retries of each, and with them the Batch job. A claim released by a task that was told to stop does
// not count, nor does one that left a checkpoint: machines vanish without notice, and the trial made progress.
const MaxClaims = 5

// RetryableExitCodes lists those after which the same task is worth another attempt. An interruption means that the
// machine is going away: a cancelled job gives no task another attempt, whatever the policy. Batch has codes of its own
// beside them.
func RetryableExitCodes() []int32 {
	return []int32{ExitTransient, ExitCrash, ExitInterrupt, ExitAborted, ExitKilled, ExitTerminated}
}
