package report_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud/batch"
	"coppice/internal/ledger"
	"coppice/internal/must"
	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/bill"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/report"
)

var planned = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// night is a sweep of six trials in a store in memory.
type night struct {
	*testing.T
	bucket blob.Store
	plan   sweep.Plan
	trials *sweepstore.Trials
}

// newNight writes the plan of a night, without any result.
func newNight(t *testing.T) *night {
	n := &night{T: t, bucket: blob.Memory()}
	n.plan = sweep.Plan{Format: 1, Sweep: "night-1", Created: planned, Coppice: "v1", Maximize: true,
		Heartbeat: sweep.Duration(time.Second), Takeover: sweep.Duration(time.Minute),
		Spec: sweep.Spec{Name: "night", Model: "ctr", Metric: "auc", Objective: "binary",
			Search: sweep.Search{Random: map[string]sweep.Distribution{"lambda_l2": {LogUniform: []float64{0.1, 10}}}}},
		Dataset: sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef", Rows: map[string]int{"train": 1000},
			Features: 4},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "valid"},
			Test: sweep.Rows{Split: "valid"}},
		Sizing: sweep.Sizing{VMs: 2, TasksPerVM: 2, Tasks: 4, MemoryBytes: 16 << 30},
		Quote:  &sweep.Quote{Hourly: 3.6, Cost: sweep.Range{Low: 0.1, Expected: 0.2, High: 0.3}}}
	for i := range 6 {
		n.plan.Trials = append(n.plan.Trials,
			sweep.Trial{Number: i, Params: sweep.Params{"num_iterations": 100.0, "lambda_l2": float64(i),
				"extra_trees": i%2 == 0, "ignore_column": []string{"", "a"}[i%2]}})
	}
	must.Get(sweepstore.New(n.bucket, n.plan.Sweep).CreatePlan(t.Context(), n.plan))(t)
	n.trials = sweepstore.NewTrials(n.bucket, &n.plan)
	return n
}

// claim writes that a task on a host took the trial, as its claim of that number, so long after the plan.
func (n *night) claim(trial, number, task int, host string, after time.Duration) {
	n.Helper()
	c := sweep.Claim{Format: 1, Sweep: n.plan.Sweep, Trial: trial, Claim: number, Task: task, Host: host, Nonce: "n",
		At: planned.Add(after)}
	must.Get(n.trials.CreateClaim(n.Context(), c))(n.T)
}

// beat writes a heartbeat of a claim, which had so many trees then.
func (n *night) beat(trial, claim, trees int, after time.Duration) {
	n.Helper()
	must.Do(n.T, n.trials.Beat(n.Context(), trial, claim, sweep.Heartbeat{Format: 1, Nonce: "n", Trees: trees,
		At: planned.Add(after)}))
}

// result writes a trial's result, with its beginning and end after the plan.
func (n *night) result(r sweep.Result, from, to time.Duration) {
	n.Helper()
	o := sweep.Object{Name: sweep.Names(n.plan.Sweep).Attempt(r.Trial, r.Claim) + "x"}
	r.Format, r.Sweep, r.Started, r.Ended = 1, n.plan.Sweep, planned.Add(from), planned.Add(to)
	if r.Status == sweep.StatusDone {
		r.Model, r.Scores = &o, &sweep.Scored{Calib: o, Test: o}
	}
	must.Get(n.trials.CreateResult(n.Context(), r))(n.T)
}

