//go:build unix && !race

package report_test

import (
	"bytes"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/report"
)

// processorTime is the processor time of this process so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// pageOf returns the processor time and the size of the page of a sweep with so many trials, each with a learning curve
// of 200 points.
func pageOf(t *testing.T, trials int) (took time.Duration, size int) {
	t.Helper()
	n := newNight(t)
	n.plan.Trials, n.plan.Sweep, n.bucket = nil, "night-2", blob.Memory()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range trials {
		n.plan.Trials = append(n.plan.Trials, sweep.Trial{Number: i, Params: sweep.Params{"num_iterations": 200.0,
			"lambda_l2": 0.1 + rng.Float64(), "extra_trees": i%2 == 0}})
	}
	must.Get(sweepstore.New(n.bucket, n.plan.Sweep).CreatePlan(t.Context(), n.plan))(t)
	n.trials = sweepstore.NewTrials(n.bucket, &n.plan)
	for i := range trials {
		n.claim(i, 0, 0, "vm-a", time.Minute)
		c := sweep.Curve{Format: 1, Sweep: n.plan.Sweep, Trial: i, Metric: "auc", First: 1, Every: 1}
		for range 200 {
			c.Scores = append(c.Scores, rng.Float64())
		}
		must.Get(n.trials.CreateCurve(t.Context(), c))(t)
		n.result(sweep.Result{Trial: i, Status: sweep.StatusDone, Score: rng.Float64(), Trees: 200, TreesGrown: 200,
			BestIteration: 200, Usage: sweep.Usage{TrainSeconds: 1}}, time.Minute, 2*time.Minute)
	}
	before := processorTime(t)
	s := must.Get(report.OpenSweep(t.Context(), n.bucket, registry.New(blob.Memory()), n.plan.Sweep))(t)
	v, _ := must.Get2(s.Look(t.Context()))(t)
	var b bytes.Buffer
	must.Do(t, v.Write(&b))
	return processorTime(t) - before, b.Len()
}

// TestAPageIsLinear: the page of 2,000 trials takes at most three times the processor time of one of 1,000, and at most
// three times its bytes. The faster of two runs counts.
func TestAPageIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it makes pages of thousands of trials")
	}
	const bound = 3 // between 2, for a page that is linear in the trials, and 4, for one that is quadratic
	fastest := func(trials int) (time.Duration, int) {
		a, n := pageOf(t, trials)
		b, _ := pageOf(t, trials)
		return min(a, b), n
	}
	small, smallBytes := fastest(1000)
	large, largeBytes := fastest(2000)
	t.Logf("1,000 trials: %v, %d KiB; 2,000: %v, %d KiB", small, smallBytes>>10, large, largeBytes>>10)
	if large > bound*small || largeBytes > bound*smallBytes {
		t.Errorf("the page of 1,000 trials took %v of processor time and has %d bytes, that of 2,000 %v and %d; want "+
			"at most %d times as much", small, smallBytes, large, largeBytes, bound)
	}
}
