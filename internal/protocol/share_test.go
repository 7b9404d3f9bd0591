package protocol

import (
	"hash/maphash"
	"time"
)

// The world of tasks that share trials: three tasks, two trials, a bucket, and faults.
const (
	tasksHere  = 3
	trialsHere = 2
	claimsHere = 6 // of a trial, at most

	ticksTakeover = 2 // a tick is a heartbeat
	deathsHere    = 2

	// Past times are told apart only as far as the rules can tell them apart.
	longestBegan = 2
	longestSince = 5
)

// shared is a state of that world: the bucket, and the tasks. Every field is a byte.
type shared struct {
	trials    [trialsHere]sharedTrial
	tasks     [tasksHere]sharedTask
	faults    uint8 // still allowed
	cancelled bool

	// the trials, as bits, that have reserved a configuration, each after those before were decided otherwise
	taken [configsHere + 1]uint8
}

type sharedTrial struct {
	made    uint8
	claims  [claimsHere]sharedClaim
	result  bool
	full    bool  // a checkpoint of it holds something
	accepts uint8 // tasks that were told that they wrote the result

	decision uint8 // the configuration decided on; 0 before
	trained  uint8 // the configuration it was trained with

	// Where trials may be paused.
	rungs    [rungsHere]Standing // what was found at each
	paused   [rungsHere]bool     // marked
	verdicts [rungsHere]Standing // on the pause there
	kept     uint8               // the last rung in its checkpoint
}

type sharedClaim struct {
	owner    uint8
	living   bool // made by the owner's current attempt
	released bool
	saved    bool
	lost     bool  // its holder vanished, or never knew of it
	beat     uint8 // generation of its heartbeat
	beaten   uint8 // ticks ago; for a planted bug only
}

type sharedTask struct {
	doing  Op // of the search; Train while holding a claim, Stop at the end
	retry  bool
	paused bool

	// While searching.
	listing bool // the bucket was listed, the answer is on its way
	began   uint8
	ended   uint8 // how long ago the last listing ended
	idle    uint8 // how long before that the task became idle, +1; 0 is not yet
	pass    pass
	index   uint8
	seen    [trialsHere]sharedSighting
	list    [trialsHere]sharedListed

	// While holding a claim.
	trial, claim uint8
	beaten       bool // since the last tick
	suspect      bool // it was paused since it has had the claim
	finish       Op   // None while it trains
	why          Why

	// While settling what an open trial trains.
	settling Op
	proposal uint8
	refused  uint8 // bit set of proposals
	training uint8 // the configuration; 0 before that is settled

	// Where trials may be paused.
	begun    bool     // it has looked where its trial stands
	at       uint8    // the last rung that its training has passed
	climbing Op       // None between two rungs
	rung     uint8    // that it is about
	own      Standing // as compared by this task
	stopping bool     // it ends its trial without a model

	// Where the rest of the time may be kept: trials, as bits, that others had begun when this task found its own, and
	// those that end with that.
	late         bool
	others, ends uint8

	subject, mark uint8    // of a search: the trial, from 1, and the rung of a verdict
	verdict       Standing // to be written
}

type sharedSighting struct {
	known, released      bool
	claim, excused, beat uint8
	since                uint8 // how long before the last listing ended
}

type sharedListed struct {
	ended           bool
	claims, deaths  uint8
	last, beat      uint8
	released, saved bool
	beaten          uint8

	paused  uint8 // the rung of a pause without a verdict
	resumed bool
	reached uint8 // rungs that it has come to
}

// fault is a kind of fault.
type fault uint8

const (
	anyFault    fault = iota
	crash             // a task vanishes; Batch starts the next attempt
	lostAnswer        // a write is done and its answer never comes, or is late
	noAnswer          // the store does not answer
	notice            // a task is told to stop
	paused            // a task does nothing for any length of time, and then goes on
	slowListing       // a listing shows an old state
)

