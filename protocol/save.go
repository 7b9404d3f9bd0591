package protocol

import "time"

// A training goes on for so many times as long as a save has held it up: saving never takes more than a fiftieth of a long one, and of the
// first minute, which may be all that its machine has, a twelfth.
const (
	saveShare  = 50
	freshShare = 12
	fresh      = time.Minute
)

// lossShare is what part of its training an attempt may lose.
const lossShare = 10

// Unsaved is how long a training may go on unsaved from its last save, or from its first tree where there was none. trained is how long
// it had trained by then, every how long it may go on at most, and took how long the last save held it up.
//
// The first tree is saved at once, and then a tenth of what was trained before may be lost. So an attempt that lives for half a minute
// leaves nearly all of it, and its end without a word does not count as a death of the trial.
func Unsaved(trained, every, took time.Duration) time.Duration {
	share := int64(saveShare)
	if trained < fresh {
		share = freshShare
	}
	return max(min(every, trained/lossShare), time.Duration(share*int64(took)))
}
