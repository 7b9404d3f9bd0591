// Package protocol holds the rules by which tasks share the trials of a sweep and an aggregator ends it exactly once:
// claims, leases, takeover, release, giving up, ending, concluding. It is a set of state machines. Each says what to do
// next, and Run, the one driver of them all, has its caller do that to the bucket and passes the answer back:
//
//	Task.Begin    a task looks for a trial      until it holds one, or none is left for it
//	Settle.Begin  its holder                    until it is written what the trial trains
//	Climb.Begin   at a rung                     until it is written whether the trial continues
//	Pulse.Begin   with every heartbeat          until it is known whether to train on
//	Finish.Begin  when training has ended       until the result is written, or the claim given back
//	Ender.Begin   an aggregator                 until the sweep continues, or is concluded
//	Gate.Begin    before that                   until the version is the champion, or is not to be
//
// A machine reads no clock and does no I/O, and its rules exist nowhere else. So a test can walk through every order in
// which the actions of several tasks and the faults of a store can interleave (share_test.go), and what it proves
// holds for the code that worker and aggregator run.
package protocol

import (
	"errors"
	"time"
)

// Op is a kind of action.
type Op uint8

// What a machine may ask for. The answer to a question is Answer.Yes unless noted otherwise.
const (
	None Op = iota

	// Actions of a task that looks for a trial: Search.
	LookForEnd    // was the sweep cancelled, or its ending written?
	List          // the trials: Answer.View
	ReadClaim     // was claim Claim of Trial made by an earlier attempt of this task?
	ReadBeat      // read the generation of the claim's heartbeat: Answer.Beat
	CreateClaim   // create-only; was it created?
	LookForResult // has Trial got a result?
	GiveUp        // create-only, a failed result for Trial; the answer does not matter
	Wait          // for one heartbeat
	Help          // wait likewise, while training Trial with the holder of Claim; does this task take part?
	Train         // Trial is held under Claim; final
	Stop          // no trial for this task, Action.Why; final
	AskVerdict    // can it be decided what becomes of a paused trial? Answer.Trial; Action.Last
	CreateVerdict // create-only, record that for Trial; the answer does not matter: the one that is there binds

	// Actions of the holder of a claim on an open trial, before it trains: Settle.
	ReadDecision      // is it decided what Trial trains? Answer.Unreadable if the decision is damaged
	Propose           // a configuration that was not refused before; is there one?
	TakeConfiguration // create-only, reserve the proposed configuration for Trial; does Trial have it?
	CreateDecision    // create-only, record that Trial trains the proposed configuration; was it created?
	Settled           // Trial trains what its decision says; final

	// Actions of the holder of a claim at a rung, and before it trains: Climb.
	LookForPause // has an earlier holder come to a rung beyond which the trial may not go by itself? Answer.Rung
	// is it decided whether Trial passes the rung? Answer.Standing; Answer.Unreadable if the record is damaged
	ReadRung
	CompareTrial // with the others at the rung: Answer.Standing
	CreateRung   // create-only, record that; was it created?
	// what has become of Trial, paused at the rung? Answer.Standing; Answer.Unreadable if the verdict is damaged
	ReadVerdict
	Pause // leave Trial until a verdict comes; final
	Close // end Trial without a model: others are better; final

	// Actions of the holder of a claim: Pulse and Finish.
	Beat            // write the heartbeat
	LookForClaim    // does Claim exist?
	GoOn            // train on; final
	Abort           // stop training, Action.Why; final
	Upload          // write the files into the claim's own folder
	CreateResult    // create-only; was it created?
	EndOthers       // create-only, a result for each trial that Finish.EndsToo; the answer does not matter
	Publish         // tell the aggregator
	DropCheckpoints // empty the checkpoints of Trial
	MarkPaused      // create-only, show in listings that Trial is paused at its rung
	Release         // create-only, give Claim back
	SearchAgain     // done with the trial; final

	// Actions of an aggregator: Ender and Gate.
	LookForConclusion // does one exist? Then it stands
	ReadResults       // Answer.Results is the number of trials with a result
	LookForEnding     // does one exist? Then only the results that it names count
	LookForCancel     // was the sweep cancelled?
	AskAge            // has it reached its time limit?
	AskBudget         // is its budget spent?
	AskJob            // will its jobs run no more tasks?
	CreateEnding      // create-only, from the results read; was it created?
	ReadEnding        // the one that another aggregator has written
	Register          // pick the winner and register it as a version, or find the version registered before
	Decide            // run the gate on the champion
	CreateConclusion  // create-only; was it created?
	ReadConclusion    // the one that another aggregator has written
	Leave             // the sweep continues; final
	Concluded         // final

	LookForPromotion // has the version ever been the champion?
	ReadChampion     // which version is the champion? It may be this one meanwhile
	Compare          // is the version better than the champion?
	Promote          // make it the champion if the champion is still the one read; did it change?
	Decided          // Action.Why; final
)

