package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// TestWatchOfAJobThatIsGone: a restarted local cloud has the sweep's objects but not its job. The watcher soon says how
// to continue, and so does a launcher that attaches to it.
func TestWatchOfAJobThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.staged()
		file := w.file("sweep.yaml", sweepYAML)
		if out := w.must("sweep", file, "--id", "fifth", "--no-wait"); strings.Contains(out, "had been started") {
			t.Errorf("started a sweep whose job is gone: got %s; want no claim that it had been started", out)
		}
		w.jobs.status = &provision.JobStatus{State: sweepview.JobMissing, Finished: true}
		began := time.Now()
		w.refused(sweep.ExitError,
			"its job is gone (was the local cloud restarted?); `launcher sweep SWEEP.yaml --id fifth`", "watch",
			"fifth")
		if took := time.Since(began); took < 2*time.Second || took > time.Minute {
			t.Errorf("it was said after %s", took)
		}
		delete(w.jobs.submitted, "fifth")
		if out := w.must("sweep", file, "--id", "fifth", "--no-wait"); !strings.Contains(out,
			"sweep fifth was planned, but had no job; submitted, finished trials are kept\n") ||
			w.jobs.submitted["fifth"] != 1 {
			t.Errorf("started a sweep whose job is gone: got %s; want one new job, and finished trials kept", out)
		}
		if out := w.must("sweep", file, "--id", "fifth", "--no-wait"); !strings.Contains(out, "attached to it") {
			t.Errorf("started it once more: got %s; want it attached", out)
		}
	})
}

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
			sweepview.State{Board: waiting.Board, Ending: true}, 0,
			""},
		"not concluded at all": {[]provision.JobStatus{gone, gone, gone}, sweepview.State{}, time.Hour,
			"(job not there)"},
		"failed": {[]provision.JobStatus{{State: "FAILED", Finished: true, Failure: "exit code 3"}}, waiting,
			time.Hour, "(job FAILED; exit code 3)"},
		"failed just now": {[]provision.JobStatus{{State: "FAILED", Finished: true}}, waiting, 0, ""},
	} {
		var p patience
		for _, job := range tc.answers {
			p.asked(job, at)
		}
		err := p.lost("x", tc.st, tc.answers[len(tc.answers)-1], at.Add(tc.later))
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: got error %v; want %q, none if that is empty", name, err, tc.says)
		}
	}
}
