package protocol

// flaw is a bug that a test plants in a machine to see that the explorer finds it. The zero value is none; only this
// package's tests can set another.
type flaw uint8

const (
	sound flaw = iota

	noWriteID        // whether an object is one's own is judged by the store's answer to the write
	leaseByOwnClock  // a holder is dead when its heartbeat's time is old by the watcher's clock
	silenceFromBegan // a holder's silence is counted from the beginning of the listing that showed its last sign
	takeoverUnread   // the heartbeat is not read once more before the claim
	listingIsTruth   // a trial without a result in the listing is trained without a second look
	resultUnfenced   // a result overwrites an existing one
	ackBeforeWrite   // the trial's end is published before its result is written
	deleteBeforeCopy // checkpoints are dropped before the result is written
	retryIsAttempt   // every claim counts as a death
	resumedZombie    // a holder does not check whether another task has taken its trial
	beatOrNothing    // a holder whose heartbeat failed checks nothing until the next one
	doubleFold       // a result that is read twice counts twice
	endingUnread     // an aggregator that loses the creation of the ending uses its own
	conclusionFirst  // the conclusion is written before the version
	registerTwice    // each attempt registers a new version
	staleChampion    // the champion is replaced whichever version it is by now
	staleComparison  // after a conflict, the champion is replaced without another comparison
	decisionUnread   // a task that loses the creation of a decision trains its own proposal
	decideAnew       // a task that takes a trial over decides again
	takenUnasked     // a configuration is decided on without being reserved
	trainedUnwritten // a trial is trained before its decision is written
	stageUnread      // a trial is claimed before those of earlier stages have ended
	pauseUnread      // a holder trains on without looking whether the trial was paused
	rungUnread       // a holder that loses the creation of a rung follows its own comparison
	verdictOfAnother // a verdict on an earlier pause is taken for one on this
	closedUnwritten  // a paused trial is ended without a verdict
	lastUnread       // a trial that is held counts as one that comes to no rung any more
	haltUnread       // a holder trains on in a sweep that was paused
	haltIsOver       // a sweep that was paused ends because its jobs have
	releaseOfAnother // a task that fails releases the trial's last claim instead of its own
)
