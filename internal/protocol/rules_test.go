package protocol

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
)

// TestAgeIsTheStores: a sweep's age is taken by the store's clock, so that wrong clocks of other machines end none
// early and let none run much longer. An aggregator that has just started ends a sweep an hour after its limit at the
// latest.
//
// The clocks that would end a young sweep are wrong by more than the limit of ten minutes, but by less than that hour,
// ClocksApart: beyond it they are believed. Those that would keep an old one going may be wrong by any time.
func TestAgeIsTheStores(t *testing.T) {
	const limit = 10 * time.Minute
	for _, tc := range []struct {
		name                 string
		lasted, watched      time.Duration // until the newest object, and since then
		launcher, aggregator time.Duration // errors of their clocks
		reached              bool
	}{
		{"young", time.Minute, 0, 0, 0, false},
		{"young, the launcher's clock is behind", time.Minute, 0, -24 * time.Minute, 0, false},
		{"young, the aggregator's clock is ahead", time.Minute, 0, 0, 40 * time.Minute, false},
		{"old", limit, 0, 0, 0, true},
		{"old, the launcher's clock is ahead", limit, 0, 400 * time.Second, 0, true},
		{"old, the aggregator's clock is behind", limit, 0, 0, -24 * time.Hour, true},
		{"nothing is written any more", 4 * time.Minute, 6 * time.Minute, 0, 0, true},
		{"nothing was ever written", 0, limit, 0, 0, true},
	} {
		a := Age{Planned: epoch, Latest: epoch.Add(tc.lasted), Watched: tc.watched, Created: epoch.Add(tc.launcher),
			Now: epoch.Add(tc.lasted + tc.watched + tc.aggregator)}
		must.Equal(t, a.Reached(limit), tc.reached, "%s: reached the limit", tc.name)
	}

	late := Age{Planned: epoch, Latest: epoch, Created: epoch, Now: epoch.Add(limit + ClocksApart)}
	if !late.Reached(limit) {
		t.Errorf("an aggregator that has just begun to watch did not end a sweep %s after its limit, want it to",
			ClocksApart)
	}
}

// TestUnsaved: a training may go unsaved for a tenth of the time that it had trained at its last save, and for a minute
// at most, which this test sets. If saving takes so long that 50 times that, or in the first minute 12 times that, is
// more, it goes unsaved for that.
func TestUnsaved(t *testing.T) {
	for _, tc := range []struct{ trained, took, want time.Duration }{
		{0, 0, 0},
		{0, 100 * time.Millisecond, 1200 * time.Millisecond},        // 12 times the save
		{10 * time.Second, 0, time.Second},                          // a tenth
		{30 * time.Second, 100 * time.Millisecond, 3 * time.Second}, // a tenth; 12 times the save are 1.2 s
		{time.Minute, 200 * time.Millisecond, 10 * time.Second},     // 50 times the save; a tenth is 6 s
		{time.Hour, 0, time.Minute},                                 // a minute at most; a tenth is 6 min
		{time.Hour, 2 * time.Second, 100 * time.Second},             // 50 times the save, despite the minute
	} {
		if got := Unsaved(tc.trained, time.Minute, tc.took); got != tc.want {
			t.Errorf("after %s of training and a save of %s: %s unsaved, want %s", tc.trained, tc.took, got, tc.want)
		}
	}
}

