package sweepview_test

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// TestPatience: after which answers of Batch a watcher gives up, and with which message.
func TestPatience(t *testing.T) {
	gone, at := provision.JobStatus{State: sweepview.JobMissing, Finished: true},
		time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	waiting := sweepview.State{Board: sweep.Board{Waiting: 1}}
	for name, tc := range map[string]struct {
		answers []provision.JobStatus
		st      sweepview.State
		later   time.Duration
		says    string // empty if it keeps waiting
	}{
		"not yet visible":  {[]provision.JobStatus{gone, gone}, waiting, 0, ""},
		"gone":             {[]provision.JobStatus{gone, gone, gone}, waiting, 0, "its job is gone"},
		"there between":    {[]provision.JobStatus{gone, gone, {State: "QUEUED"}, gone}, waiting, 0, ""},
		"there, long ago":  {[]provision.JobStatus{gone, {State: "RUNNING"}}, waiting, time.Hour, ""},
		"all trials ended": {[]provision.JobStatus{gone, gone, gone}, sweepview.State{}, 0, ""},
		"being concluded": {[]provision.JobStatus{gone, gone, gone},
			sweepview.State{Board: waiting.Board, Ending: true}, 50 * time.Minute,
			""},
		"concluded too long": {[]provision.JobStatus{{State: "SUCCEEDED", Finished: true}},
			sweepview.State{Ending: true}, 2 * time.Hour, "(job SUCCEEDED)"},
		"not concluded at all": {[]provision.JobStatus{gone, gone, gone}, sweepview.State{}, time.Hour,
			"(job not there)"},
		"failed": {[]provision.JobStatus{{State: "FAILED", Finished: true, Failure: "exit code 3"}}, waiting,
			time.Hour, "(job FAILED; exit code 3)"},
		"of another build": {[]provision.JobStatus{{State: "FAILED", Finished: true, Name: "j"}},
			sweepview.State{Board: waiting.Board,
				Trouble: &sweep.Trouble{Refused: true, Text: "coppice v2 wrote it"}}, 0,
			"sweep x: coppice v2 wrote it; then start it again: nothing of it is lost"},
		"failed just now": {[]provision.JobStatus{{State: "FAILED", Finished: true}}, waiting, 0, ""},
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
