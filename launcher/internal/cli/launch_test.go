package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/engine"
	"coppice/internal/machines"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/cloudjob"
)

// TestSlots: a scheduled sweep is named after the latest time of its schedule. A second start for the same slot keeps
// the first plan, even if the spec has changed, and says so. Flags that contradict --schedule are refused.
func TestSlots(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	start := func(file string, more ...string) map[string]any {
		var got map[string]any
		out := w.must(append([]string{"sweep", file, "--schedule", "0 3 * * *", "--no-wait", "--json"}, more...)...)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("sweep --json: %v, expected one JSON object, in:\n%s", err, out)
		}
		return got
	}
	if got := start(file); got["sweep"] != "night-20261121-0300" || got["trials"] != 4.0 {
		t.Errorf("the first start of the slot: got %v; want the sweep of 03:00 with its four trials", got)
	}
	// It is 03:00 of the 21st in UTC. 20 hours later the slot is the same; 4 hours more, and it is that of the 22nd.
	w.now = w.now.Add(20 * time.Hour)
	other := w.spec("trials: 4", "trials: 5")
	if got := start(other); got["sweep"] != "night-20261121-0300" || got["trials"] != 4.0 {
		t.Errorf("another spec in the same slot: %v; want night-20261121-0300, still of four trials", got)
	}
	w.now = w.now.Add(4 * time.Hour)
	if got := start(other); got["sweep"] != "night-20261122-0300" || got["trials"] != 5.0 {
		t.Errorf("the next slot: %v; want night-20261122-0300, of five trials", got)
	}
	// In New York it is 22:00 of the 21st, so the last 03:00 was that of the 21st, which is 08:00 in UTC.
	if got := start(other, "--time-zone", "America/New_York"); got["sweep"] != "night-20261121-0800" {
		t.Errorf("in New York: %v; want night-20261121-0800", got)
	}
	out := w.must("sweep", file, "--schedule", "0 3 * * *", "--no-wait")
	w.says(out, "note: sweep night-20261122-0300 was started with another spec or version of the dataset")
	w.lacks(w.must("sweep", other, "--schedule", "0 3 * * *", "--no-wait"), "another spec")
	w.refused(sweep.ExitUsage, "--time-zone", "sweep", file, "--time-zone", "UTC")
	w.refused(sweep.ExitUsage, "--id or --schedule", "sweep", file, "--schedule", "0 3 * * *", "--id", "x")
	w.refused(sweep.ExitUsage, "five fields", "sweep", file, "--schedule", "@daily")
	w.refused(sweep.ExitUsage, "Mars", "sweep", file, "--schedule", "0 3 * * *", "--time-zone", "Mars/Olympus")
}

// TestANightThatNeverHadMachines: if a night's job still waits for machines when its sweep has ended, the next
// scheduled start cancels it. Before it has ended, no job is cancelled.
func TestANightThatNeverHadMachines(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec()
	w.jobs.status = &engine.JobStatus{State: engine.Waiting}
	for night, ended := range []bool{false, true} {
		w.must("sweep", file, "--schedule", "0 3 * * *", "--no-wait")
		if ended != w.jobs.cancelled {
			t.Errorf("after %d nights a job is cancelled: %t, want %t", night+1, w.jobs.cancelled, ended)
		}
		id := sweep.ID(fmt.Sprintf("night-2026112%d-0300", night+1))
		must.Get(sweepstore.New(w.buckets["sweeps"], id).CreateEnding(t.Context(), sweep.Ending{
			Format: 1, Sweep: id, Early: "at its limit", At: w.now}))(t)
		w.now = w.now.Add(24 * time.Hour)
		file = w.spec("trials: 4", "trials: 5") // a spec may change by day
	}
}