// middle is the night as it may stand after ten minutes: two trials are done, one has failed, one runs in its second
// claim, and two have not started.
func middle(t *testing.T) *night {
	n := newNight(t)
	usage := sweep.Usage{TrainSeconds: 50, PrivateBytes: 100, MappedBytes: 1000}
	n.claim(0, 0, 0, "vm-a", time.Minute)
	n.result(sweep.Result{Trial: 0, Status: sweep.StatusDone, Score: 0.7, Trees: 90, TreesGrown: 100, BestIteration: 90,
		Usage: usage}, time.Minute, 2*time.Minute)
	n.claim(1, 0, 1, "vm-a", time.Minute)
	usage.Machines, usage.SentBytes = 2, 3e6
	n.result(sweep.Result{Trial: 1, Task: 1, Status: sweep.StatusDone, Score: 0.8, Trees: 40, TreesGrown: 50,
		BestIteration: 40, Usage: usage}, time.Minute, 3*time.Minute)
	curve := sweep.Curve{Format: 1, Sweep: n.plan.Sweep, Trial: 1, Metric: "auc", First: 1, Every: 1,
		Scores: []float64{0.5, 0.6, 0.8}}
	must.Get(n.trials.CreateCurve(t.Context(), curve))(t)
	n.claim(2, 0, 2, "vm-b", time.Minute)
	n.result(sweep.Result{Trial: 2, Task: 2, Status: sweep.StatusFailed, Reason: "out of <memory>"}, time.Minute,
		2*time.Minute)

	// Trial 3 was given back and continues on another machine.
	n.claim(3, 0, 2, "vm-b", 3*time.Minute)
	n.beat(3, 0, 30, 4*time.Minute)
	must.Do(t, n.trials.Release(t.Context(), 3, 0))
	n.claim(3, 1, 0, "vm-a", 5*time.Minute)
	n.beat(3, 1, 44, 10*time.Minute)
	return n
}

// look reads the sweep's page with a new reader, with costs; and whether it has ended.
func (n *night) look() (*page.Sweep, bool) {
	n.Helper()
	s := must.Get(report.OpenSweep(n.Context(), n.bucket, registry.New(blob.Memory()), n.plan.Sweep))(n.T)
	s.Online = true // there are costs
	return must.Get2(s.Look(n.Context()))(n.T)
}

// TestSweepInTheMiddle: the page of a running sweep has each trial with state, reason and score, the curve of the one
// that wrote one, the parameters that differ, and the costs. It has no winner. middle says what has become of trials.
func TestSweepInTheMiddle(t *testing.T) {
	n := middle(t)
	v, ended := n.look()
	if ended || v.State != "running" || v.Winner != nil {
		t.Errorf("ended %t, state %q, winner %+v; expected a running sweep", ended, v.State, v.Winner)
	}

	want := []struct {
		state, reason string
		score         float64
	}{
		{page.StateComplete, "all 100 trees grown; best at 90", 0.7},
		{page.StateComplete, "by 2 machines: the first sent 3.0 MB and was in exchanges for 0.0 s; " +
			"no better after tree 40; ended at 50 of 100", 0.8},
		{page.StateFailed, "out of <memory>", math.NaN()},
		{page.StateRunning, "task 0 on vm-a, 44 trees", math.NaN()},
		{page.StateWaiting, "not started", math.NaN()},
		{page.StateWaiting, "not started", math.NaN()},
	}
	for i, w := range want {
		g := v.Trials[i]
		if g.State != w.state || !strings.HasPrefix(g.Reason, w.reason) || g.Score != w.score &&
			!(math.IsNaN(g.Score) && math.IsNaN(w.score)) {
			t.Errorf("trial %d: %q because %q, score %v; expected %+v", i, g.State, g.Reason, g.Score, w)
		}
	}
	if c := v.Trials[1]; !slices.Equal(c.CurveX, []float64{1, 2, 3}) ||
		!slices.Equal(c.CurveY, []float64{0.5, 0.6, 0.8}) {
		t.Errorf("the curve of trial 1 is %v, %v; want .5, .6 and .8 after 1 to 3 trees", c.CurveX, c.CurveY)
	}

	// Of the parameters, num_iterations is the same everywhere and not shown. An empty text is shown as (none).
	names := []string{}
	for _, p := range v.Params {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"extra_trees", "ignore_column", "lambda_l2"}) || !v.Params[2].Log ||
		v.Params[1].Categories[0] != "(none)" {
		t.Errorf("the parameters are %+v; want the three that differ, lambda_l2 on a logarithmic axis", v.Params)
	}
	// Trial 3 has extra_trees false, the second text of ignore_column, and its own number as lambda_l2.
	if got := v.Trials[3].Values; !slices.Equal(got, []float64{0, 1, 3}) {
		t.Errorf("the values of trial 3 are %v; want 0, 1 and 3", got)
	}

	// Trial 1 stopped at 50 of 100 trees, which saved something. The plan's quote expects 0.2 USD.
	texts := fmt.Sprint(v.Money.Rows)
	if m := v.Money; !m.Known || m.Total <= 0 || !strings.Contains(texts, "[saved by stopping early about $") ||
		!strings.Contains(texts, "[quoted $0.20") {
		t.Errorf("money is %+v; want it known, above 0, with what stopping early saved and the quote", m)
	}
}

