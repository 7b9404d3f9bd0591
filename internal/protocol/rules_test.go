package protocol

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
	"time"
)

// TestAgeIsTheStores: wrong clocks end no sweep early, and let none run much longer.
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
		if got := a.Reached(limit); got != tc.reached {
			t.Errorf("%s: reached the limit %t, want %t", tc.name, got, tc.reached)
		}
	}

	late := Age{Planned: epoch, Latest: epoch, Created: epoch, Now: epoch.Add(limit + ClocksApart)}
	if !late.Reached(limit) {
		t.Errorf("an aggregator that has just begun to watch did not end a sweep %s after its limit, want it to",
			ClocksApart)
	}
}

// TestUnsaved: a loss costs at most a tenth of the training before the last save, and saving is cheap.
func TestUnsaved(t *testing.T) {
	for _, tc := range []struct{ trained, took, want time.Duration }{
		{0, 0, 0}, {0, 100 * time.Millisecond, 1200 * time.Millisecond}, {10 * time.Second, 0, time.Second},
		{30 * time.Second, 100 * time.Millisecond, 3 * time.Second},
		{time.Minute, 200 * time.Millisecond, 10 * time.Second}, {time.Hour, 0, time.Minute},
		{time.Hour, 2 * time.Second, 100 * time.Second},
	} {
		if got := Unsaved(tc.trained, time.Minute, tc.took); got != tc.want {
			t.Errorf("after %s of training and a save of %s: %s unsaved, want %s", tc.trained, tc.took, got, tc.want)
		}
	}
}

// TestALossEveryHalfMinuteCostsLittle simulates ten minutes of one-minute trials, one after the other, on a machine
// that vanishes without notice every 30 s: with fast and slow trees, near and far stores, a startup of one second, and
// a twentieth of the saved trees' time to replay them. No trial gets stuck, less than a tenth of the trees are grown
// twice, and it takes at most 1.35 times as long.
func TestALossEveryHalfMinuteCostsLittle(t *testing.T) {
	const life, calm, trial, start = 30 * time.Second, 10 * time.Minute, time.Minute, time.Second
	for _, tree := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
		time.Second} {
		for _, took := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 150 * time.Millisecond} {
			var spent, grown, left time.Duration // left: until the machine vanishes
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

// TestIdleTasksLeave: a task does not stay for paused trials that others will take up, but for those that wait for each
// other.
func TestIdleTasksLeave(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, together := range []bool{false, true} {
		task := Task{Heartbeat: time.Second, Takeover: time.Minute, MaxDeaths: 5, Together: together}
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

// TestALaterStageComesToNoRung: trials that are paused end although the final training, of a later stage, has not
// begun.
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
		"one ended, one has not begun":   {[]int{0, 0, 1}, []Trial{{Paused: true}, {}, {}}, false},
		"two later stages, both to come": {[]int{0, 1, 2}, []Trial{{Paused: true}, {}, {}}, true},
	} {
		s, _ := Task{Heartbeat: time.Second, Takeover: time.Minute, MaxDeaths: 5, Stages: tc.stages}.Begin()
		s, _ = s.Next(Answer{})
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

// explore walks through all states of a world, breadth first, until it finds an error or has seen all states or limit
// of them. sample, which may be nil, checks every so-many-th state and describes what is wrong with it.
func explore[S comparable](m model[S], limit, every int, sample func(S) string) (f found) {
	begin := time.Now()
	defer func() { f.took = time.Since(begin) }()

	// Only 128 bits of a seen state are kept, with its predecessor.
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	type key [2]uint64
	keyOf := func(s S) key { return key{maphash.Comparable(seeds[0], s), maphash.Comparable(seeds[1], s)} }

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
