package protocol

// flaw is a bug that a test plants into a machine, to see that the explorer finds it. The zero value is none, and nothing outside of
// this package's tests can set another.
type flaw uint8

const (
	sound flaw = iota

	noWriteID        // whether an object is one's own goes by what the store says of the write
	leaseByOwnClock  // a holder is dead when the time of its heartbeat is long ago on the watcher's clock
	silenceFromBegan // a holder's silence is reckoned from the beginning of the listing that showed the last sign
	takeoverUnread   // the heartbeat is not looked at once more before the claim
	listingIsTruth   // a trial without result in the listing is trained
	resultUnfenced   // a result replaces the one that is there
	ackBeforeWrite   // the trial's end is told before its result is written
	deleteBeforeCopy // checkpoints are dropped before the result is written
	retryIsAttempt   // every claim counts as a death
	resumedZombie    // a holder does not look whether another has taken its trial
	doubleFold       // a result that is read twice counts twice
	endingUnread     // who loses the creation of the ending goes by its own
	conclusionFirst  // the conclusion is written before the version
	registerTwice    // a version is made anew each time
	staleChampion    // the champion is moved wherever it points by now
	staleComparison  // after a conflict, the champion is moved without another comparison
	decisionUnread   // who loses the creation of a decision trains its own proposal
	decideAnew       // who takes a trial over decides anew
	takenUnasked     // a configuration is not taken before it is decided on
	trainedUnwritten // a trial is trained before its decision is written
	stageUnread      // a trial is taken before those of earlier stages have ended
	releaseOfAnother // a task that fails gives back the trial's last claim, not its own
)