// TestSweepAtItsEnd: the page of a sweep that has ended has the winner with its measures and the gate's checks. It says
// which trial may not win, and shows unfinished trials as cancelled. That the registry lacks the version is a note.
func TestSweepAtItsEnd(t *testing.T) {
	n := middle(t)
	end := sweep.Conclusion{Format: 1, Sweep: n.plan.Sweep, Outcome: sweep.OutcomeWinner, Reason: "because", Trial: 0,
		Model: "ctr", Version: 1,
		Rejected: []sweep.Rejected{{Trial: 1, Reason: "too slow"}}, Valid: map[string]float64{"auc": 0.7},
		Test: map[string]float64{"auc": 0.6},
		Calibration: &sweep.Calibration{Method: "platt", Reason: "r", Before: map[string]float64{"ece": 0.2},
			After: map[string]float64{"ece": 0.1}},
		Verified: &sweep.Verified{Scorer: "leaves", Rows: 3},
		Gate: &sweep.GateDecision{Promoted: true, Reason: "no champion",
			Checks: []sweep.GateCheck{{Name: "tonight", Passed: true, Value: 0.1, Low: 0.05, High: 0.2},
				{Name: "reference", Passed: true, Value: 0.1}}},
		At: planned.Add(20 * time.Minute)}
	must.Get(sweepstore.New(n.bucket, n.plan.Sweep).CreateConclusion(t.Context(), end))(t)

	v, ended := n.look()
	w := v.Winner
	if !ended || v.State != "winner" || w == nil || !v.Trials[0].Highlight || !v.AsOf.Equal(end.At) {
		t.Fatalf("ended %t, state %q, as of %s, winner %+v; want a winner, at the end of the "+
			"sweep", ended, v.State, v.AsOf, w)
	}
	if by := "by 2 machines: the first sent 3.0 MB"; !strings.Contains(v.Trials[1].Reason, by) ||
		strings.Contains(v.Trials[0].Reason, "machine") {
		t.Errorf("trial 1 says %q, and trial 0 %q; want %q of trial 1", v.Trials[1].Reason, v.Trials[0].Reason, by)
	}
	if !strings.Contains(v.Trials[1].Reason, "may not win: too slow") || v.Trials[4].State != page.StateCancelled ||
		v.Trials[3].State != page.StateCancelled {
		t.Errorf("the trials are %+v; want why trial 1 may not win, and 3 and 4 cancelled", v.Trials)
	}
	// The measures are auc and ece, whose value of .1 is that after the calibration.
	if len(w.Measures("")) != 2 || w.Measures("")[1].Name != "ece" ||
		w.Measures("")[1].Test != 0.1 || w.Gate == nil || len(w.Gate.Checks) != 2 ||
		w.Gate.Checks[0].High != 0.2 || len(w.Rejected) != 1 {
		t.Errorf("the winner is %+v; want two measures, two checks of the gate, and one rejected", w)
	}

	// The registry does not have the version: that is said, and the rest is shown.
	if len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "model cannot be read") {
		t.Errorf("the notes are %q; want one that the model cannot be read", v.Notes)
	}
}

// TestSameObjectsSameBytes: two readers of the same objects make the same bytes of a page.
func TestSameObjectsSameBytes(t *testing.T) {
	n := middle(t)
	var pages [2]bytes.Buffer
	for i := range pages {
		v, _ := n.look()
		must.Do(t, v.Write(&pages[i]))
	}
	if !bytes.Equal(pages[0].Bytes(), pages[1].Bytes()) {
		t.Errorf("two readings of the same objects gave %d and %d bytes, want the same", pages[0].Len(), pages[1].Len())
	}
}

