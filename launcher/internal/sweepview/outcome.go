package sweepview

import (
	"fmt"

	"coppice/internal/sweep"
)

// NotPromoted returns the error about a sweep whose winner did not become the champion. Its exit code tells whether the
// dataset was blocked.
func NotPromoted(c *sweep.Conclusion) error {
	code := sweep.ExitNotPromoted
	if c.Verdict() == sweep.VerdictBlocked {
		code = sweep.ExitBlocked
	}
	return &endedError{code, fmt.Sprintf("sweep %s: %s: %s", c.Sweep, c.Headline(), c.Why())}
}

// endedError is a sweep that has ended without a new champion. Schedulers read its exit code.
type endedError struct {
	code int
	text string
}

func (e *endedError) Error() string { return e.text }

// ExitStatus is the program's exit code for it.
func (e *endedError) ExitStatus() int { return e.code }

// NoWinner returns the error about a sweep that has ended without a winner. failure is what Batch says of its failed
// job, "" if it has not failed.
func NoWinner(c *sweep.Conclusion, failure string) error {
	text := fmt.Sprintf("sweep %s ended without a winner: %s", c.Sweep, c.Reason)
	if failure != "" {
		text += "\n" + failure + "\nThe last line of the task's log says why it failed: in Cloud Logging, in the " +
			"folder logs/ of the local cloud's data, or in that of COPPICE_SLURM_FOLDER."
	}
	return &endedError{sweep.ExitNoWinner, text}
}
