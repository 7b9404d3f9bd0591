package report_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/report"
)

// TestWhyATrialWasTried: the page says it apart from how the trial ended.
func TestWhyATrialWasTried(t *testing.T) {
	n := newNight(t)
	plan := n.plan
	plan.Sweep = "night-2"
	plan.Trials[1].Source, plan.Trials[1].Reason = "gp", "expected improvement 0.2"
	must.Get(sweepstore.New(n.bucket, plan.Sweep).CreatePlan(t.Context(), plan))(t)
	n.plan = plan
	v, _ := n.look()
	if one := v.Trials[1]; one.Tried != "gp: expected improvement 0.2" || strings.Contains(one.Reason, "improvement") {
		t.Errorf("trial 1 was tried because of %q and is %q; expected the reason to try it apart", one.Tried,
			one.Reason)
	}
}

// TestAPausedTrialWaits: it is neither running nor released, and goes on after its promotion.
func TestAPausedTrialWaits(t *testing.T) {
	n := middle(t)
	n.plan.Spec.Search.Stop = &sweep.Stop{Rule: sweep.StopASHA, By: sweep.ByTrees, Eta: 3, MinTrees: 10,
		Rungs: []int{44}}
	n.plan.Sweep = "night-2"
	must.Get(sweepstore.New(n.bucket, n.plan.Sweep).CreatePlan(t.Context(), n.plan))(t)
	n.trials = sweepstore.NewTrials(n.bucket, &n.plan)
	n.claim(3, 0, 0, "vm-a", time.Minute)
	n.beat(3, 0, 44, 2*time.Minute)
	must.Do(t, errors.Join(n.trials.CreatePause(t.Context(), 3, 0, 44), n.trials.Release(t.Context(), 3, 0)))
	v, _ := n.look()
	lost := func() string {
		i := slices.IndexFunc(v.Money.Rows, func(r [2]string) bool { return strings.Contains(r[0], "lost") })
		return v.Money.Rows[i][1]
	}
	if got := v.Trials[3]; got.State != page.StatePaused || !strings.Contains(got.Reason, "paused at 44 trees") {
		t.Errorf("a paused trial is %s: %s; want it to be paused at 44 trees", got.State, got.Reason)
	}
	if v.Machines != 1 || lost() != "$0" {
		t.Errorf("it ran on %d machines, and %s are lost; expected one, and nothing lost", v.Machines, lost())
	}
	must.Get(n.trials.CreatePromotion(t.Context(), sweep.Promotion{Format: 1, Sweep: n.plan.Sweep, Trial: 3,
		Step: 44, Promoted: true}))(t)
	n.claim(3, 1, 1, "vm-b", 3*time.Minute)
	if v, _ = n.look(); v.Trials[3].State != page.StateRunning || v.Machines != 2 || lost() != "$0" {
		t.Errorf("a promoted trial is %s, on %d machines, and %s are lost; expected it to run, two, and nothing",
			v.Trials[3].State, v.Machines, lost())
	}
}

// TestAWinnerIsTheOutcomeOfANight: a later sweep on the same table that found nothing better has not undone it.
func TestAWinnerIsTheOutcomeOfANight(t *testing.T) {
	store, sweeps := blob.Memory(), blob.Memory()
	records := stagedNights(t, store, 1, -1)
	swept(t, sweeps, "night-1", records[0], sweep.VerdictPromoted)
	n := newNight(t)
	plan := n.plan
	plan.Sweep, plan.Created, plan.Dataset = "night-2", records[0].At.Add(3*time.Hour),
		sweep.DatasetRef{Name: records[0].Dataset, Version: records[0].Version}
	must.Get(sweepstore.New(sweeps, plan.Sweep).CreatePlan(t.Context(), plan))(t)
	end := sweep.Conclusion{Format: 1, Sweep: plan.Sweep, Outcome: sweep.OutcomeNoWinner, Reason: "none is better",
		At: plan.Created.Add(time.Minute)}
	must.Get(sweepstore.New(sweeps, plan.Sweep).CreateConclusion(t.Context(), end))(t)

	v := must.Get(report.New(sweeps, store, registry.New(blob.Memory()), false).Dataset(t.Context(),
		records[0].Dataset))(t)
	if night := v.Nights[0]; night.Sweep.ID != "night-1" || night.Sweep.Verdict != "promoted" {
		t.Errorf("the night is that of sweep %s, %s; expected night-1, promoted", night.Sweep.ID, night.Sweep.Verdict)
	}
}