// TestLookingAgain: a reader that has looked before, and looks again after news, makes the same page as a new reader.
func TestLookingAgain(t *testing.T) {
	n := newNight(t)
	s := must.Get(report.OpenSweep(t.Context(), n.bucket, registry.New(blob.Memory()), n.plan.Sweep))(t)
	s.Online = true
	n.claim(0, 0, 0, "vm-a", time.Minute)
	if v, _, err := s.Look(t.Context()); err != nil || v.Trials[0].State != page.StateRunning {
		t.Fatalf("looked while trial 0 runs: got %+v (error %v); want it running", v, err)
	}
	n.result(sweep.Result{Trial: 0, Status: sweep.StatusDone, Score: 0.7, Trees: 90, TreesGrown: 100}, time.Minute,
		2*time.Minute)
	curve := sweep.Curve{Format: 1, Sweep: n.plan.Sweep, Metric: "auc", First: 1, Every: 1, Scores: []float64{0.5}}
	must.Get(n.trials.CreateCurve(t.Context(), curve))(t)

	var again, anew bytes.Buffer
	v, _ := must.Get2(s.Look(t.Context()))(t)
	fresh, _ := n.look()
	must.Do(t, v.Write(&again))
	must.Do(t, fresh.Write(&anew))
	if !bytes.Equal(again.Bytes(), anew.Bytes()) {
		t.Errorf("a second look made %d bytes, a new reader %d; want the same bytes", again.Len(), anew.Len())
	}
}

// TestLocalRunsCostNothing: the page of a sweep in a local cloud has no costs, no column and no chart of them. The page
// of the same sweep on Google Cloud has.
func TestLocalRunsCostNothing(t *testing.T) {
	for _, free := range []bool{true, false} {
		n := middle(t)
		s := must.Get(report.OpenSweep(t.Context(), n.bucket, registry.New(blob.Memory()), n.plan.Sweep))(t)
		s.Online = !free
		v, _ := must.Get2(s.Look(t.Context()))(t)
		var out bytes.Buffer
		must.Do(t, v.Write(&out))
		for _, part := range []string{`data-sort="cost"`, "starting machines", "<dt>spent</dt>", "What it cost"} {
			if got := strings.Contains(out.String(), part); got == free {
				t.Errorf("nothing is paid for: %t; the page has %s: %t, want it only where something is paid for", free,
					part, got)
			}
		}
	}
}

// TestASweepThatHasEndedCostsItsBill: the page of a sweep that was cancelled while tasks were running has the cost that
// `launcher bill` shows a month later.
func TestASweepThatHasEndedCostsItsBill(t *testing.T) {
	n := middle(t)
	c := sweep.Conclusion{Format: 1, Sweep: n.plan.Sweep, Outcome: sweep.OutcomeCancelled,
		Reason: "the sweep was cancelled", At: planned.Add(10*time.Minute + 30*time.Second)}
	must.Get(sweepstore.New(n.bucket, n.plan.Sweep).CreateConclusion(t.Context(), c))(t)
	view, ended := n.look()

	results := must.Get(n.trials.List(t.Context()))(t)
	known := map[int]sweep.Result{}
	must.Do(t, n.trials.Results(t.Context(), results, known, func(int, error) {}))
	l := must.Get((&ledger.Reader{Store: n.bucket, Plan: &n.plan, Ended: c.At}).Read(t.Context(), known,
		planned.Add(30*24*time.Hour)))(t)
	b := bill.Make(&n.plan, &l, known)
	if m := view.Money; !ended || m == nil || m.Total != b.Cost || b.Cost == 0 ||
		!slices.Contains(m.Rows, [2]string{"machine time", plot.Seconds.Format(3600 * b.MachineHours)}) {
		t.Errorf("the page (ended: %t) has %+v; want the bill of a month later, %v USD for %v h of machines", ended, m,
			b.Cost, b.MachineHours)
	}
}

