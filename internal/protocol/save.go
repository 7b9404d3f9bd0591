package protocol

import "time"

// Training goes on for at least this many times the duration of the last save. So saving takes at most a fiftieth of a
// long training, and a twelfth of its first minute, which may be all that its machine gets.
const (
	saveShare  = 50
	freshShare = 12
	fresh      = time.Minute
)

// lossShare is the inverse of the share of its training that an attempt may lose.
const lossShare = 10

// Unsaved returns how long a training may go on since its last save, or since its first tree if there was none. trained
// is how long it had trained by then, every the most it may go unsaved, and took the duration of the last save.
//
// The first tree is saved at once; after that a tenth of the training so far may be lost. So an attempt that lives for
// half a minute keeps nearly all of its work, and losing it without notice does not count as a death of the trial.
func Unsaved(trained, every, took time.Duration) time.Duration {
	share := int64(saveShare)
	if trained < fresh {
		share = freshShare
	}
	return max(min(every, trained/lossShare), time.Duration(share*int64(took)))
}
