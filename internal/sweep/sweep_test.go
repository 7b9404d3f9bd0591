package sweep_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// good is a spec with nearly every key. Tests edit it by replacing texts, and know its lines and columns.
const good = `name: nightly-ctr
dataset: clicks@0123456789abcdef
model: ctr
metric: average_precision
trials: 50
seed: 7
early_stopping_rounds: 50
params: {num_iterations: 2000, learning_rate: 0.05}
search:
  fixed: [{num_leaves: 31}, {num_leaves: 63, learning_rate: 0.03}]
  grid: {num_leaves: [31, 63, 127], min_data_in_leaf: [20, 200]}
  random:
    learning_rate: {log_uniform: [0.01, 0.3]}
    num_leaves: {log_int: [15, 255]}
    feature_fraction: {uniform: [0.5, 1.0]}
    lambda_l2: {choice: [0, 1, 10]}
    bagging_fraction: {step: [0.5, 1, 0.1]}
  constraints: ["num_leaves <= 2 ^ max_depth"]
machine: {type: n2-highmem-64, spot: true, threads_per_task: 4, tasks_per_vm: auto, local_ssd: 4}
limits: {trial: 2h, sweep: 6h}
gate: {metric: log_loss, against: champion, min_gain: 0.0}
require: ["trees <= 500"]
`

// paramName returns the canonical name of a parameter, of which it knows a few aliases.
func paramName(name string) string {
	for canonical, aliases := range map[string][]string{
		"metric": {"metrics"}, "num_threads": {"n_jobs"}, "num_iterations": {"n_estimators"},
		"learning_rate": {"eta", "shrinkage_rate"}, "num_leaves": {"max_leaves"}, "lambda_l2": {"reg_lambda"},
		"objective": {"loss", "app"}, "early_stopping_round": {"early_stopping_rounds", "n_iter_no_change"},
	} {
		if slices.Contains(aliases, name) {
			return canonical
		}
	}
	return name
}

// words returns a vocabulary with a few metrics, parameters and machine types, which have 4 local SSDs. Parameters must
// not be below 0, and num_leaves must be whole.
func words() sweep.Vocabulary {
	known := func(kind string, names ...string) func(string) error {
		return func(name string) error {
			if !slices.Contains(names, name) {
				return errors.New("no such " + kind + strictyaml.Suggest(name, names))
			}
			return nil
		}
	}
	metric := known("metric", "average_precision", "log_loss", "auc")
	param := known("parameter", "num_leaves", "learning_rate", "num_iterations", "min_data_in_leaf", "feature_fraction",
		"lambda_l2", "bagging_fraction")
	fine := func(string) error { return nil }
	return sweep.Vocabulary{
		Metric: metric, Require: fine,
		Constraint: func(text string) (string, error) {
			return strings.ReplaceAll(text, "max_leaves", "num_leaves"),
				nil
		},
		ParamName: paramName,
		Param: func(name string, value any) error {
			if v, ok := value.(float64); ok && v < 0 {
				return errors.New(name + ": below 0")
			}
			if v, ok := value.(float64); ok && name == "num_leaves" && v != math.Trunc(v) {
				return fmt.Errorf("%s: expected a whole number, found %v", name, v)
			}
			return param(paramName(name))
		},
		Objective: func(objective, _ string) (string, error) {
			return objective, known("objective", "binary", "regression")(objective)
		},
		Value: func(metric string, value float64) error {
			if value > 1 {
				return fmt.Errorf("%v is not a possible value of %s", value, metric)
			}
			return nil
		},
		Machine: known("machine", "n2-highmem-64", "n2-highmem-32", "n2-highmem-16", "n2-highmem-8", "n2d-highmem-64"),
		LocalSSD: func(machine string, disks int) error {
			if disks != 4 {
				return fmt.Errorf("%s takes 4, not %d", machine, disks)
			}
			return nil
		},
	}
}