// sharing is the world, with or without a planted bug.
type sharing struct {
	tasks, trials int
	faults        uint8 // number of faults allowed
	only          fault // faults of this kind only; any is all kinds
	alike         bool  // all tasks start at the first trial, which makes them interchangeable
	fair          bool  // tasks keep their positions, so that they can take turns
	unsaved       bool  // no task saves, which halves the number of states
	open          bool  // what a trial trains is decided when it is claimed
	staged        bool  // the second trial may be claimed once the first has ended
	rungs         uint8 // at which trials may be paused
	inStep        bool  // all trials wait at a rung for all others
	cancels       bool  // the sweep may be cancelled
	late          bool  // a holder may find that the rest of the time is kept for the final training
	flaw          flaw
}

// may reports whether a fault of this kind may still happen.
func (m sharing) may(s *shared, kind fault) bool {
	return s.faults > 0 && (m.only == anyFault || m.only == kind)
}

// start returns the first state: all tasks begin, and nothing is in the bucket.
func (m sharing) start() (s shared) {
	for i := range s.tasks {
		if s.tasks[i].doing = LookForEnd; i >= m.tasks {
			s.tasks[i].doing = Stop // there is no such task
		}
	}
	for n := m.trials; n < trialsHere; n++ {
		s.trials[n].result = true
	}
	s.faults = m.faults
	m.settle(&s)
	return s
}

// task returns the parameters of the rules for task i.
func (m sharing) task(s *shared, i int) Task {
	attempt := 0
	if s.tasks[i].retry {
		attempt = 1
	}
	start := i * trialsHere / tasksHere
	if m.alike {
		start = 0
	}
	var stages []int
	team := 1
	if m.staged { // and trained by all tasks that have nothing else to do
		stages, team = []int{0, 1}, tasksHere
	}
	return Task{Attempt: attempt, Start: start, Heartbeat: time.Second, Takeover: ticksTakeover * time.Second,
		MaxDeaths: deathsHere, Stages: stages, Team: team}
}

// epoch is now; a task's clock may be far off.
var epoch = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

func clockOf(i int) time.Time { return epoch.Add(time.Duration(i-1) * 400 * time.Second) }

func ticks(n uint8) time.Duration { return time.Duration(n) * time.Second }

// age returns the ticks from one time to another, at most so many.
func age(from, to time.Time, most uint8) uint8 {
	return uint8(min(to.Sub(from)/time.Second, time.Duration(most)))
}

// search makes task i's Search from the bytes of the state, and returns when its last listing ended, too.
func (m sharing) search(s *shared, i int) (Search, time.Time) {
	t := &s.tasks[i]
	ended := clockOf(i).Add(-ticks(t.ended))
	q := Search{task: m.task(s, i), doing: t.doing, pass: t.pass, index: int(t.index), subject: int(t.subject) - 1,
		seen: make([]sighting, trialsHere)}
	if t.idle > 0 {
		q.idle = ended.Add(-ticks(t.idle - 1))
	}
	for n, v := range t.seen {
		if v.known {
			q.seen[n] = sighting{true, int(v.claim), int(v.excused), int64(v.beat), v.released,
				ended.Add(-ticks(v.since))}
		}
	}
	q.list = m.listed(t, ended)
	return q, ended
}

// listed makes the listing that task t uses from the bytes of the state.
func (m sharing) listed(t *sharedTask, ended time.Time) View {
	l := View{Began: ended.Add(-ticks(t.began)), Ended: ended, Trials: make([]Trial, trialsHere)}
	for n, v := range t.list {
		l.Trials[n] = Trial{Ended: v.ended, Made: int(v.claims), Deaths: int(v.deaths),
			Last:    Claim{Number: int(v.last), Beat: int64(v.beat), Released: v.released, Saved: v.saved},
			Paused:  v.paused > 0,
			Resumed: v.resumed}
	}
	return l
}

// look records in task i's listing what the bucket shows now.
func (m sharing) look(s *shared, i int) {
	for n, trial := range s.trials {
		var v Trial
		for c, claim := range trial.claims[:trial.made] {
			m.flaw.note(&v, Claim{Number: c, Beat: int64(claim.beat), Released: claim.released, Saved: claim.saved})
		}
		listed := sharedListed{ended: trial.result, claims: uint8(v.Made), deaths: uint8(v.Deaths),
			last: uint8(v.Last.Number), beat: uint8(v.Last.Beat), released: v.Last.Released, saved: v.Last.Saved}
		trial.listPauses(&listed)
		if m.flaw == leaseByOwnClock && v.Made > 0 {
			listed.beaten = trial.claims[v.Made-1].beaten
		}
		s.tasks[i].list[n] = listed
	}
}

