package protocol

import (
	"testing"
	"time"
)

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