// TestParseSpec: a spec has its values, with numbers as float64, gets its defaults, and is the same after a round trip
// through JSON.
func TestParseSpec(t *testing.T) {
	s := must.Get(sweep.ParseSpec("sweep.yaml", []byte(good), words()))(t)
	if s.Objective != "binary" || !*s.Machine.Spot || s.Machine.VMs != 1 || s.Machine.TasksPerVM != 0 ||
		time.Duration(s.Limits.Trial) != 2*time.Hour || s.Limits.Quorum != 0.5 ||
		s.Search.Fixed[1]["num_leaves"] != 63.0 {
		t.Errorf("got %+v; want binary, one Spot machine, 2h a trial, a quorum of 0.5, and 63.0 leaves in fixed[1]", s)
	}
	data := must.Get(json.Marshal(s))(t)
	var back sweep.Spec
	must.Do(t, json.Unmarshal(data, &back))
	again, _ := json.Marshal(back)
	if string(again) != string(data) {
		t.Errorf("after a round trip through JSON the spec is\n%s\nwant it unchanged:\n%s", again, data)
	}
}

// TestParseSpecNamesThePlace: each mistake in a spec is an error that says what is wrong, most with line and column,
// and that suggests the right word for a misspelled one. old and new are an edit of the good spec.
func TestParseSpecNamesThePlace(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, want string }{
		"unknown key": {"trials: 50", "trails: 50",
			`sweep.yaml:5:1: unknown key "trails" (did you mean "trials"?)`},
		"wrong type":     {"trials: 50", "trials: fifty", `sweep.yaml:5:9: expected a whole number, found "fifty"`},
		"path in a name": {"name: nightly-ctr", "name: ../x", `sweep.yaml:1:7: sweep name "../x": use 1 to 40`},
		"path in a dataset": {"dataset: clicks@0123456789abcdef", "dataset: ../x",
			`sweep.yaml:2:10: dataset name "../x"`},
		"dataset version": {"@0123456789abcdef", "@1", `sweep.yaml:2:10: dataset version "1"`},
		"path in a model": {"model: ctr", "model: a/b", `sweep.yaml:3:8: model name "a/b"`},
		"metric": {"metric: average_precision", "metric: avg_precision",
			`sweep.yaml:4:9: no such metric (did you mean "average_precision"?)`},
		"no metric": {"metric: average_precision", "", `metric is missing`},
		"gate metric": {"{metric: log_loss,", "{metric: logloss,",
			`sweep.yaml:21:16: no such metric (did you mean "log_loss"?)`},
		"gate against":   {"against: champion", "against: best", `against "best": use champion or none`},
		"objective":      {"model: ctr", "model: ctr\nobjective: rank", `sweep.yaml:4:12: no such objective`},
		"no trials":      {"trials: 50", "trials: 0", "sweep.yaml:5:9: trials is 0: use 1 to 10000"},
		"trials missing": {"trials: 50\n", "", "trials is missing: say how many configurations to train"},
		"params": {"learning_rate: 0.05}", "learnig_rate: 0.05}",
			`sweep.yaml:8:46: no such parameter (did you mean "learning_rate"?)`},
		"fixed": {"[{num_leaves: 31}", "[{num_leafs: 31}", `sweep.yaml:10:23: no such parameter`},
		"grid": {"num_leaves: [31, 63, 127]", "num_leaves: [31, -63, 127]",
			"sweep.yaml:11:27: num_leaves: below 0"},
		"grid empty": {"num_leaves: [31, 63, 127]", "num_leaves: []", "the grid has no value for num_leaves"},
		"random bounds": {"[0.01, 0.3]", "[0.3, 0.01]",
			"sweep.yaml:13:21: learning_rate: give [low, high] with low < high, not [0.3 0.01]"},
		"log from zero": {"[0.01, 0.3]", "[0, 0.3]", "a logarithmic range has to start above 0, not at 0"},
		"parts of a leaf": {"{log_int: [15, 255]}", "{uniform: [15, 255]}",
			"sweep.yaml:14:18: num_leaves: expected a whole number, found 91."},
		"two forms": {"{choice: [0, 1, 10]}", "{choice: [0], uniform: [0, 1]}",
			"lambda_l2: give one of uniform, log_uniform, int, log_int, step and choice, not 2"},
		"step":           {"{step: [0.5, 1, 0.1]}", "{step: [0.5, 1, 0]}", "step takes [low, high, step]"},
		"steps too many": {"{step: [0.5, 1, 0.1]}", "{step: [0, 1, 0.0000001]}", "over a million values"},
		"choice empty":   {"{choice: [0, 1, 10]}", "{choice: []}", "lambda_l2: choice is empty"},
		"reserved": {"num_iterations: 2000", "objective: binary",
			"sweep.yaml:8:21: objective is set by the spec's key objective; say it there, and take it out here"},
		"tasks per vm": {"tasks_per_vm: auto", "tasks_per_vm: 513",
			"sweep.yaml:19:79: machine.tasks_per_vm is 513: use 0 to 512"},
		"tasks per vm word": {"tasks_per_vm: auto", "tasks_per_vm: many", "sweep.yaml:19:"},
		"machine type": {"type: n2-highmem-64", "type: n2-highmem-65",
			`sweep.yaml:19:17: no such machine (did you mean "n2-highmem-64"?)`},
		"local SSDs": {"local_ssd: 4", "local_ssd: 3", `sweep.yaml:19:96: n2-highmem-64 takes 4, not 3`},
		"budget": {"trials: 50", "trials: 50\nbudget: -1",
			"sweep.yaml:6:9: budget is -1: use an amount of USD above 0, at most 1000000"},
		"no budget": {"trials: 50", "trials: 50\nbudget: 0", "sweep.yaml:6:9: budget is 0"},
		"endless budget": {"trials: 50", "trials: 50\nbudget: .inf",
			`sweep.yaml:6:9: expected a number, found ".inf"`},
		"duration": {"trial: 2h", "trial: 2 hours",
			`sweep.yaml:20:17: expected a duration such as 90s or 2h, found "2 hours"`},
		"duration too short": {"trial: 2h", "trial: 1ms", "sweep.yaml:20:17: limits.trial is 1ms: use 1s to 336h"},
		"quorum":             {"sweep: 6h}", "sweep: 6h, quorum: 2}", "quorum is 2"},
		"early stopping":     {"early_stopping_rounds: 50", "early_stopping_rounds: -1", "early_stopping_rounds is -1"},
		"anchor":             {"name: nightly-ctr", "name: &x nightly-ctr", "anchors"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, tc.old, tc.new, tc.want)
		})
	}

	// Of two mistakes the same one is told each time.
	for range 20 {
		refused(t, "limits: {trial: 2h, sweep: 6h}", "limits: {trial: 1ms, sweep: 1ms}", "limits.trial is 1ms")
	}
}

