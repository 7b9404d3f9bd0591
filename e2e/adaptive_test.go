//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// learningSweep is a sweep whose trials are decided while it runs, without its name and number of trials. METHOD stands
// for the line that says how.
const learningSweep = `
dataset: clicks
model: ctr
metric: auc
seed: 5
early_stopping_rounds: 20
params: {num_iterations: 60}
search:
  METHOD
  random:
    learning_rate: {log_uniform: [0.02, 0.3]}
    num_leaves: {log_int: [4, 63]}
    min_data_in_leaf: {log_int: [5, 500]}
    feature_fraction: {uniform: [0.3, 1.0]}
machine: {type: n2-highmem-2, vms: 2, threads_per_task: 1, tasks_per_vm: 2}
limits: {trial: 5m, sweep: 15m}
`

// learnt returns the plan of a sweep whose trials are decided while it runs, how often a trial was claimed again at
// most, and the decisions by trial. The test fails unless every trial is done and keeps the promises of learntFrom.
func learnt(t *testing.T, l *local, id sweep.ID) (plan *sweep.Plan, claims int, decisions map[int]*sweep.Decision) {
	t.Helper()
	objects := l.objects()
	plan, decisions = learntFrom(objects, id, t.Errorf)
	if plan == nil {
		t.FailNow()
	}
	for n := range plan.Trials {
		r, err := sweep.DecodeResult([]byte(objects["coppice-sweeps/"+sweep.Names(id).Result(n)]))
		if err != nil || r.Status != sweep.StatusDone {
			t.Fatalf("sweep %s, trial %d: result %+v, error %v; want it done", id, n, r, err)
		}
		claims = max(claims, r.Claim)
	}
	return plan, claims, decisions
}

// learntFrom returns the plan and the decisions of a sweep whose trials are decided while it runs, from the objects in
// the cloud's buckets. It calls wrong for each broken promise: every trial was trained with the parameters that are
// written down for it, no two with the same, and making a decision again from the results that it was made from gives
// the same decision. Trials may have been stopped. If the plan cannot be read, plan is nil.
func learntFrom(objects map[string]string, id sweep.ID, wrong func(string, ...any)) (plan *sweep.Plan,
	decisions map[int]*sweep.Decision) {
	text := func(name string) []byte { return []byte(objects["coppice-sweeps/"+name]) }
	plan, err := sweep.DecodePlan(text(sweep.Names(id).Plan()))
	if err != nil {
		wrong("the plan of sweep %s: %v", id, err)
		return nil, nil
	}

	decisions = map[int]*sweep.Decision{}
	by := map[string]int{}
	for n, trial := range plan.Trials {
		data := text(sweep.Names(id).Result(n))
		if len(data) == 0 && len(text(sweep.Names(id).Cancel())) > 0 {
			continue // a cancelled sweep ends without it
		}
		r, err := sweep.DecodeResult(data)
		if err != nil {
			wrong("sweep %s, trial %d: %v", id, n, err)
			continue
		}
		if r.Untrained() {
			continue
		}
		if trial.Refit { // what the winner trained, with a fixed number of trees
			if r.Refits == nil || *r.Refits >= n {
				wrong("sweep %s: the final training, trial %d, is of trial %v", id, n, r.Refits)
			}
			continue
		}
		params := trial.Params
		if trial.Open {
			d, err := sweep.DecodeDecision(text(sweep.Names(id).Decision(n)))
			if err != nil {
				wrong("sweep %s, trial %d: %v", id, n, err)
				continue
			}
			s, err := search.Decide(plan, n, d.Seen, d.Refused)
			if err != nil || sweep.ConfigurationKey(s.Params) != sweep.ConfigurationKey(d.Own) || s.Reason != d.Reason {
				wrong("sweep %s, trial %d: decided as %v (%s), made its decision again: %+v, %v", id, n, d.Own,
					d.Reason, s, err)
			}
			decisions[n], params = d, d.Params
		}

		key := sweep.ConfigurationKey(r.Params)
		if sweep.ConfigurationKey(params) != key {
			wrong("sweep %s: trial %d was trained with %v, and %v is written down", id, n, r.Params, params)
		}
		if other, twice := by[key]; twice {
			wrong("sweep %s: trials %d and %d have trained the same configuration", id, other, n)
		}
		by[key] = n
	}
	return plan, decisions
}

