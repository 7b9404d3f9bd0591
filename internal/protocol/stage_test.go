package protocol

import (
	"testing"
	"time"
)

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
