package sweepview_test

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/engine"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// TestPatience: after which answers a watcher gives up, and with which message.
func TestPatience(t *testing.T) {
	gone, at := of(engine.Gone, ""), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	waiting := sweepview.State{Board: sweep.Board{Waiting: 1}}
	for name, tc := range map[string]struct {
		answers []provision.SweepJob
		st      sweepview.State
		later   time.Duration
		says    string // empty if it keeps waiting
	}{
		"not yet visible":  {[]provision.SweepJob{gone, gone}, waiting, 0, ""},
		"gone":             {[]provision.SweepJob{gone, gone, gone}, waiting, 0, "its job is gone"},
		"there between":    {[]provision.SweepJob{gone, gone, of(engine.Waiting, ""), gone}, waiting, 0, ""},
		"there, long ago":  {[]provision.SweepJob{gone, of(engine.Running, "")}, waiting, time.Hour, ""},
		"all trials ended": {[]provision.SweepJob{gone, gone, gone}, sweepview.State{}, 0, ""},
		"being concluded": {[]provision.SweepJob{gone, gone, gone},
			sweepview.State{Board: waiting.Board, Ending: true}, 50 * time.Minute,
			""},
		"concluded too long": {[]provision.SweepJob{of(engine.Done, "")},
			sweepview.State{Ending: true}, 2 * time.Hour, "(job done)"},
		"not concluded at all": {[]provision.SweepJob{gone, gone, gone}, sweepview.State{}, time.Hour,
			"(job gone)"},
		"failed": {[]provision.SweepJob{of(engine.Failed, "exit code 3")}, waiting,
			time.Hour, "(job failed; exit code 3)"},
		"of another build": {[]provision.SweepJob{of(engine.Failed, "")},
			sweepview.State{Board: waiting.Board,
				Trouble: &sweep.Trouble{Refused: true, Text: "coppice v2 wrote it"}}, 0,
			"sweep x: coppice v2 wrote it; then start it again: nothing of it is lost"},
		"failed just now": {[]provision.SweepJob{of(engine.Failed, "")}, waiting, 0, ""},
	} {
		var p sweepview.JobWait
		for _, job := range tc.answers {
			p.Asked(job, at)
		}
		err := p.Lost("x", tc.st, tc.answers[len(tc.answers)-1], at.Add(tc.later))
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: got error %v; want %q, none if that is empty", name, err, tc.says)
		}
	}
}

// of is a job that is in the state.
func of(state engine.Phase, failure string) provision.SweepJob {
	return provision.SweepJob{JobStatus: engine.JobStatus{State: state, Failure: failure}, Finished: state.Ended()}
}
