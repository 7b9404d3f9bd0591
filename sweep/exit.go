package sweep

// Exit codes of launcher, task and aggregator: an interface, kept in this one place. The Batch lifecycle policy is built
// from it.
const (
	ExitOK        = 0
	ExitError     = 1  // something unexpected
	ExitUsage     = 2  // a wrong flag or argument
	ExitInput     = 3  // a spec, a table or a dataset that cannot be used; the message names the place
	ExitNotFound  = 4  // no such dataset, sweep, model or version
	ExitConflict  = 5  // it exists with other contents, or somebody else changed it meanwhile
	ExitSetup     = 6  // the environment is incomplete: a variable, credentials, the emulator
	ExitNoWinner  = 7  // the sweep ended without a winner, or was cancelled
	ExitBlocked   = 8  // tonight's table is not like those before: nothing is trained on it
	ExitTransient = 75 // EX_TEMPFAIL: try again; Batch does so with a task
	ExitInterrupt = 130
)

// ExitNotPromoted is a sweep whose winner did not become the champion; the message says why.
const ExitNotPromoted = 9

// Exit codes that Batch itself gives a task.
// Source: https://cloud.google.com/batch/docs/troubleshooting#reserved-exit-codes
const (
	BatchPreempted        = 50001
	BatchReportingTimeout = 50002
	BatchRebooted         = 50003
	BatchUnresponsive     = 50004
	BatchOverTime         = 50005
	BatchRecreated        = 50006
)

// Exit codes of a program that did not end by itself. A task that dies so may have met a machine without memory left; the
// trial that it held is not tried for ever (MaxClaims).
const (
	ExitCrash   = 2   // the Go runtime's, after a panic or out of memory; a wrong flag (ExitUsage) cannot be told from it
	ExitAborted = 134 // SIGABRT
	ExitKilled  = 137 // SIGKILL, by the kernel when memory is short
	// ExitTerminated is SIGTERM before the program listened to it: its machine was taken away in the first moments, or while a
	// script ran before it.
	ExitTerminated = 143
)

// MaxClaims is how many tasks may die over one trial before it counts as failed: a candidate that kills whoever trains it
// would otherwise use up a task's retries, and with them the Batch job. A claim that was released by a task that was told to
// go does not count, nor does one that left a checkpoint: machines vanish without notice, and the trial got further.
const MaxClaims = 5

// MaxTasksPerVM is Batch's own limit.
const MaxTasksPerVM = 20

// RetryableExitCodes are those after which the same task is worth another attempt. Who is interrupted in Batch is so because
// its machine goes: a job that is cancelled gives no task another attempt, whatever the policy says.
func RetryableExitCodes() []int32 {
	return []int32{ExitTransient, ExitCrash, ExitInterrupt, ExitAborted, ExitKilled, ExitTerminated, BatchPreempted, BatchReportingTimeout, BatchRebooted, BatchUnresponsive, BatchRecreated}
}