// answer passes the outcome of an action to task i's Search, turns the Search that comes of it back into bytes, and
// returns the next action.
func (m sharing) answer(s *shared, i int, a Answer) Action {
	// Give the real machine the answer.
	t := &s.tasks[i]
	q, ended := m.search(s, i)
	if t.doing == List {
		ended = clockOf(i)
		a.View = m.listed(t, ended)
	}
	beaten := make([]time.Time, trialsHere)
	for n, v := range t.list {
		beaten[n] = epoch.Add(-ticks(v.beaten + t.ended))
	}
	q, do := m.flaw.search(q, a, beaten)

	// Back into bytes, with times only as far as they still matter.
	held := *t
	*t = sharedTask{doing: do.Do, retry: held.retry, pass: q.pass, index: uint8(q.index)}

	// It holds a trial, or has stopped.
	if do.Final() {
		if do.Do == Stop && do.Why != Broken {
			m.tidy(s)
		}
		t.trial, t.claim = uint8(do.Trial), uint8(do.Claim)
		t.suspect = held.suspect && do.Do == Train
		for n, of := range m.listed(&held, ended).Trials {
			if m.late && do.Do == Train && n != do.Trial {
				if of.Made > 0 && !of.Paused {
					t.others |= 1 << n
				}
				if m.flaw.endsToo(of) {
					t.ends |= 1 << n
				}
			}
		}
		return do
	}

	// It goes on searching.
	if do.Do == CreateVerdict {
		t.subject, t.mark, t.verdict = held.subject, held.mark, held.verdict
	}
	t.ended = age(ended, clockOf(i), longestBegan)
	if !q.idle.IsZero() {
		t.idle = age(q.idle, ended, longestSince) + 1
	}
	for n, v := range q.seen {
		if v.known {
			t.seen[n] = sharedSighting{true, v.released, uint8(v.claim), uint8(v.excused), uint8(v.beat),
				age(v.since, ended, longestSince)}
		}
	}

	// The listing matters only during the passes.
	if do.Do != LookForEnd && do.Do != List && do.Do != Wait && do.Do != Help {
		t.list, t.began = held.list, held.began
		for n, of := range q.list.Trials {
			if !of.Paused {
				t.list[n].paused = 0
			}
			t.list[n].resumed = of.Resumed
		}
	} else {
		t.pass, t.index = 0, 0
	}
	return do
}

// settle takes those steps that no other task can see, and gives states that differ in nothing that matters the same
// bytes: so there are fewer states.
func (m sharing) settle(s *shared) {
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.doing == LookForEnd {
			m.answer(s, i, Answer{Yes: s.cancelled})
		}
	}
	if m.alike && !m.fair {
		s.sort()
	}
	s.rename()
}

// tidy does what a task does when it leaves: it empties the checkpoints that are of no use any more.
func (m sharing) tidy(s *shared) {
	rules := Leaving{Over: s.cancelled && m.flaw != endedOnly}
	for n := range s.trials {
		of := &s.trials[n]
		of.full = of.full && !rules.Drops(Trial{Ended: of.result})
	}
}

// sort puts interchangeable tasks in a canonical order: by a hash of each task and of the claims that it owns.
func (s *shared) sort() {
	var keys [tasksHere]uint64
	for i := range s.tasks {
		keys[i] = maphash.Comparable(taskSeed, s.tasks[i])
	}
	for n := range s.trials {
		for c := range s.trials[n].claims[:s.trials[n].made] {
			claim := &s.trials[n].claims[c]
			keys[claim.owner] += uint64(n*claimsHere+c+1) * 0x9e3779b97f4a7c15
		}
	}

	// Sort by the keys, and change the owners of claims accordingly.
	var at [tasksHere]uint8 // new position of each task
	for i := range keys {
		for j := range keys {
			if keys[j] < keys[i] || keys[j] == keys[i] && j < i {
				at[i]++
			}
		}
	}
	was := s.tasks
	for i := range was {
		s.tasks[at[i]] = was[i]
	}
	for n := range s.trials {
		for c := range s.trials[n].claims[:s.trials[n].made] {
			claim := &s.trials[n].claims[c]
			claim.owner = at[claim.owner]
		}
	}
}

