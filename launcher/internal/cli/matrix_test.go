package cli

import (
	"fmt"
	"testing"
	"testing/synctest"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/engine"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestFaultsOfEveryObject is the matrix of what people see of a sweep with an object with which something is wrong for
// good, by the table of internal/sweep/WIRE.md. A row is a kind of objects, the columns are the faults. A cell has the
// exit codes of status, leaderboard and ls.
func TestFaultsOfEveryObject(t *testing.T) {
	running, ended := newWorld(t), newWorld(t)
	ended.jobs.run = ended.concluded(sweep.OutcomeWinner)
	for _, w := range []*world{running, ended} {
		w.staged()
		w.jobs.status = &engine.JobStatus{State: engine.Running, Began: true}
		w.must("sweep", w.file("sweep.yaml", fallbackYAML), "--id", "x", "--no-wait")
	}
	s, trials := sweepstore.New(running.buckets["sweeps"], "x"), sweepstore.NewTrials(running.buckets["sweeps"],
		running.plan("x"))
	p := running.plan("x")
	for what, create := range map[string]func() (bool, error){
		"claim": func() (bool, error) {
			return trials.CreateClaim(t.Context(), sweep.Claim{Format: 1, Sweep: "x", Trial: 1, At: running.now})
		},
		"heartbeat": func() (bool, error) {
			return true, trials.Beat(t.Context(), 1, 0, sweep.Heartbeat{Format: 1, Trees: 3, At: running.now})
		},
		"result": func() (bool, error) {
			return trials.CreateResult(t.Context(), sweep.Result{Format: 1, Sweep: "x", Trial: 0,
				Status: sweep.StatusFailed, Reason: "no luck"})
		},
		"job": func() (bool, error) {
			return s.CreateJob(t.Context(), sweep.JobRecord{Format: 1, Sweep: "x", Number: 1, Job: p.JobName(1),
				At: running.now})
		},
	} {
		if ok, err := create(); !ok || err != nil {
			t.Fatalf("prepare a %s: created %t, error %v", what, ok, err)
		}
	}
	if ok, err := sweepstore.New(ended.buckets["sweeps"], "x").CreateEnding(t.Context(),
		sweep.Ending{Format: 1, Sweep: "x", Trials: []int{0, 1, 2, 3}}); !ok || err != nil {
		t.Fatalf("prepare an ending: created %t, error %v", ok, err)
	}

	names := sweep.Names("x")
	for _, row := range []struct {
		kind, name string
		of         *world
		want       [5]string // of blobtest.Faults
	}{
		{"plan", names.Plan(), running, [5]string{"3 3 0", "6 6 0", "1 1 0", "3 3 0", "4 4 0"}},
		{"claim", names.Claim(1, 0), running, [5]string{"0 0 0", "0 0 0", "0 0 0", "0 0 0", "0 0 0"}},
		{"heartbeat", names.Heartbeat(1, 0), running, [5]string{"0 0 0", "0 0 0", "0 0 0", "0 0 0", "0 0 0"}},
		{"result", names.Result(0), running, [5]string{"0 0 0", "6 6 0", "1 1 0", "0 0 0", "0 0 0"}},
		{"job record", names.JobRecord(1), running, [5]string{"3 0 0", "6 0 0", "1 0 0", "3 0 0", "0 0 0"}},
		{"ending", names.Ending(), ended, [5]string{"0 0 0", "6 6 0", "1 1 0", "0 0 0", "0 0 0"}},
		{"conclusion", names.Conclusion(), ended, [5]string{"3 3 0", "6 6 0", "1 1 0", "3 3 0", "0 0 0"}},
	} {
		for i, fault := range blobtest.Faults {
			got, says := "", ""
			synctest.Test(t, func(t *testing.T) {
				w := *row.of
				bad, err := blobtest.NewFaulty(t.Context(), w.buckets["sweeps"], fault, func(name string) bool {
					return name == row.name
				})
				if err != nil || bad.Struck() != 1 {
					t.Fatalf("%s: %d objects, error %v; want one", row.kind, bad.Struck(), err)
				}
				w.ctx, w.buckets = t.Context(), map[string]blob.Store{"datasets": w.buckets["datasets"],
					"registry": w.buckets["registry"], "sweeps": bad}
				for _, args := range [][]string{{"status", "x"}, {"leaderboard", "x"}, {"status"}} {
					code, _, errOut := w.run(args...)
					got += fmt.Sprint(code, " ")
					says += errOut
				}
			})
			if got != row.want[i]+" " {
				t.Errorf("%s, %s: exit codes %s; want %s\n%s", row.kind, fault, got, row.want[i], says)
			}
		}
	}
}