// refused checks that the good spec with one edit, old replaced by edit, is refused with a *strictyaml.Error whose text
// contains want.
func refused(t *testing.T, old, edit, want string) {
	t.Helper()
	text := strings.Replace(good, old, edit, 1)
	if text == good {
		t.Fatalf("the spec has no %q to be replaced", old)
	}

	_, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
	var se *strictyaml.Error
	if !errors.As(err, &se) || !strings.Contains(err.Error(), want) {
		t.Errorf("%q in place of %q: got error\n     %v\nwant %s", edit, old, err, want)
	}
}

// placed checks that err is a *strictyaml.Error with the line of what is wrong, whose text contains want.
func placed(t *testing.T, what string, err error, want string) {
	t.Helper()
	must.SayAs[*strictyaml.Error](t, what, err, want)
	if e := (*strictyaml.Error)(nil); errors.As(err, &e) && e.Line == 0 {
		t.Errorf("%s: the error %v has no line, want its place", what, err)
	}
}

// plan returns a valid plan of six listed trials, of which trial i has 31+i leaves.
func plan() *sweep.Plan {
	p := &sweep.Plan{Format: 1, Sweep: "nightly-1", Job: "projects/p/locations/l/jobs/nightly-1", Maximize: true,
		Dataset: sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef"},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
			Test: sweep.Rows{Split: "valid", Folds: []uint8{8, 9}}}}
	p.Spec.Model, p.Heartbeat, p.Takeover = "ctr", sweep.Duration(time.Second), sweep.Duration(time.Minute)
	for i := range 6 {
		p.Trials = append(p.Trials,
			sweep.Trial{Number: i, Source: "fixed", Params: map[string]any{"num_leaves": float64(31 + i)}})
	}
	return p
}