// TestALossEveryHalfMinuteCostsLittle: on a machine that vanishes without notice every 30 seconds, ten trials of a
// minute come to their ends, one after the other. Less than a tenth of the trees are grown twice, and it takes at most
// 1.35 times as long as on a machine that lives. The simulation has fast and slow trees, and near and far stores. An
// attempt takes a second to start, and a twentieth of the saved trees' time to replay them.
func TestALossEveryHalfMinuteCostsLittle(t *testing.T) {
	const life, calm, trial, start = 30 * time.Second, 10 * time.Minute, time.Minute, time.Second
	for _, tree := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
		time.Second} {
		for _, took := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 150 * time.Millisecond} {
			// The time spent, the time of the trees grown, and the time left until the machine vanishes.
			var spent, grown, left time.Duration
			for range calm / trial {
				saved := time.Duration(0)
				for saved < trial {
					// An attempt, on this machine or its replacement.
					if left <= 0 {
						left = life
						spent, left = spent+start, left-start
					}
					replay := saved / 20
					spent, left = spent+replay, left-replay

					// How much of the trial is done, and when in this attempt the first tree and the last save came.
					done, began, last := saved, time.Duration(0), time.Duration(0)
					now := time.Duration(0) // training time in this attempt
					for done < trial && left > 0 {
						spent, left, now, grown, done = spent+tree, left-tree, now+tree, grown+tree, done+tree
						if began == 0 {
							began, last = now, now
						}
						if left > took && (saved == 0 || now-last >= Unsaved(last-began, time.Minute, took)) {
							spent, left, now = spent+took, left-took, now+took
							saved, last = done, now
						}
					}
					if done >= trial && left > 0 {
						saved = done
					}
				}
				if spent > 10*calm {
					t.Fatalf("trees of %s, saves of %s: a trial does not come to its end", tree, took)
				}
			}

			longer, twice := spent.Seconds()/calm.Seconds(), (grown-calm).Seconds()/calm.Seconds()
			t.Logf("trees of %s, saves of %s: %.2f times as long, %.1f %% of the trees grown twice", tree, took, longer,
				100*twice)
			if longer > 1.35 || twice >= 0.1 {
				t.Errorf("trees of %s, saves of %s: %.2f times as long, %.1f %% of the trees grown twice; want 1.35 "+
					"and 10 %% at most", tree, took, longer, 100*twice)
			}
		}
	}
}

// TestIdleTasksLeave: a task that finds one trial held by a living task and two paused ones leaves after the takeover
// time, since the living task can take these up. It stays if the trials at a rung wait for each other, since then
// several go on at once.
func TestIdleTasksLeave(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, together := range []bool{false, true} {
		task := Task{Heartbeat: time.Second, Takeover: time.Minute, MaxDeaths: 5, Together: together}
		// Drive the task for an hour, a quarter of a second with each action.
		s, do := task.Begin()
		waited := time.Duration(0)
		for ; waited < time.Hour && !do.Final(); waited += time.Second / 4 {
			var a Answer
			switch do.Do {
			case List: // a living holder, two paused trials
				now := began.Add(waited)
				a.View = View{Began: now, Ended: now, Trials: []Trial{
					{Made: 1, Last: Claim{Beat: 1 + int64(waited/time.Second)}},
					{Made: 1, Paused: true, Last: Claim{Released: true}},
					{Made: 1, Paused: true, Last: Claim{Released: true}}}}
			case ReadBeat:
				a.Beat = int64(waited / time.Second)
			}
			s, do = s.Next(a)
		}
		if left := do.Final(); left == together || left && do.Why != LivingHands {
			t.Errorf("trials at a rung wait for each other %t: after %s the task has left %t, because %v; want it "+
				"to leave %t, for the hands that live", together, waited, left, do.Why, !together)
		}
	}
}

// TestALaterStageComesToNoRung: the question for a verdict on paused trials says that no other trial will come to a
// rung, if all trials of their stage have ended or are paused. Trials of later stages, such as the final training, do
// not count.
func TestALaterStageComesToNoRung(t *testing.T) {
	at := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		stages []int
		trials []Trial
		want   bool
	}{
		"all paused, one to come":        {[]int{0, 0, 1}, []Trial{{Paused: true}, {Paused: true}, {}}, true},
		"one is trained":                 {[]int{0, 0, 1}, []Trial{{Paused: true}, {Made: 1}, {}}, false},
		"no stages, one has not begun":   {nil, []Trial{{Paused: true}, {Paused: true}, {}}, false},
		"the earlier stage has ended":    {[]int{0, 0, 1}, []Trial{{Ended: true}, {Ended: true}, {Paused: true}}, true},
		"one paused, two to come":        {[]int{0, 0, 1}, []Trial{{Paused: true}, {}, {}}, false},
		"two later stages, both to come": {[]int{0, 1, 2}, []Trial{{Paused: true}, {}, {}}, true},
	} {
		s, _ := Task{Heartbeat: time.Second, Takeover: time.Minute, MaxDeaths: 5, Stages: tc.stages}.Begin()
		s, _ = s.Next(Answer{}) // the sweep has not ended, so the task asks for a listing
		_, do := s.Next(Answer{View: View{Began: at, Ended: at, Trials: tc.trials}})
		if do.Do != AskVerdict || do.Last != tc.want {
			t.Errorf("%s: a listing led to %+v; expected to ask for a verdict, last: %t", name, do, tc.want)
		}
	}
}

