package protocol

import "time"

// saveShare is how many times as long as a save has held the training up it then goes on: saving never takes more than a fiftieth.
const saveShare = 50

// Unsaved is how long a training may go on unsaved from its last save, or from its first tree where there was none. trained is how long
// it had trained by then, every how long it may go on at most, and took how long the last save held it up.
//
// The first tree is saved at once, and then as much may be lost as was trained before. So an attempt that lives for half a minute leaves
// most of it, and its end without a word does not count as a death of the trial.
func Unsaved(trained, every, took time.Duration) time.Duration {
	return max(min(every, trained), saveShare*took)
}