// TestPlanRoundTripAndFingerprint: a plan's fingerprint depends on what is trained. It stays the same through JSON, and
// for another time, build, price or budget. Prices and the budget are read back as they were written.
func TestPlanRoundTripAndFingerprint(t *testing.T) {
	p := plan()
	data, err := json.Marshal(p)
	must.Do(t, err)
	back := must.Get(sweep.DecodePlan(data))(t)
	if back.Fingerprint() != p.Fingerprint() {
		t.Errorf("after a round trip through JSON the fingerprint is %s, want %s", back.Fingerprint(), p.Fingerprint())
	}
	later := plan()
	later.Created, later.Coppice = time.Now(), "v9"
	if later.Fingerprint() != p.Fingerprint() {
		t.Errorf("planned later by another build, the fingerprint is %s, want %s", later.Fingerprint(), p.Fingerprint())
	}
	dearer := plan()
	dearer.Spec.Budget, dearer.Quote = 12.5, &sweep.Quote{Hourly: 1.5, VMs: 2, Reserve: 60}
	if dearer.Fingerprint() != p.Fingerprint() {
		t.Errorf("at another price and with a budget the fingerprint is %s, want %s", dearer.Fingerprint(),
			p.Fingerprint())
	}

	// 2 machines for 60 seconds at 1.50 an hour are 0.05.
	data = must.Get(json.Marshal(dearer))(t)
	if back, err = sweep.DecodePlan(data); err != nil || back.Spec.Budget != 12.5 || back.Quote.ReserveCost() != 0.05 {
		t.Errorf("the plan read again: got %+v (error %v); want a budget of 12.5 and a reserve of 0.05", back, err)
	}
	other := plan()
	other.Trials[3].Params["num_leaves"] = 99.0
	if other.Fingerprint() == p.Fingerprint() {
		t.Errorf("with another configuration the fingerprint is %s, too; want another", other.Fingerprint())
	}
}

// done returns the result of a trial of plan that is done, with files of its own attempt.
func done(trial int, score float64, trees int) sweep.Result {
	id := sweep.ID("nightly-1")
	o := sweep.Object{Name: sweep.Names(id).Attempt(trial, 0) + "model.txt"}
	return sweep.Result{Format: 1, Sweep: id, Trial: trial, Status: sweep.StatusDone, Score: score, Trees: trees,
		Model: &o, Scores: &sweep.Scored{Calib: o, Test: o}}
}