// TestSlotsOfTwoSweeps: if two schedules share a name, but train another model or on another dataset, the second start
// in a slot is refused, and only one job is submitted.
func TestSlotsOfTwoSweeps(t *testing.T) {
	w := newStagedWorld(t)
	w.must("stage", w.file("views.yaml", strings.Replace(clicksYAML, "name: clicks", "name: views", 1)))
	w.must("sweep", w.spec(), "--schedule", "0 3 * * *", "--no-wait", "--json")
	for _, c := range [][3]string{
		{"model: ctr", "model: cvr",
			`started with model "ctr" on dataset "clicks", but this spec trains model "cvr" on dataset "clicks"; ` +
				`two scheduled sweeps have the name "night"`},
		{"dataset: clicks", "dataset: views",
			`started with model "ctr" on dataset "clicks", but this spec trains model "ctr" on dataset "views"`},
	} {
		w.refused(sweep.ExitInput, c[2], "sweep", w.spec(c[0], c[1]), "--schedule", "0 3 * * *", "--no-wait", "--json")
	}
	if len(w.jobs.submitted) != 1 {
		t.Errorf("submitted %v, want one job", w.jobs.submitted)
	}
}

// TestObjectivesAreShown: with several objectives, the plan says how the winner is picked, and the leaderboard has a
// column for each and marks the Pareto front. An objective without a direction, or unknown, is refused.
func TestObjectivesAreShown(t *testing.T) {
	w := newStagedWorld(t)
	spec := strings.Replace(sweepYAML, "metric: auc", "metric: [auc, model_bytes, trees]\npick: {within: 0.1%}", 1)
	if out := w.must("sweep", w.file("sweep.yaml", spec), "--dry-run"); !strings.Contains(out,
		"objectives: high auc, low model_bytes, low trees; of the trials within 0.1% of the best auc, the one "+
			"that is best by the others wins") {
		t.Errorf("the plan is\n%s\nwant the objectives, and how the winner is picked", out)
	}
	w.refused(sweep.ExitInput, "calibration_ratio is best at 1", "plan",
		w.spec("metric: auc", "metric: [auc, calibration_ratio]"))
	w.refused(sweep.ExitInput, "other.yaml:5:15: ", "plan", w.spec("metric: auc", "metric: [auc, model_byte]"))

	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	w.must("sweep", w.file("sweep.yaml", spec), "--id", "night-1")

	// Trial i scores 0.60 + i/100 with 10 + i trees (concluded), so no trial is better by both, and all four are on the
	// front. The word is in the header, in each of their lines, and in the sentence below them: six times.
	out := w.must("leaderboard", "night-1")
	if strings.Count(out, "front") != 6 || !strings.Contains(out, "model_bytes") ||
		!strings.Contains(out, "the winner is picked within 0.1% of the best auc") {
		t.Errorf("the board is\n%s\nexpected bytes, and four trials on the front, of which every better one "+
			"has more trees", out)
	}
}

// shortage is an engine that has machines for a sweep's second job alone.
type shortage struct{ *jobs }

func (shortage) Status(_ context.Context, job string) (engine.JobStatus, error) {
	if strings.HasSuffix(job, "-f1") {
		return engine.JobStatus{State: engine.Running, Began: true}, nil
	}
	return engine.JobStatus{State: engine.Failed, Lacks: "no room"}, nil
}

// TestFallbacksAreTold: if a sweep's first job gets no machines, the command says why, and with which machines it
// continues. With --json the only object names the job that has machines.
func TestFallbacksAreTold(t *testing.T) {
	w := newStagedWorld(t)
	w.runner = shortage{w.jobs}
	file := w.file("sweep.yaml", fallbackYAML)
	out := w.must("sweep", file, "--id", "x", "--no-wait")
	w.says(out, "no machines for n2-highmem-2, Spot: it failed: no room\n"+"continuing with n2-highmem-2, on demand\n")
	out = w.must("sweep", file, "--id", "y", "--no-wait", "--json")
	var got struct{ Job string }
	if err := json.Unmarshal([]byte(out), &got); err != nil || !strings.HasSuffix(got.Job, "/y-f1") {
		t.Errorf("--no-wait --json prints %s (%v), want one object with job y-f1", out, err)
	}
}