var taskSeed = maphash.MakeSeed()

// rename maps the generations of each heartbeat to the smallest numbers that keep them distinct, which is all that
// matters.
func (s *shared) rename() {
	for n := range s.trials {
		for c := range s.trials[n].claims[:s.trials[n].made] {
			// name gives a generation the next number, or the one that it has got before; 0 stays.
			var to [32]uint8
			last := uint8(0)
			name := func(g *uint8) {
				if *g == 0 {
					return
				}
				if to[*g] == 0 {
					last++
					to[*g] = last
				}
				*g = to[*g]
			}

			// The heartbeat itself, and what tasks have seen of it.
			name(&s.trials[n].claims[c].beat)
			for i := range s.tasks {
				t := &s.tasks[i]
				if t.seen[n].known && int(t.seen[n].claim) == c {
					name(&t.seen[n].beat)
				}
				if t.list[n].claims > 0 && int(t.list[n].last) == c {
					name(&t.list[n].beat)
				}
			}
		}
	}
}

// next calls visit with every state that may follow s: a task goes on, a fault happens, time passes, or the sweep is
// cancelled.
func (m sharing) next(s shared, visit func(step, shared, string)) {
	// What a task does, and what may happen to it.
	v := visitor{m, visit}
	for i := range s.tasks {
		t := &s.tasks[i]
		switch {
		case t.doing == Stop:
			continue
		case t.paused:
			then := s
			then.tasks[i].paused = false
			v.go_(i, "goes on", then, "")
			continue
		case t.doing == Train:
			v.hold(s, i)
		default:
			v.search(s, i)
		}
		v.faults(s, i)
	}

	// Time passes, or a person cancels the sweep.
	if s.mayTick() {
		v.go_(-1, "a heartbeat passes", m.tick(s), "")
	}
	if m.cancels && !m.fair && !s.cancelled {
		then := s
		then.cancelled = true
		v.go_(-1, "the sweep is cancelled", then, "")
	}
}

// mayTick reports whether time may pass: every holder that is not paused has sent a heartbeat, and no answer stays out
// forever.
func (s *shared) mayTick() bool {
	for _, t := range s.tasks {
		if t.paused || t.doing == Stop {
			continue
		}
		switch {
		case t.doing == Train && !t.beaten:
			return false
		case t.doing != Train && t.doing != Wait && t.doing != Help && !t.listing: // anything slower is a fault
			return false
		}
	}
	return true
}

// trained reports whether the holder of a trial is at work on it, and so takes others in.
func (s *shared) trained(n int) bool {
	of := s.trials[n]
	if of.made == 0 {
		return false
	}
	last := of.claims[of.made-1]
	t := s.tasks[last.owner]
	return last.living && t.doing == Train && int(t.trial) == n && !t.paused
}

// tick lets one heartbeat's time pass: holders have another heartbeat to send, and tasks that wait list again.
func (m sharing) tick(s shared) shared {
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.doing == Stop {
			continue
		}

		// A holder's next heartbeat is due; for the others the last listing is older, and waiting is over.
		t.beaten = false
		if t.doing == Train {
			continue
		}
		t.ended = min(t.ended+1, longestBegan)
		if t.listing {
			t.began = min(t.began+1, longestBegan)
		}
		if t.doing == Wait && !t.paused {
			t.doing = List
		}
		if t.doing == Help && !t.paused {
			m.answer(&s, i, Answer{Yes: s.trained(trialsHere - 1)})
		}
	}
	if m.flaw == leaseByOwnClock {
		for n := range s.trials {
			for c := range s.trials[n].claims {
				s.trials[n].claims[c].beaten = min(s.trials[n].claims[c].beaten+1, longestBegan)
			}
		}
	}
	return s
}