// TestBoardDoesNotDependOnOrder: results make the same board in any order, also if some come twice. Those of other
// sweeps or of trials that the plan does not have do not count. Of trials with equal scores the one with the fewest
// trees is better, then the one with the lowest number.
func TestBoardDoesNotDependOnOrder(t *testing.T) {
	p := plan()
	results := []sweep.Result{done(0, 0.5, 10), done(1, 0.7, 30), done(2, 0.7, 20), done(3, 0.7, 20),
		{Sweep: "nightly-1", Trial: 4, Status: sweep.StatusFailed}, {Sweep: "other", Trial: 5, Status: sweep.StatusDone,
			Score: 1}, {Sweep: "nightly-1", Trial: 77}}
	want, _ := json.Marshal(sweep.MakeBoard(p, results))
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		shuffled := append(slices.Clone(results), results[rng.IntN(len(results))], results[rng.IntN(len(results))])
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got, _ := json.Marshal(sweep.MakeBoard(p, shuffled)); string(got) != string(want) {
			t.Fatalf("in another order the results make the board\n%s\nwant\n%s", got, want)
		}
	}
	// The order of the trials, and which is the best.
	b := sweep.MakeBoard(p, results)
	var order []int
	for _, r := range b.Rows {
		order = append(order, r.Trial.Number)
	}
	if !slices.Equal(order, []int{2, 3, 1, 0, 4, 5}) || b.Done != 4 || b.Failed != 1 || b.Waiting != 1 ||
		b.Best().Trial != 2 {
		t.Errorf("order %v, board %+v; want [2 3 1 0 4 5], 4 done, 1 failed, 1 waiting and trial 2 the best", order, b)
	}
	p.Maximize = false
	if best := sweep.MakeBoard(p, results).Best(); best.Trial != 0 {
		t.Errorf("minimising, trial %d is best, want 0", best.Trial)
	}
	if sweep.MakeBoard(p, nil).Best() != nil {
		t.Error("without results the board has a best trial, want none")
	}
}

// TestNames: the names of a trial's objects and of plans are read as what they were made of, and names that no method
// makes are refused. So are invalid ids of sweeps.
func TestNames(t *testing.T) {
	id := sweep.ID("a-1")
	for name, want := range map[string]struct {
		trial, claim int
		part         sweep.Part
		ok           bool
	}{
		sweep.Names(id).Claim(7, 2):                 {7, 2, sweep.PartClaim, true},
		sweep.Names(id).Heartbeat(12, 0):            {12, 0, sweep.PartHeartbeat, true},
		sweep.Names(id).Result(9999):                {9999, 0, sweep.PartResult, true},
		sweep.Names(id).Attempt(3, 1) + "model.txt": {3, 0, sweep.PartOther, true},
		sweep.Names(id).Checkpoint(5, 3) + "2":      {5, 3, sweep.PartCheckpoint, true},
		sweep.Names(id).Checkpoints(5) + "x/2":      {},
		sweep.Names(id).Checkpoints(5) + "-1/2":     {},
		"plans/a-1.json":                            {},
		"sweeps/b/trials/0001/result.json":          {},
		"sweeps/a-1/trials/x/result.json":           {},
		"sweeps/a-1/trials/-1/result.json":          {},
		"sweeps/a-1/trials/0001/claims/abc":         {},
		"sweeps/a-1/trials/0001":                    {},
	} {
		trial, part, claim, ok := sweep.Names(id).ParseTrialObject(name)
		if trial != want.trial || part != want.part || claim != want.claim || ok != want.ok {
			t.Errorf("object %s: got trial %d, part %q, claim %d, ok %t; want %+v", name, trial, part, claim, ok, want)
		}
	}
	if got, ok := sweep.ParsePlanName(sweep.Names(id).Plan()); !ok || got != id {
		t.Errorf("the plan's name is read as %q %t, want its sweep", got, ok)
	}

	// Invalid ids.
	for _, bad := range []string{"", "A", "a_b", "-a", "a-", strings.Repeat("a", 64), "a/b", "..", "1a"} {
		if sweep.CheckID(bad) == nil {
			t.Errorf("id %q was accepted, want it refused", bad)
		}
		if _, ok := sweep.ParsePlanName("plans/" + bad + ".json"); ok {
			t.Errorf("the name of the plan of %q was accepted, want it refused", bad)
		}
	}
}

