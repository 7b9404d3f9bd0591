// Package protocol is the rules by which tasks share the trials of a sweep and an aggregator ends it once: claims, leases,
// takeover, release, giving up, ending, concluding. It is a set of state machines. Each says what to do next, its caller does that
// to the bucket and tells it the answer:
//
//	state, action := machine.Begin()
//	for !action.Final() {
//		state, action = machine.Next(state, do(action))
//	}
//
// A machine reads no clock and does no I/O, and no rule of it is written a second time elsewhere. So a test walks through every
// order in which the actions of several tasks and the faults of a store can meet (explore_test.go), and what it has shown is true of
// what the worker and the aggregator run.
package protocol

import "time"

// Op is a kind of action.
type Op uint8

// What a machine may ask for. The answer of those that look or read is in Answer.Yes unless it says otherwise.
const (
	None Op = iota

	// A task that looks for a trial: Search.
	LookForEnd    // was the sweep cancelled, or its ending written?
	List          // the trials: Answer.Listing
	ReadClaim     // was claim Claim of Trial made by an earlier attempt of this task?
	ReadBeat      // the generation of the claim's heartbeat: Answer.Beat
	CreateClaim   // create-only; was it created?
	LookForResult // has Trial a result?
	GiveUp        // create-only, the failed result of Trial; its answer does not matter
	Wait          // one heartbeat
	Train         // Trial is held under Claim; final
	Stop          // there is nothing more to do, Action.Why; final

	// The holder of a claim of an open trial, before it trains: Settle.
	ReadDecision      // what Trial trains: is it decided? Answer.Unreadable where that is damaged
	Propose           // a configuration that was not refused before; is there one?
	TakeConfiguration // create-only, the proposed one for Trial; is it Trial's?
	CreateDecision    // create-only, that Trial trains the proposed one; was it created?
	Settled           // Trial trains what its decision says; final

	// The holder of a claim: Pulse and Finish.
	Beat            // rewrite the heartbeat
	LookForClaim    // was Claim made?
	GoOn            // the trial is still wanted from this task; final
	Abort           // it is not, Action.Why; final
	Upload          // the files, into the claim's own folder
	CreateResult    // create-only; was it created?
	Publish         // tell the aggregator
	DropCheckpoints // empty those of Trial
	Release         // create-only, the release of Claim
	SearchAgain     // the trial is done with; final
	overwriteResult // planted

	// An aggregator: Ender and Gate.
	LookForConclusion // is there one? It is then the sweep's
	ReadResults       // Answer.Results says how many trials have one
	LookForEnding     // is there one? The results that count are then those that it names
	LookForCancel     // was the sweep cancelled?
	AskAge            // is it as old as its limit?
	AskBudget         // is its budget spent?
	AskJob            // will its jobs run nothing any more?
	CreateEnding      // create-only, from the results that were read; was it created?
	ReadEnding        // the one that another has written
	Register          // pick the winner and make it a version, or the same version again
	Decide            // the gate: move the champion
	CreateConclusion  // create-only; was it created?
	ReadConclusion    // the one that another has written
	Leave             // the sweep goes on; final
	Concluded         // final
	registerAnew      // planted

	LookForPromotion // has the version been the champion?
	ReadChampion     // where the alias points
	Compare          // is the version better than that one?
	Promote          // move the champion if it is still where it was read; has it moved?
	Decided          // Action.Why; final
	promoteAnyway    // planted
)

// Why says why a machine stops.
type Why uint8

// The reasons.
const (
	Unknown        Why = iota
	Broken             // the store did not answer
	Over               // the sweep was cancelled or has its ending
	AllEnded           // every trial has a result
	LivingHands        // the remaining trials are held by tasks that live
	Superseded         // another task has taken the trial over
	EndedElsewhere     // another task has ended the trial
	ToldToGo           // the machine is being taken away
	GivenUp            // too many tasks have died over the trial
	Cancelled          // of an ending: the sweep was cancelled
	AtLimit            // it reached its time limit
	Spent              // it reached its budget
	JobOver            // its jobs have ended
	Before             // of a gate: the version has been promoted before
	NotBetter          // than the champion
	Promoted           // now
	MovedByOthers      // the champion, too often
	Unreadable         // the champion's record, or a trial's decision; no repetition makes it whole
	NothingLeft        // to propose: the space has no other configuration
)

// Action is what a machine asks for.
type Action struct {
	Do           Op
	Trial, Claim int
	Why          Why
}

// Final says that the machine has come to its end.
func (a Action) Final() bool {
	switch a.Do {
	case Train, Stop, Settled, GoOn, Abort, SearchAgain, Leave, Concluded, Decided:
		return true
	}
	return false
}

// Answer is what came of an action.
type Answer struct {
	Failed     bool // nobody knows: the store did not answer
	Unreadable bool // of a Gate or a Settle: what is there is damaged, and will be the next time
	Yes        bool
	Beat       int64
	Listing    Listing
	Full       bool // with a listing: the machine has no memory for another trial
	Results    int  // how many trials have one
}

// Listing is what the names and generations of a sweep's objects say of its trials. Each was so at some moment from Began to Ended,
// not at the same one.
type Listing struct {
	Began, Ended time.Time
	Trials       []Trial
}

// Trial is a trial in a listing, as Note has put it together.
type Trial struct {
	Ended  bool  // it has a result, readable or not
	Claims int   // how many were made
	Deaths int   // how many of their holders count as dead of the trial, should the last one be
	Last   Claim // holds the trial
}

// Claim is a claim in a listing.
type Claim struct {
	Number   int
	Beat     int64 // generation of its heartbeat; 0 before the first
	Released bool  // its holder has given it back
	Saved    bool  // its holder got further than the one before: there was a checkpoint

	beaten time.Time // by the store's clock, for a planted bug: no rule goes by it, since clocks need not agree
}

// Note takes down a claim of the trial; they come in ascending order. A holder that was told to go and gave its claim back did not
// die of the trial, nor did one that vanished after it had got further than the one before: machines are taken away. Dead of the trial
// is who got nowhere and said nothing.
func (t *Trial) Note(c Claim) { t.note(c, sound) }

func (t *Trial) note(c Claim, f flaw) {
	t.Claims++
	t.Last = c
	if !c.Released && !c.Saved || f == retryIsAttempt {
		t.Deaths++
	}
}

// Free says that no task holds the trial: it was never claimed, or given back.
func (t Trial) Free() bool { return t.Claims == 0 || t.Last.Released }

// Next is the number of the claim that would take the trial.
func (t Trial) Next() int {
	if t.Claims == 0 {
		return 0
	}
	return t.Last.Number + 1
}