// model is a world of machines and what lies between them, as a graph of states.
type model[S comparable] interface {
	start() S
	// next calls visit with every state that may follow s, and with a description of what is wrong with it, or an empty
	// string.
	next(s S, visit func(by step, then S, wrong string))
}

// step is one move in a world, for traces.
type step struct {
	who  int8
	what string
}

func (s step) String() string {
	if s.who < 0 {
		return s.what
	}
	return fmt.Sprintf("%d %s", s.who, s.what)
}

// found is the result of an exploration.
type found struct {
	states, steps int
	took          time.Duration
	wrong         string
	trace         []string // a shortest path to the error
}

// explore walks through the states of a world, breadth first, until it finds an error, or has seen all states or limit
// of them. Breadth first, the trace to an error is a shortest one. sample, which may be nil, is called with one in
// every states and describes what is wrong with it.
func explore[S comparable](m model[S], limit, every int, sample func(S) string) (f found) {
	begin := time.Now()
	defer func() { f.took = time.Since(begin) }()

	// Only 128 bits of a seen state are kept, with its predecessor.
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	type key [2]uint64
	keyOf := func(s S) key { return key{maphash.Comparable(seeds[0], s), maphash.Comparable(seeds[1], s)} }

	// ways has, for every seen state in the order of discovery, the step that led to it first, and from which state.
	type reached struct {
		from int32
		by   step
	}
	start := m.start()
	seen := make(map[key]struct{}, limit/4)
	seen[keyOf(start)] = struct{}{}
	ways := append(make([]reached, 0, limit/4), reached{from: -1})
	trace := func(at int32, last step) []string {
		out := []string{last.String()}
		for ; ways[at].from >= 0; at = ways[at].from {
			out = append([]string{ways[at].by.String()}, out...)
		}
		return out
	}

	// frontier has the states whose successors are still to be visited, and after those found from them.
	type open struct {
		state S
		index int32
	}
	frontier := []open{{start, 0}}
	for len(frontier) > 0 {
		var after []open
		for _, o := range frontier {
			m.next(o.state, func(by step, then S, wrong string) {
				f.steps++
				if f.wrong != "" {
					return
				}
				if wrong != "" {
					f.wrong, f.trace = wrong, trace(o.index, by)
					return
				}

				// A state that is new is kept, and checked if it is one of the sample.
				k := keyOf(then)
				if _, known := seen[k]; known {
					return
				}
				seen[k] = struct{}{}
				ways = append(ways, reached{o.index, by})
				after = append(after, open{then, int32(len(ways) - 1)})

				if sample != nil && len(ways)%every == 0 {
					if wrong := sample(then); wrong != "" {
						f.wrong, f.trace = wrong, trace(o.index, by)
					}
				}
			})
			f.states = len(ways)
			if f.wrong != "" || f.states >= limit {
				return f
			}
		}
		frontier = after
	}
	return f
}

func (f found) String() string {
	return fmt.Sprintf("%d states, %d steps, %s: %s\n\t%s", f.states, f.steps, f.took.Round(time.Millisecond), f.wrong,
		strings.Join(f.trace, "\n\t"))
}

// The world of aggregators that conclude one sweep: two of them, a bucket, a registry, and a person who changes the
// champion.
const (
	endersHere = 2
	allResults = 1<<trialsHere - 1
)

// ended is a state of that world. Every field is a byte.
type ended struct {
	results   uint8 // bit set of trials with a result
	cancelled bool
	late      bool // the time limit was reached
	idle      bool // its jobs have ended

	ending    sharedEnding
	versions  uint8 // versions registered from the sweep
	winner    sharedEnding
	champion  uint8 // 1 is the old one, 2 a person's, 3 the sweep's
	told      uint8 // aggregators that were told that they wrote the conclusion
	concluded bool

	lost    bool  // the file of an ensemble's second trial is damaged
	members uint8 // of the registered ensemble
	enders  [endersHere]sharedEnder
	crashes uint8 // still allowed
}