// TestScores: a scores file gives the scores that it was made of. A file in which any byte was changed, one that was
// cut, and one with a score of NaN are errors.
func TestScores(t *testing.T) {
	raw := []float64{0, -1.5, 1e-300, math.MaxFloat64}
	data := sweep.EncodeScores(raw)
	got, err := sweep.DecodeScores(data)
	if err != nil || !slices.Equal(got, raw) {
		t.Fatalf("scores read again: got %v (error %v); want those written", got, err)
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1
		if _, err := sweep.DecodeScores(bad); err == nil {
			t.Fatalf("a changed byte %d passed, want an error", i)
		}
	}
	if _, err := sweep.DecodeScores(data[:len(data)-1]); err == nil {
		t.Error("a truncated file passed, want an error")
	}
	if _, err := sweep.DecodeScores(sweep.EncodeScores([]float64{math.NaN()})); err == nil {
		t.Error("NaN passed, want an error")
	}
}

// TestDecodeResultRefuses: a result that no task writes, or that names files outside of its attempt's folder, is an
// error of kind damaged. Each case spoils one value of a valid result. The keys are parts of the errors.
func TestDecodeResultRefuses(t *testing.T) {
	must.Get(sweep.DecodeResult(must.Get(json.Marshal(done(1, 0.5, 3)))(t)))(t)
	for want, spoil := range map[string]func(*sweep.Result){
		`status "fine"`:   func(r *sweep.Result) { r.Status = "fine" },
		"without a model": func(r *sweep.Result) { r.Model = nil },
		`model.txt" lies outside its attempt`: func(r *sweep.Result) {
			r.Model.Name = "sweeps/other/trials/0001/attempts/0/model.txt"
		},
		`model.txt/x" lies outside`: func(r *sweep.Result) { r.Model.Name += "/x" },
		`attempts/0/" lies outside`: func(r *sweep.Result) {
			r.Model.Name = sweep.Names(r.Sweep).Attempt(r.Trial, r.Claim)
		},
		`model.txt\\x" lies outside`:    func(r *sweep.Result) { r.Model.Name += `\x` },
		`model.txt\n" lies outside`:     func(r *sweep.Result) { r.Model.Name += "\n" },
		"of 4294967297 bytes":           func(r *sweep.Result) { r.Model.Bytes = sweep.MaxObjectBytes + 1 },
		"of -1 bytes":                   func(r *sweep.Result) { r.Model.Bytes = -1 },
		`/../../x" lies outside`:        func(r *sweep.Result) { r.Scores.Test.Name += "/../../x" },
		"trial -1":                      func(r *sweep.Result) { r.Trial = -1 },
		"a reason of 5000 bytes":        func(r *sweep.Result) { r.Reason = strings.Repeat("x", 5000) },
		"format 99; this build reads 1": func(r *sweep.Result) { r.Format = 99 },
	} {
		r := done(1, 0.5, 3)
		model := *r.Model // which its scores share with it
		r.Model = &model
		spoil(&r)
		_, err := sweep.DecodeResult(must.Get(json.Marshal(r))(t))
		must.Say(t, "reading a spoiled result", err, want)
		must.Equal(t, problem.Of(err), problem.Damaged, "the kind of error %v", err)
	}
}

// TestDecodeClaimRefuses: a claim with a number that no task writes is an error of kind damaged that has the number.
func TestDecodeClaimRefuses(t *testing.T) {
	for want, c := range map[string]sweep.Claim{
		"": {Trial: 9999, Claim: 1, Task: 2, Attempt: 3}, "trial -1": {Trial: -1}, "trial 10000": {Trial: 10000},
		"claim -1": {Claim: -1}, "task -1": {Task: -1}, "attempt -1": {Attempt: -1},
	} {
		c.Format, c.Sweep = 1, "a"
		_, err := sweep.DecodeClaim(must.Get(json.Marshal(c))(t))
		must.Say(t, "reading a claim", err, want)
		must.Equal(t, problem.Is(err, problem.Damaged), want != "", "damaged by error %v", err)
	}
}