// TestDryRunShowsFallbacks: sweep --dry-run shows each fallback, and after how long the first replaces machines that do
// not come. An unknown type of a fallback is refused.
func TestDryRunShowsFallbacks(t *testing.T) {
	w := newStagedWorld(t)
	file := w.spec("type: n2-highmem-2,",
		"type: n2-highmem-2, wait: 1m, fallback: [{type: n2d-highmem-4, zones: [us-central1-f]}, {spot: false}],")
	out := w.must("sweep", file, "--dry-run")
	w.says(out, "without machines after 1m0s: 1 x n2d-highmem-4, Spot in us-central1-f, 4 tasks",
		"1 x n2-highmem-2, on demand, 2 tasks")
	w.refused(sweep.ExitInput, `machine type "q9-big-4" is not in the catalogue`, "sweep",
		w.spec("type: n2-highmem-2,", "type: n2-highmem-2, wait: 1m, fallback: [{type: q9-big-4}],"))
}

// TestNightsLeaveTheRegistry: staging and a scheduled sweep read nothing of the registry, on which a schedule's account
// has no rights (terraform/iam.yaml). At the end `registry list` shows that reads are counted.
func TestNightsLeaveTheRegistry(t *testing.T) {
	w := newWorld(t)
	must.Get(w.buckets["registry"].Put(t.Context(), "registry/ctr/versions/1/version.json", blob.Absent,
		strings.NewReader("{}")))(t)
	registry := blobtest.NewCounting(w.buckets["registry"])
	w.buckets["registry"] = registry
	w.staged()
	w.must("sweep", w.spec(), "--schedule", "0 3 * * *", "--no-wait")
	if asked, listed := registry.Asked.Load(), registry.Listed.Load(); asked+listed > 0 {
		t.Errorf("staging and a scheduled sweep asked the registry for %d objects and were told %d names; want none",
			asked, listed)
	}
	w.run("registry", "list", "ctr")
	if registry.Listed.Load() == 0 {
		t.Error("after registry list no name was listed; want the reads of the registry counted")
	}
}

// TestFitTakesAMachineOfANewAccount: on Google Cloud, fit's sweep takes at most 8 vCPUs and its staging fewer than 12,
// which a new account may have, however many this machine has. Here it takes all.
func TestFitTakesAMachineOfANewAccount(t *testing.T) {
	if m := must.Get(machines.Find(cloudjob.DefaultMachine))(t); m.VCPUs >= 12 {
		t.Errorf("staging takes %d vCPUs, want fewer than the 12 of a new account", m.VCPUs)
	}
	for here, want := range map[int]int{2: 2, 8: 8, 64: 8} {
		if got := coresOf(whereBatch, here); got != want || coresOf(whereLocal, here) != here {
			t.Errorf("of %d cores a sweep takes %d on Google Cloud and %d here, want %d and all", here, got,
				coresOf(whereLocal, here), want)
		}
	}
}

// TestWatchOfAJobThatIsGone: a restarted local cloud has the sweep's objects but not its job. The watcher says how to
// continue once the engine has said three times that the job is gone, which takes seconds of the test's clock. The same
// sweep command then submits a new job, and attaches to it when it is run again.
func TestWatchOfAJobThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStagedWorld(t)
		file := w.spec()
		w.lacks(w.must("sweep", file, "--id", "fifth", "--no-wait"), "had been started")
		w.jobs.status = &engine.JobStatus{State: engine.Gone}
		began := time.Now()
		w.refused(sweep.ExitError,
			"its job is gone (was the local cloud restarted?); `launcher sweep SWEEP.yaml --id fifth`", "watch",
			"fifth")
		if took := time.Since(began); took < 2*time.Second || took > time.Minute {
			t.Errorf("it was said after %s, want 2 s to a minute", took)
		}
		delete(w.jobs.submitted, "fifth")
		if out := w.must("sweep", file, "--id", "fifth", "--no-wait"); !strings.Contains(out,
			"sweep fifth was planned, but had no job; submitted, finished trials are kept\n") ||
			w.jobs.submitted["fifth"] != 1 {
			t.Errorf("started a sweep whose job is gone: got %s; want one new job, and finished trials kept", out)
		}
		w.says(w.must("sweep", file, "--id", "fifth", "--no-wait"), "attached to it")
	})
}