// sharedEnding is the set of results that a sweep is concluded from.
type sharedEnding struct {
	there   bool
	results uint8
	why     Why
}

type sharedEnder struct {
	doing, gate  Op
	why          Why
	ended        uint8
	job          bool
	known        uint8 // results read
	ending       sharedEnding
	read, judged uint8 // champion read, and champion compared with
	lost         uint8
	members      uint8 // of the ensemble that it has merged; 0 before
}

type ending struct {
	flaw flaw
	// the version merges two trials, and the file of one of them may be damaged, instead of the sweep being cancelled
	// or of a person changing the champion
	merges bool
}

// start returns the first state: no trial has ended, and both aggregators begin to look.
func (m ending) start() (s ended) {
	s.champion, s.crashes = 1, 1
	for i := range s.enders {
		s.enders[i].doing = LookForConclusion
	}
	return s
}

// ender makes aggregator i's Ender from the bytes of the state.
func (m ending) ender(s *ended, i int) Ender {
	e := s.enders[i]
	return Ender{Trials: trialsHere, doing: e.doing, ended: int(e.ended), job: e.job}
}

// next calls visit with every state that may follow s: the environment moves, or an aggregator goes on, is told or
// crashes.
func (m ending) next(s ended, visit func(step, ended, string)) {
	// The environment's moves: tasks, the launcher, time, Batch, a person.
	for n := range trialsHere {
		if then := s; s.results&(1<<n) == 0 {
			then.results |= 1 << n
			visit(step{-1, "a trial ends"}, then, "")
		}
	}
	then := s
	then.late = true
	visit(step{-1, "the limit has come"}, then, "")
	then = s
	then.idle = true
	visit(step{-1, "the jobs have ended"}, then, "")
	if !m.merges {
		then = s
		then.cancelled = true
		visit(step{-1, "the sweep is cancelled"}, then, "")
	}
	if m.merges {
		then = s
		then.lost = true
		visit(step{-1, "a trial's file is damaged"}, then, "")
	} else if s.champion == 1 {
		then = s
		then.champion = 2
		visit(step{-1, "a person moves the champion"}, then, "")
	}

	for i := range s.enders {
		e := s.enders[i]
		if e.doing == Concluded || e.doing == Leave {
			then := s // a message, the same one redelivered, or the next periodic check
			then.enders[i] = sharedEnder{doing: LookForConclusion}
			visit(step{int8(i), "is told"}, then, "")
			continue
		}
		if s.crashes > 0 {
			then := s
			then.crashes--
			then.enders[i] = sharedEnder{doing: LookForConclusion}
			visit(step{int8(i), "crashes"}, then, "")
		}
		if e.gate != None {
			m.gate(s, i, visit)
			continue
		}
		m.end(s, i, visit)
	}
}

