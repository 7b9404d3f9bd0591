package show_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"coppice/internal/engine"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// TestTimeIsUp: nine trials that were not trained for the same reason have one line when the progress is closed. A
// refit that was not trained has none.
func TestTimeIsUp(t *testing.T) {
	var out bytes.Buffer
	v := show.NewProgress(program.World{Out: program.To(&out)}, &sweep.Plan{Trials: make([]sweep.Trial, 9)}, false)
	var b sweep.Board
	for n := range 9 {
		b.Rows = append(b.Rows, sweep.Row{Trial: sweep.Trial{Number: n}, Result: &sweep.Result{Trial: n,
			Status: sweep.StatusStopped, Reason: "the rest of the sweep's 2m0s is kept"}})
		v.Show(b, sweepview.Snapshot{Tally: sweep.Tally{Untrained: n}})
	}
	b.Rows = append(b.Rows, sweep.Row{Trial: sweep.Trial{Number: 9, Refit: true}, Result: &sweep.Result{Trial: 9,
		Status: sweep.StatusStopped, Reason: "no trial can win"}})
	v.Show(b, sweepview.Snapshot{})
	v.Close()
	if want := "9 trials not trained: the rest of the sweep's 2m0s is kept\n"; out.String() != want {
		t.Errorf("it shows\n%s\nwant\n%s", out.String(), want)
	}
}

// TestStaging: without a terminal each step has a line, and a long one says every ten seconds how far it is. Reports
// come every six seconds: the step bin begins with the second one, and twelve seconds later, with the fourth, it has
// 3 of 8 (37 %). The fifth comes only six seconds after that line.
func TestStaging(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	bar := show.StageBar{World: program.World{Err: program.To(&out), Now: func() time.Time { return now }}}
	for i, step := range []stager.Step{"survey", "bin", "bin", "bin", "bin", "upload"} {
		bar.Report(step, int64(i), 8)
		now = now.Add(6 * time.Second)
	}
	bar.Finish()
	if want := "survey ...\nbin ...\nbin 37 %\nupload ...\n"; out.String() != want {
		t.Errorf("it shows\n%s\nwant\n%s", out.String(), want)
	}
}

// TestProgress: without a terminal each trial has one line, when it has ended. As JSON there is an object for each
// change; if only the estimate of the time left has changed, there is none.
func TestProgress(t *testing.T) {
	p := &sweep.Plan{Trials: make([]sweep.Trial, 2), Spec: sweep.Spec{Metric: "auc"}}
	board := func(done ...int) (b sweep.Board) {
		for _, n := range done {
			b.Rows = append(b.Rows, sweep.Row{Trial: sweep.Trial{Number: n},
				Result: &sweep.Result{Trial: n, Status: sweep.StatusDone, Score: 0.75, Trees: 20}})
		}
		return b
	}
	looks := []sweepview.Snapshot{
		{Tally: sweep.Tally{Done: 1, Waiting: 1}, Left: 9, Job: of(engine.Running, nil)},
		{Tally: sweep.Tally{Done: 1, Waiting: 1}, Left: 8, Job: of(engine.Running, nil)},
		{Tally: sweep.Tally{Done: 2}, Job: of(engine.Running, nil)}}

	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		v := show.NewProgress(program.World{Out: program.To(&out)}, p, asJSON)
		for i, snap := range looks {
			v.Show(board([][]int{{1}, {1}, {1, 0}}[i]...), snap)
		}
		v.Close()

		want := "training has begun\n" +
			"trial   1  auc 0.75, 20 trees, 0 s  |  1/2 done · 9 s left\n" +
			"trial   0  auc 0.75, 20 trees, 0 s  |  2/2 done · concluding\n"
		if !asJSON && out.String() != want {
			t.Errorf("it shows\n%s\nwant\n%s", out.String(), want)
		}
		if got := strings.Count(out.String(), "\n"); asJSON && (got != 2 || !strings.Contains(out.String(),
			`"seconds_left":9`)) {
			t.Errorf("%d objects\n%s\nwant two, the first with 9 seconds left", got, out.String())
		}
	}
}

// TestTheJobsState: the first line says whether the job waits for machines, and why, whether it trains, or how it has
// ended.
func TestTheJobsState(t *testing.T) {
	for want, job := range map[string]provision.SweepJob{
		"waiting for machines\n": of(engine.Waiting, lacking("")),
		"training has begun\n":   of(engine.Running, nil),
		"job done\n":             of(engine.Done, nil),
		"job failed\n":           of(engine.Failed, nil),
		"machines: 0 of 2, asked for 2026-11-21 03:00 UTC: no room. It waits\n": of(engine.Waiting, lacking("no room")),
	} {
		var out bytes.Buffer
		v := show.NewProgress(program.World{Out: program.To(&out)}, &sweep.Plan{}, false)
		v.Show(sweep.Board{}, sweepview.Snapshot{Job: job})
		v.Close()
		if out.String() != want {
			t.Errorf("job %s: got %q, want %q", job.State, out.String(), want)
		}
	}
}

// of is a job that is in the state.
func of(state engine.Phase, m *provision.Machines) provision.SweepJob {
	return provision.SweepJob{JobStatus: engine.JobStatus{State: state}, Finished: state.Ended(), Machines: m}
}

// lacking is a job's machines, none of which are there.
func lacking(why string) *provision.Machines {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	return &provision.Machines{Planned: 2, Since: at, Why: why, Next: "It waits"}
}

// TestMissingMachinesAreTold: also on a terminal there is one line for each reason why machines are missing, and one
// when they have come.
func TestMissingMachinesAreTold(t *testing.T) {
	var out, line bytes.Buffer
	v := show.NewProgress(program.World{Out: program.To(&out), Err: program.To(&line),
		Now: time.Now, Terminal: true}, &sweep.Plan{}, false)
	for _, job := range []provision.SweepJob{of(engine.Waiting, nil), of(engine.Waiting, lacking("no room")),
		of(engine.Waiting, lacking("no quota")), of(engine.Waiting, lacking("no room")), of(engine.Running, nil),
		of(engine.Done, nil)} {
		v.Show(sweep.Board{}, sweepview.Snapshot{Job: job})
	}
	v.Close()
	for _, want := range []string{"no room", "no quota", "training has begun"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("shown: %q, want %q once", out.String(), want)
		}
	}
}