// TestWatchConcludes: where no message starts the aggregator, watch starts it once the job has ended, again and again
// until there is a conclusion. An error that repeats is printed once.
func TestWatchConcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStagedWorld(t)
		looks := 0
		w.must("sweep", w.spec(), "--id", "fifth", "--no-wait")
		p, _ := must.Get2(sweepstore.New(w.buckets["sweeps"], "fifth").Plan(t.Context()))(t)
		w.conclude = func(context.Context) error {
			if looks++; looks < 3 {
				return errors.New("no folder")
			}
			w.concluded(sweep.OutcomeWinner)(p)
			return nil
		}
		w.jobs.status = &engine.JobStatus{State: engine.Done}
		code, out, errOut := w.run("watch", "fifth")
		if code != 0 || !strings.Contains(out, "ctr version 1 is live") {
			t.Errorf("watch ended with %d, want 0 and what is live: %s", code, out)
		}
		if looks != 3 || strings.Count(errOut, "no folder") != 1 {
			t.Errorf("it looked %d times, and said %s; want 3 times, and one warning", looks, errOut)
		}
	})
}

// TestAfterACancel: the file of a cancelled sweep does not start it again, and the error says what does. With another
// name or number of trials it is another sweep, which learns from what the cancelled one has trained.
func TestAfterACancel(t *testing.T) {
	w := newStagedWorld(t)
	spec := strings.Replace(sweepYAML, "search: {", "search: {method: gp, warm_start: auto, ", 1)
	var first struct{ Sweep sweep.ID }
	must.Do(t, json.Unmarshal([]byte(w.must("sweep", w.file("sweep.yaml", spec), "--no-wait", "--json")), &first))
	p := w.plan(first.Sweep)
	for trial, leaves := range []float64{7, 35} { // the score grows with the leaves, so trial 1 is better
		o := sweep.Object{Name: sweep.Names(first.Sweep).Attempt(trial, 0) + "x"}
		params := maps.Clone(p.Base)
		params["num_leaves"] = leaves
		must.Get(sweepstore.NewTrials(w.buckets["sweeps"], p).CreateResult(t.Context(), sweep.Result{Format: 1,
			Sweep: first.Sweep, Trial: trial, Status: sweep.StatusDone, Score: 0.6 + leaves/1000, Model: &o,
			Scores: &sweep.Scored{Calib: o, Test: o}, Params: params}))(t)
	}
	w.must("cancel", string(first.Sweep))
	w.refused(sweep.ExitConflict,
		"sweep "+string(first.Sweep)+" was cancelled, and is not started again; with another "+
			"name: or number of trials:", "sweep", w.file("sweep.yaml", spec), "--no-wait")

	// Another sweep begins with the default, trial 0, and then the better one of the two results: trial 1 has 35
	// leaves.
	w.jobs.cancelled = false
	for _, change := range [][2]string{{"trials: 4", "trials: 6"}, {"name: night", "name: again"}} {
		var next struct{ Sweep sweep.ID }
		file := w.file("sweep.yaml", strings.Replace(spec, change[0], change[1], 1))
		must.Do(t, json.Unmarshal([]byte(w.must("sweep", file, "--no-wait", "--json")), &next))
		p := w.plan(next.Sweep)
		if next.Sweep == first.Sweep || len(p.Earlier) != 1 || p.Earlier[0].Sweep != first.Sweep ||
			len(p.Earlier[0].Trials) != 2 || p.Trials[1].Source != search.SourceWarm ||
			p.Trials[1].Params["num_leaves"] != 35.0 {
			t.Errorf("with %s after a cancel: sweep %s has learnt from %+v, and trial 1 is from %s with %v leaves; "+
				"expected another sweep than %s, the two results of that one, and the better one's 35 leaves after "+
				"the default", change[1], next.Sweep, p.Earlier, p.Trials[1].Source, p.Trials[1].Params["num_leaves"],
				first.Sweep)
		}
	}
}