// Why is the reason for which a machine stops.
type Why uint8

// The reasons.
const (
	NoReason       Why = iota // of what needs none
	Broken                    // the store did not answer
	Over                      // the sweep was cancelled or its ending was written
	AllEnded                  // every trial has a result
	LivingHands               // the remaining trials are held by live tasks
	Superseded                // another task has taken the trial over
	EndedElsewhere            // another task has ended the trial
	ToldToGo                  // the machine is being taken away
	GivenUp                   // too many tasks have died on the trial
	Cancelled                 // of an ending: the sweep was cancelled
	AtLimit                   // it reached its time limit
	Spent                     // it reached its budget
	JobOver                   // its jobs have ended
	Before                    // of a gate: the version was promoted before
	NotBetter                 // the version is not better than the champion
	Promoted                  // now
	MovedByOthers             // others changed the champion too often
	Unreadable                // the champion's record or a trial's decision is damaged; retrying does not help
	NothingLeft               // the space has no other configuration to propose
	Paused                    // the trial waits at a rung
)

// Action is what a machine asks for.
type Action struct {
	Do           Op
	Trial, Claim int
	Why          Why
	Rung         int  // of a Climb: a number of trees; 0 before training
	Last         bool // for AskVerdict: every trial has ended or is paused, so none will come to a rung any more
}

// Final reports whether the machine has stopped.
func (a Action) Final() bool {
	switch a.Do {
	case Train, Stop, Settled, GoOn, Pause, Close, Abort, SearchAgain, Leave, Concluded, Decided:
		return true
	}
	return false
}

// Answer is the outcome of an action.
type Answer struct {
	Failed     bool // outcome unknown: the store did not answer
	Unreadable bool // for a Gate, a Settle or a Climb: the object is damaged, permanently
	Yes        bool
	Beat       int64
	View       View
	Full       bool // with a view: no memory is free for another trial
	Results    int  // the number of trials with a result
	Trial      int
	Rung       int // a number of trees
	Standing   Standing
}

// Machine is the state of a machine. Next takes the answer to its last action.
type Machine[M any] interface{ Next(a Answer) (M, Action) }

// Run drives a machine to its final action, which it returns. m and do are what the machine's Begin has returned, and
// act carries out every action but the final one. An error of act makes its answer one that failed. The error of Run
// joins those of all actions, also if the machine went on after them.
func Run[M Machine[M]](m M, do Action, act func(Action) (Answer, error)) (Action, error) {
	var failed error
	for !do.Final() {
		answer, err := act(do)
		if err != nil {
			answer.Failed = true
			failed = joined(failed, err)
		}
		m, do = m.Next(answer)
	}
	return do, failed
}

// joined is errors.Join, except that one error stays what it is.
func joined(errs, err error) error {
	if errs == nil {
		return err
	}
	return errors.Join(errs, err)
}

// Standing is what has been decided about a trial at a rung.
type Standing uint8

// The standings.
const (
	Undecided Standing = iota
	Continues          // it passes the rung
	Waits              // it is paused there until a verdict on it, which is Continues or Ends
	Ends               // it ends there
)

// View is the state of the trials according to names and generations of the sweep's objects. Each entry was true at
// some moment between Began and Ended, not all at the same one.
type View struct {
	Began, Ended time.Time
	Trials       []Trial
}

// Trial is what the rules see of one trial; its claims are accumulated by Note.
type Trial struct {
	Ended  bool  // it has a result, readable or not
	Made   int   // number of claims made
	Deaths int   // number of claims whose holders died on the trial, counting the last one as dead
	Last   Claim // the claim that holds the trial

	Paused bool // at a rung, without a verdict: not to be claimed
	// a verdict on its latest pause says what becomes of it: to be claimed before trials that have not begun
	Resumed bool
}

// Claim is what the rules see of one claim.
type Claim struct {
	Number   int
	Beat     int64 // generation of its heartbeat; 0 before the first
	Released bool  // given back by its holder
	// its holder got further than the previous claim: it wrote a checkpoint, which may have been emptied since
	Saved bool
}

// Note adds the trial's next claim; claims have to be added in ascending order. The claim counts as a death unless it
// was released or its holder has saved something. A holder that was told to stop releases its claim. One that vanished
// after it had made progress lost its machine, which is no fault of the trial.
func (t *Trial) Note(c Claim) {
	t.Made++
	t.Last = c
	if !c.Released && !c.Saved {
		t.Deaths++
	}
}

// begun reports whether a task holds the trial, or another has to go on with it.
func (t Trial) begun() bool { return t.Made > 0 && !t.Ended && !t.Paused }

// Free reports whether no task holds the trial, since it was never claimed or its last claim was released.
func (t Trial) Free() bool { return t.Made == 0 || t.Last.Released }

// Next returns the number of the trial's next claim.
func (t Trial) Next() int {
	if t.Made == 0 {
		return 0
	}
	return t.Last.Number + 1
}