// FuzzNames: the names of objects that follow from whatever can be decoded or parsed are valid in every store, and stay
// inside the folders of the sweep or dataset.
func FuzzNames(f *testing.F) {
	for _, v := range []any{plan(), done(1, 0.5, 3), sweep.ScoreMessage{Format: 1, Sweep: "a"}} {
		data, _ := json.Marshal(v)
		f.Add(data, "sweeps/nightly-1/trials/0001/attempts/0/model.txt", "clicks@0123456789abcdef")
	}
	f.Add([]byte(`{"format":1,"sweep":"../x"}`), "plans/../x.json", "../x")
	f.Fuzz(func(t *testing.T, data []byte, name, ref string) {
		inside := func(id sweep.ID, name string) {
			if err := blob.ValidName(name); err != nil || !strings.HasPrefix(name, sweep.Names(id).Prefix()) &&
				name != sweep.Names(id).Plan() {
				t.Fatalf("%q of sweep %q: %v; want a valid name, below the sweep", name, id, err)
			}
		}
		if m, err := sweep.DecodeScoreMessage(data); err == nil {
			inside(m.Sweep, sweep.Names(m.Sweep).Plan())
			inside(m.Sweep, sweep.Names(m.Sweep).Result(m.Trial))
		}
		if r, err := sweep.DecodeResult(data); err == nil && r.Status == sweep.StatusDone && r.Fold == 0 {
			for _, o := range []sweep.Object{*r.Model, r.Scores.Calib, r.Scores.Test} {
				inside(r.Sweep, o.Name)
			}
		}
		if p, err := sweep.DecodePlan(data); err == nil {
			inside(p.Sweep, sweep.Names(p.Sweep).Claim(len(p.Trials)-1, 3))
			if dir := sweep.DatasetDir(p.Dataset.Name, p.Dataset.Version) +
				"manifest.json"; blob.ValidName(dir) != nil || strings.Count(dir, "/") != 3 {
				t.Fatalf("the manifest of dataset %+v is %q; want a valid name in a folder of the version", p.Dataset,
					dir)
			}
			if !strings.HasSuffix(p.JobName(1), "/"+string(p.Sweep.JobID(1))) ||
				sweep.CheckID(string(p.Sweep.JobID(1))) != nil {
				t.Fatalf("job 1 is named %q; want it to end in the valid id %s", p.JobName(1), p.Sweep.JobID(1))
			}
		}
		if id, ok := sweep.ParsePlanName(name); ok && (sweep.Names(id).Plan() != name || blob.ValidName(name) != nil) {
			t.Fatalf("%q was read as the plan of %q; want only the valid name of that plan to be", name, id)
		}
		if trial, _, claim, ok := sweep.Names("nightly-1").ParseTrialObject(name); ok &&
			(trial < 0 || trial >= sweep.MaxTrials || claim < 0) {
			t.Fatalf("%q was read as of trial %d, claim %d; want numbers that can be", name, trial, claim)
		}
		if dataset, version, err := sweep.SplitDatasetRef(ref); err == nil {
			for _, name := range []string{sweep.DatasetLatest(dataset), sweep.DatasetDir(dataset, version+"0") + "x"} {
				if blob.ValidName(name) != nil || !strings.HasPrefix(name, "datasets/") ||
					strings.Contains(dataset+version, "/") {
					t.Fatalf("the dataset reference %q leads to %q; want a valid name below datasets/", ref, name)
				}
			}
		}
	})
}