// end visits the states that follow when aggregator i carries out what its Ender asks for.
func (m ending) end(s ended, i int, visit func(step, ended, string)) {
	e := &s.enders[i]
	machine := m.ender(&s, i)
	var a Answer
	what, wrong := "looks", ""
	lost := s // the same with a lost answer

	switch e.doing {
	case LookForConclusion:
		a.Yes = s.concluded
	case ReadResults:
		e.known = s.results
		what, a.Results = "reads the results", count(s.results)
	case LookForEnding, ReadEnding:
		what, a.Yes = "reads the ending", s.ending.there
		if s.ending.there {
			e.ending = s.ending
		}
	case LookForCancel:
		a.Yes = s.cancelled
	case AskAge:
		a.Yes = s.late
	case AskBudget:
	case AskJob:
		a.Yes = s.idle

	case CreateEnding:
		what = "writes the ending"
		e.ending = sharedEnding{true, e.known, e.why}
		if a.Yes = !s.ending.there; a.Yes {
			s.ending = e.ending
		}
		if e.why == AllEnded && e.known != allResults {
			wrong = "a sweep is said to have ended that waits for a trial"
		}

	case Register, registerAnew:
		if m.merges && e.members == 0 {
			if e.members = 2; s.lost {
				e.members = 1
			}
			visit(step{int8(i), "merges what it can read"}, s, "")
			return
		}
		what = "registers"
		a.Yes = e.ending.why != Cancelled
		switch {
		case !a.Yes:
		case s.versions == 0:
			s.versions, s.winner, s.members = 1, e.ending, e.members
		case e.doing == registerAnew:
			s.versions, wrong = 2, "a sweep has two versions"
		}
		if e.ending != s.ending || a.Yes && e.ending != s.winner {
			wrong = "two aggregators conclude a sweep from different results"
		}
		if a.Yes && m.flaw != membersUnread {
			e.members = s.members // the version's record, where it is not the one that this aggregator would have made
		}

	case Decide:
		e.gate = LookForPromotion
		visit(step{int8(i), "begins to decide"}, s, "")
		return

	case CreateConclusion:
		what = "writes the conclusion"
		if a.Yes = !s.concluded; a.Yes {
			s.told++
		}
		s.concluded = true
		if e.ending.why != Cancelled && s.versions == 0 {
			wrong = "a conclusion names a version that is not there"
		}
		if a.Yes && e.members != s.members {
			wrong = "a conclusion names other trials than the ensemble that is registered"
		}

	case ReadConclusion:
	}
	if s.told > 1 {
		wrong = "a sweep was concluded twice"
	}

	machine, do := m.flaw.ender(machine, a)
	e.doing, e.why, e.ended, e.job = do.Do, do.Why, uint8(machine.ended), machine.job
	visit(step{int8(i), what}, s, wrong)

	// done, but not answered
	if lost.crashes > 0 && (what == "writes the ending" || what == "writes the conclusion") && a.Yes {
		s.crashes--
		s.enders[i] = sharedEnder{doing: Leave}
		visit(step{int8(i), what + ", and no answer comes"}, s, wrong)
	}
}

// gate visits the state that follows when aggregator i carries out what its Gate asks for.
func (m ending) gate(s ended, i int, visit func(step, ended, string)) {
	e := &s.enders[i]
	g := Gate{Moves: 3, doing: e.gate, lost: int(e.lost)}
	var a Answer
	what, wrong := "looks at the history", ""

	switch e.gate {
	case LookForPromotion:
		a.Yes = s.champion == 3
	case ReadChampion:
		what = "reads the champion"
		e.read, a.Yes = s.champion, s.champion == 3
	case Compare:
		what = "compares"
		e.judged, a.Yes = e.read, e.read == 1
	case Promote, promoteAnyway:
		what = "moves the champion"
		if a.Yes = s.champion == e.read || e.gate == promoteAnyway; a.Yes {
			if e.judged != s.champion && s.champion != 3 {
				wrong = "a champion was replaced that the version was not compared with"
			}
			s.champion = 3
		}
	}

	g, do := m.flaw.gate(g, a)
	if e.gate, e.lost = do.Do, uint8(g.lost); !do.Final() {
		visit(step{int8(i), what}, s, wrong)
		return
	}

	_, do = m.flaw.ender(m.ender(&s, i), Answer{})
	e.doing, e.gate, e.read, e.judged, e.lost = do.Do, None, 0, 0, 0
	visit(step{int8(i), what}, s, wrong)
}

// comesToEnd follows the sweep from s on after all of its trials have ended, without crashes, and describes what is
// wrong if it is not concluded.
func (m ending) comesToEnd(s ended) string {
	s.crashes, s.results = 0, allResults
	for range fairRounds {
		for who := range endersHere {
			taken := false
			m.next(s, func(by step, then ended, _ string) {
				if int(by.who) == who && !taken {
					s, taken = then, true
				}
			})
		}
		if s.concluded {
			return ""
		}
	}
	return fmt.Sprintf("the sweep has no conclusion after %d rounds without faults", fairRounds)
}

// count returns the number of trials in a bit set.
func count(results uint8) (n int) {
	for ; results > 0; results >>= 1 {
		n += int(results & 1)
	}
	return n
}