// killAll has the local cloud kill all four tasks when the nth object that matches is written. A moment by writes is
// always within the sweep, which one by time may not be: on a fast machine a sweep is over in four seconds.
func (l *local) killAll(match string, nth int) {
	faults := "at_write:\n"
	for task := range 4 {
		faults += fmt.Sprintf("  - {match: %q, nth: %d, does: kill_task, task: %d}\n", match, nth, task)
	}
	l.args = []string{"--faults", l.file("faults.yaml", faults)}
}

// stageClicks stages so many rows of the example's table of clicks as the dataset clicks.
func (l *local) stageClicks(rows int) {
	l.t.Helper()
	execute(l.t, l.dir, nil, binaryOf(l.t, "clicks"), "--rows", strconv.Itoa(rows), "--out",
		filepath.Join(l.dir, "clicks.parquet")).ok(l.t)
	l.must("launcher", "stage",
		l.file("dataset.yaml", "name: clicks\nsource: clicks.parquet\nlabel: is_click\ndrop: [impression_id, ts]\n"+
			"split: {by: hash, key: user_id, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}\n"))
}

// TestE2EAdaptive: in a sweep whose trials are decided while it runs, each trial is decided when it is claimed. A trial
// whose task is killed is trained by another task with what was decided. Reproducing the winner gives the same bytes. A
// second sweep with warm_start begins with the best configurations of the first one. In the first sweep all tasks are
// killed at the sixth claim.
func TestE2EAdaptive(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	l.killAll("sweeps/*/trials/*/claims/*", 6)
	l.stageClicks(20_000)

	first := conclusion(t, l.must("launcher", "sweep",
		l.file("first.yaml", "name: first\ntrials: 16\n"+strings.Replace(learningSweep, "METHOD", "method: gp", 1)),
		"--json"))
	plan, claims, decisions := learnt(t, l, first.Sweep)
	if claims == 0 {
		t.Error("no trial was taken over; want a killed worker's to be")
	}
	modelled := 0
	for _, d := range decisions {
		if d.Source == sweep.MethodGP {
			modelled++
		}
	}
	if len(decisions) != 15 || modelled == 0 {
		t.Errorf("%d trials were decided when they were claimed, %d by the model of the results; want 15 of 16, all "+
			"but the default, and some", len(decisions), modelled)
	}
	if !plan.Trials[first.Trial].Open || plan.Trials[0].Source != search.SourceDefault {
		t.Fatalf("trial %d has won, and trial 0 is from %s; want one that was decided, and the default", first.Trial,
			plan.Trials[0].Source)
	}
	if out := l.must("launcher", "registry", "reproduce", "ctr@1"); !strings.Contains(out, "the same bytes") {
		t.Errorf("the winner of a sweep that learns grown again: got\n%s\nwant the same bytes", out)
	}
	if out := l.must("launcher", "leaderboard", string(first.Sweep)); !strings.Contains(out, "FROM") &&
		!strings.Contains(out, "from") || !strings.Contains(out, "halton") {
		t.Errorf("the leaderboard is\n%s\nwant a column FROM that says where trials are from, such as halton", out)
	}

	l.args = nil
	warm := l.file("second.yaml", "name: second\ntrials: 10\n"+strings.Replace(learningSweep, "METHOD",
		"method: auto\n  warm_start: auto", 1))
	if out := l.must("launcher", "sweep", warm, "--dry-run"); !strings.Contains(out, "warm_start: 16 results of "+
		string(first.Sweep)) {
		t.Errorf("the second night's plan is\n%s\nwant it to take 16 results from %s", out, first.Sweep)
	}
	second := conclusion(t, l.run("launcher", "sweep", warm, "--json").out) // whether it is promoted is another matter
	plan, _, decisions = learnt(t, l, second.Sweep)
	var winner struct{ Params sweep.Params }
	decode(t, l.objects()["coppice-sweeps/"+sweep.Names(first.Sweep).Decision(first.Trial)], &winner)
	warmed := slices.DeleteFunc(slices.Clone(plan.Trials),
		func(t sweep.Trial) bool { return t.Source != search.SourceWarm })
	if len(warmed) != 5 || len(decisions) != 1 ||
		sweep.ConfigurationKey(warmed[0].Params) != sweep.ConfigurationKey(winner.Params) {
		t.Errorf("the second night begins with %d winners and decides %d trials, the first is %+v; want 5, 1 (the "+
			"portfolio has 3, a quarter of 10, and there is the default), and %v first", len(warmed), len(decisions),
			warmed[0], winner.Params)
	}
}