// TestADamagedJobRecordKeepsNobodyFromCancelling: if the record of a sweep's second job is damaged, cancel fails with
// its name, but its tasks are asked to stop all the same. An id that looks like a later job's is refused.
func TestADamagedJobRecordKeepsNobodyFromCancelling(t *testing.T) {
	w := newStagedWorld(t)
	w.jobs.status = &engine.JobStatus{State: engine.Running, Began: true}
	w.must("sweep", w.file("sweep.yaml", fallbackYAML), "--id", "x", "--no-wait")
	w.put("sweeps", sweep.Names("x").JobRecord(1), "{")
	w.must("leaderboard", "x") // which needs no job
	w.refused(sweep.ExitInput, "jobs/1.json", "cancel", "x")
	if _, err := w.buckets["sweeps"].Stat(t.Context(), sweep.Names("x").Cancel()); err != nil {
		t.Errorf("cancelled a sweep with a damaged job record: %v; want its tasks asked to stop", err)
	}
	w.refused(sweep.ExitUsage, "ends in -f and a number", "sweep", w.spec(), "--id", "x-f1")
}

// TestAnEmptyNameIsNoSweep: commands with an empty name, as of an unset variable of a shell ("$SWEEP"), are refused.
// They do not take the newest sweep, which cancel would end.
func TestAnEmptyNameIsNoSweep(t *testing.T) {
	w := newStagedWorld(t)
	w.must("sweep", w.spec(), "--id", "x", "--no-wait")
	for _, command := range []string{"status", "leaderboard", "bill", "report --out -", "cancel"} {
		code, out, errOut := w.run(append(strings.Fields(command), "")...)
		if code == 0 || !strings.Contains(errOut, "sweep id") {
			t.Errorf("%s of an empty name ended with %d, want a refusal\n%s%s", command, code, out, errOut)
		}
	}
	if _, err := w.buckets["sweeps"].Stat(t.Context(), sweep.Names("x").Cancel()); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("the object that cancels the newest sweep: %v, want that it does not exist", err)
	}
}

// batch is a Batch whose tasks leave as soon as their sweep is cancelled.
type batch struct {
	*jobs
	plan  *sweep.Plan
	ended map[string]engine.Phase // state of the jobs that have ended; "" while they run
}

func (b *batch) Submit(_ context.Context, p *sweep.Plan) (existed bool, err error) {
	b.plan = p
	if _, existed = b.ended[p.Job]; !existed {
		b.ended[p.Job] = ""
	}
	return existed, nil
}

func (b *batch) Status(ctx context.Context, job string) (engine.JobStatus, error) {
	state, there := b.ended[job]
	if !there {
		return engine.JobStatus{State: engine.Gone}, nil
	}
	cancelled, err := sweepstore.New(b.sweeps, b.plan.Sweep).Cancelled(ctx)
	if err != nil {
		return engine.JobStatus{}, err
	}
	if state == "" && cancelled {
		b.ended[job], state = engine.Done, engine.Done
	}
	if state == "" {
		return engine.JobStatus{State: engine.Running, Began: true}, nil
	}
	return engine.JobStatus{State: state, Began: true}, nil
}