// TestLinks: the page of a sweep on Google Cloud links to its job there. A job's name in a plan cannot make a link of
// another kind or break out of the HTML. Other engines, and a local cloud, have no links.
func TestLinks(t *testing.T) {
	for job, want := range map[string]string{
		"projects/p-1/locations/us-central1/jobs/night-1": `<a href="https://console.cloud.google.com/batch/` +
			`jobsDetail/regions/us-central1/jobs/night-1/details?project=p-1"`,
		`projects/"><script>/locations/x?y/jobs/night-1`: `/regions/x%3Fy/jobs/night-1` +
			`/details?project=%22%3E%3Cscript%3E"`,
		"javascript:alert(1)//jobs/night-1": "",
		"slurm/night-1":                     "",
	} {
		n := newNight(t)
		n.plan.Job, n.bucket = job, blob.Memory()
		must.Get(sweepstore.New(n.bucket, n.plan.Sweep).CreatePlan(t.Context(), n.plan))(t)
		s := must.Get(report.OpenSweep(n.Context(), n.bucket, registry.New(blob.Memory()), n.plan.Sweep))(t)
		s.Online, s.Links = true, batch.Links
		v, _ := must.Get2(s.Look(n.Context()))(t)
		var page bytes.Buffer
		must.Do(t, v.Write(&page))
		if got := page.String(); !strings.Contains(got, want) || (want == "") != (len(v.Links) == 0) {
			t.Errorf("job %q: the page links to %+v; want %s", job, v.Links, want)
		}
		if strings.Contains(page.String(), `href="javascript`) {
			t.Errorf("job %q: the page has a link that runs a script, want none", job)
		}
	}
	if v, _ := newNight(t).look(); v.Links != nil {
		t.Errorf("a sweep on a local cloud links to %+v, want nothing", v.Links)
	}
}

// TestMissingMachinesAreTold: the page of a sweep that lacks machines says how many there are, why not all, and what
// happens next. It does not mention machines if all are there, or if the engine cannot be asked.
func TestMissingMachinesAreTold(t *testing.T) {
	const why, next = "Quota 'CPUS_ALL_REGIONS' exceeded.", "it tries n2-highmem-4 in 20 min"
	for _, c := range []struct {
		job  provision.SweepJob
		err  error
		says string
	}{
		{job: provision.SweepJob{Machines: &provision.Machines{Planned: 2, Why: why, Next: next}},
			says: "0 of 2, asked for"},
		{job: provision.SweepJob{Machines: &provision.Machines{Running: 2, Planned: 2}}},
		{job: provision.SweepJob{}},
		{err: errors.New("no permission")},
	} {
		n := newNight(t)
		s := must.Get(report.OpenSweep(n.Context(), n.bucket, registry.New(blob.Memory()), n.plan.Sweep))(t)
		s.Job = func(context.Context, *sweep.Plan) (provision.SweepJob, error) { return c.job, c.err }
		v, _ := must.Get2(s.Look(n.Context()))(t)
		var page bytes.Buffer
		must.Do(t, v.Write(&page))
		text := html.UnescapeString(page.String())
		if c.says == "" && strings.Contains(text, "Machines: ") {
			t.Errorf("machines %+v, error %v: the page has \"Machines: \", want no word of them", c.job.Machines, c.err)
		}
		for _, part := range []string{"Machines: " + c.says, why, next} {
			if c.says != "" && !strings.Contains(text, part) {
				t.Errorf("machines %+v: want %q on the page", c.job.Machines, part)
			}
		}
	}
}

// TestWhyATrialWasTried: why a trial was tried is in a field of its own (Tried), and not in the reason why it ended.
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

// TestAPausedTrialWaits: a trial that was paused at a rung is shown as paused, and nothing of it is lost. After its
// promotion and a new claim it runs, on a second machine.
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
	lost := func() string { // what the page, v as it is then, says of lost work
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

// TestAStrayPause: a pause in a sweep whose search never stops trials, which no task writes, is shown as such and does
// not keep the page from being made.
func TestAStrayPause(t *testing.T) {
	n := newNight(t)
	n.claim(3, 0, 0, "vm-a", time.Minute)
	must.Do(t, errors.Join(n.trials.CreatePause(t.Context(), 3, 0, 44), n.trials.Release(t.Context(), 3, 0)))
	if v, _ := n.look(); v.Trials[3].State != page.StatePaused || !strings.HasPrefix(v.Trials[3].Reason, "paused, ") {
		t.Errorf("trial 3 is %s: %s; want it paused, at no rung", v.Trials[3].State, v.Trials[3].Reason)
	}
}

// TestAWinnerIsTheOutcomeOfANight: if one sweep on a night's table had a winner and a later one had none, the night
// shows the first.
func TestAWinnerIsTheOutcomeOfANight(t *testing.T) {
	store, sweeps := blob.Memory(), blob.Memory()
	records := stagedNights(t, store, 1, -1) // one night, which is not blocked
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