// FuzzDecoders: whatever data every decoder is given, an error is of kind damaged or, of a spec, has its place, and
// what was decoded can be used.
func FuzzDecoders(f *testing.F) {
	for _, v := range []any{plan(), done(1, 0.5, 3), sweep.ScoreMessage{Format: 1, Sweep: "a"},
		sweep.Conclusion{Format: 1, Sweep: "a", Outcome: "winner"},
		sweep.Ending{Format: 1, Sweep: "a", Trials: []int{0, 2}, Behind: []int{1}},
		sweep.Ending{Format: 1, Sweep: "a", Trials: []int{0, 1, 2}, Behind: []int{1}},
		sweep.Claim{Format: 1, Sweep: "a", Trial: 1}, sweep.Heartbeat{Format: 1, Trees: 3},
		sweep.Curve{Format: 1, Sweep: "a", First: 1, Every: 1, Scores: []float64{.5}}} {
		data, _ := json.Marshal(v)
		f.Add(data)
	}
	f.Add(sweep.EncodeScores([]float64{1, 2}))
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, data []byte) {
		var se *strictyaml.Error
		check := func(err error) {
			if err != nil && !problem.Is(err, problem.Damaged) && !errors.As(err, &se) {
				t.Fatalf("got error %T, %v; want one of kind damaged or a *strictyaml.Error", err, err)
			}
		}
		p, err := sweep.DecodePlan(data)
		check(err)
		if err == nil {
			sweep.MakeBoard(p, nil)
			p.Fingerprint()
		}
		_, err = sweep.DecodeResult(data)
		check(err)
		_, err = sweep.DecodeScoreMessage(data)
		check(err)
		_, err = sweep.DecodeConclusion(data)
		check(err)
		e, err := sweep.DecodeEnding(data, 3)
		if check(err); err == nil && len(e.Trials)+len(e.Behind) > 3 {
			t.Fatalf("of three trials %v have results and %v are behind; want an error", e.Trials, e.Behind)
		}
		_, err = sweep.DecodeClaim(data)
		check(err)
		c, err := sweep.DecodeCurve(data)
		if check(err); err == nil {
			sweep.JoinCurves([]sweep.Curve{*c, *c})
		}
		_, err = sweep.DecodeHeartbeat(data)
		check(err)
		_, err = sweep.DecodeScores(data)
		check(err)
		_, err = sweep.ParseSpec("s", data, words())
		check(err)
	})
}

// TestSplitModelRef: a version or an alias may be left out, but not be empty.
func TestSplitModelRef(t *testing.T) {
	for arg, want := range map[string][2]string{"ctr": {"ctr", ""}, "ctr@12": {"ctr", "12"},
		"ctr@champion": {"ctr", "champion"}, "ctr@": {}, "@12": {}, "a/b@1": {}} {
		model, ref, err := sweep.SplitModelRef(arg)
		if got := [2]string{model, ref}; got != want || (err == nil) != (want[0] != "") {
			t.Errorf("%q: got %q, %v; want %q, and an error if that is empty", arg, got, err, want)
		}
	}
	if _, _, err := sweep.SplitModelRef("ctr@"); problem.Of(err) != problem.Usage {
		t.Errorf("an empty reference: got kind %v; want a wrong argument", problem.Of(err))
	}
}

// TestPlansOfOtherBuilds: a plan with keys that this build does not know can be read, but not trained, and one of
// another format cannot be read. Either error names the version that wrote the plan. Unknown keys of another object are
// ignored.
func TestPlansOfOtherBuilds(t *testing.T) {
	p := plan()
	p.Coppice = "v9.1"
	data := must.Get(json.Marshal(p))(t)
	for old, more := range map[string]string{
		`"format":1`:  `"format":2`,
		`"trials":[{`: `"trials":[{"moon":0,`,
		`"spec":{`:    `"spec":{"moon":true,`,
		`"valid":{`:   `"valid":{"moon":1,`,
	} {
		p, err := sweep.DecodePlan(bytes.Replace(data, []byte(old), []byte(more), 1))
		if err == nil {
			err = p.Trainable()
		} else if more != `"format":2` {
			t.Errorf("a plan with %s: reading it gave error %v, want none", more, err)
		}
		const says = "coppice v9.1 wrote it: use programs and images of one version"
		must.Say(t, fmt.Sprintf("a plan with %s", more), err, says)
	}
	if _, err := sweep.DecodeHeartbeat([]byte(`{"format":1,"moon":1}`)); err != nil {
		t.Errorf("a heartbeat with another key: got error %v, want none", err)
	}
}