func (b *batch) Cancel(ctx context.Context, job string) (engine.JobStatus, error) {
	if state, there := b.ended[job]; there && state == "" {
		b.ended[job] = engine.Cancelled
	}
	return b.Status(ctx, job)
}

func (b *batch) Delete(_ context.Context, job string) error {
	delete(b.ended, job)
	return nil
}

// TestTwoPeopleAtOnce runs one command, cancel or sweep, at every point of another, on a sweep that runs. A cancel
// always succeeds, and then no job lives. A sweep attaches, or is told that the sweep was cancelled. The points are the
// first command's operations on the sweeps bucket.
func TestTwoPeopleAtOnce(t *testing.T) {
	start := newWorld(t)
	start.staged()
	file := start.file("sweep.yaml", sweepYAML)
	commands := map[string][]string{"cancel": {"cancel", "x"}, "sweep": {"sweep", file, "--id", "x", "--no-wait"}}
	for first := range commands {
		for second := range commands {
			for at, done := 1, false; !done; at++ { // until the first command has fewer operations than that
				w := newWorld(t)
				w.buckets["datasets"] = start.buckets["datasets"]
				cloud := &batch{jobs: w.jobs, ended: map[string]engine.Phase{}}
				w.runner = cloud
				w.must(commands["sweep"]...)
				command := func(name string) (code int, text string) {
					code, out, errOut := w.run(commands[name]...)
					return code, out + errOut
				}

				whole := w.buckets["sweeps"]
				var codes [2]int
				var texts [2]string
				done = true
				left := at // operations of the first before the second runs
				before := func(context.Context, blobtest.Call, string) error {
					if left--; left == 0 {
						done = false
						w.buckets["sweeps"] = whole
						codes[1], texts[1] = command(second)
					}
					return nil
				}
				w.buckets["sweeps"] = &blobtest.Hooked{Store: whole, Before: before}
				codes[0], texts[0] = command(first)
				w.buckets["sweeps"] = whole
				if done {
					break // the first has ended before
				}

				what := fmt.Sprintf("%s with %s at its operation %d: exit codes %d", first, second, at, codes)
				for i, name := range []string{first, second} {
					if codes[i] != 0 && (name == "cancel" || codes[i] != sweep.ExitConflict ||
						!strings.Contains(texts[i], "sweep x was cancelled")) {
						t.Errorf("%s; expected success, or for sweep that it was cancelled\n%s", what, texts[i])
					}
				}
				want := "runs"
				if first == "cancel" || second == "cancel" {
					want = "cancelled"
				}
				must.Equal(t, w.stateOf(t, cloud), want, "%s: the sweep", what)
			}
		}
	}
}

// stateOf says what has become of the sweep x: "cancelled" without a live job, "runs" with one, or what is wrong.
func (w *world) stateOf(t *testing.T, cloud *batch) string {
	t.Helper()
	cancelled := must.Get(sweepstore.New(w.buckets["sweeps"], "x").Cancelled(t.Context()))(t)
	alive := 0
	for name := range cloud.ended {
		status := must.Get(cloud.Status(t.Context(), name))(t)
		if !status.State.Ended() {
			alive++
		}
	}
	switch {
	case cancelled && alive == 0:
		return "cancelled"
	case !cancelled && alive == 1:
		return "runs"
	}
	return fmt.Sprintf("lost: cancelled %t, with %d jobs", cancelled, alive)
}

// TestCancelledTasksLeaveByThemselves: cancel waits until the tasks have removed their checkpoints, which only they may
// do, and exited. So the job ends as done, and is not cancelled.
func TestCancelledTasksLeaveByThemselves(t *testing.T) {
	w := newStagedWorld(t)
	w.runner = &batch{jobs: w.jobs, ended: map[string]engine.Phase{}}
	w.must("sweep", w.spec(), "--id", "x", "--no-wait")
	w.says(w.must("cancel", "x"), "sweep x is cancelled (job done)")
}
