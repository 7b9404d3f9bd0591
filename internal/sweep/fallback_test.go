package sweep_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// withMachine returns the good spec with another value of machine.
func withMachine(machine string) string {
	before, rest, _ := strings.Cut(good, "machine: ")
	_, after, _ := strings.Cut(rest, "\n")
	return before + "machine: " + machine + "\n" + after
}

// several is a machine with three fallbacks: other zones, another type, and no Spot.
const several = "{type: n2-highmem-64, zones: [us-central1-a], wait: 5m, fallback: [{zones: [us-central1-f, " +
	"us-central1-b]}, {type: n2d-highmem-64}, {spot: false}]}"

// TestFallback: a fallback is the machine with the changes that it names, and stays so through JSON. Without
// machine.wait the wait is ten minutes. Machines and fallbacks that contradict themselves, or could not run, are
// refused with their place.
func TestFallback(t *testing.T) {
	s, err := sweep.ParseSpec("sweep.yaml", []byte(withMachine(several)), words())
	must.Do(t, err)
	m := s.Machine
	if time.Duration(m.Wait) != 5*time.Minute || m.LocalSSD != 0 {
		t.Errorf("the machine is %+v; want a wait of 5m, and as many local SSDs as it takes", m)
	}
	for n, want := range []string{"n2-highmem-64 true [us-central1-a] 0",
		"n2-highmem-64 true [us-central1-f us-central1-b] 0", "n2d-highmem-64 true [us-central1-a] 0",
		"n2-highmem-64 false [us-central1-a] 0"} {
		c := m.Choice(n)
		if got := fmt.Sprint(c.Type, " ", *c.Spot, " ", c.Zones, " ", int(c.LocalSSD)); got != want ||
			c.ThreadsPerTask != m.ThreadsPerTask {
			t.Errorf("choice %d is %s with %d threads, want %s with the machine's %d", n, got, c.ThreadsPerTask, want,
				m.ThreadsPerTask)
		}
	}

	text := must.Get(json.Marshal(s))(t)
	var back sweep.Spec
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back.Machine, m) {
		t.Errorf("%s read again: error %v, machine %+v; want %+v", text, err, back.Machine, m)
	}
	if s, err = sweep.ParseSpec("sweep.yaml", []byte(withMachine("{fallback: [{spot: false}]}")),
		words()); err != nil || time.Duration(s.Machine.Wait) != 10*time.Minute {
		t.Errorf("without machine.wait: got %+v, error %v; want a wait of ten minutes", s, err)
	}

	// What is refused: a machine, and a part of the error. limits.sweep is 6 hours, of which all waits together may be
	// half.
	for name, c := range map[string][2]string{
		"a region as zone":     {"{zones: [us-central1]}", "zone \"us-central1\""},
		"a zone of a fallback": {"{fallback: [{zones: [a]}]}", "zone \"a\""},
		"wait for nothing":     {"{wait: 5m}", "there is none"},
		"too short":            {"{wait: 10ms, fallback: [{spot: false}]}", "machine.wait is 10ms"},
		"too long":             {"{wait: 4h, fallback: [{spot: false}]}", "use 1s to 3h0m0s"},
		"too long in all":      {"{wait: 2h, fallback: [{spot: false}, {type: n2-highmem-32}]}", "use 1s to 1h30m0s"},
		"the same":             {"{fallback: [{type: n2-highmem-8}]}", "the same as what comes before it"},
		"the same as the first": {"{zones: [us-central1-a], fallback: [{spot: false}, {spot: false}]}",
			"the same as what comes before it"},
		"disks": {"{fallback: [{spot: false, local_ssd: 4}]}", "unknown key \"local_ssd\""},
		"too many": {"{fallback: [" + strings.Repeat("{spot: false}, {type: n2-highmem-8}, ", 11) + "]}",
			"use at most 20"},
		"what prices decided": {"{spot: 'auto'}", `expected true or false, found "auto"`},
		"a wrong key":         {"{fallback: [{kind: spot}]}", "kind"},

		"a type and a size":  {"{type: n2-highmem-8, vcpus: 16, memory: 64}", "type is of Google's machines"},
		"a size and zones":   {"{vcpus: 16, memory: 64, zones: [us-central1-a]}", "zones is of Google's"},
		"a size on Spot":     {"{vcpus: 16, memory: 64, spot: true}", "spot is of Google's"},
		"a size and another": {"{vcpus: 16, memory: 64, fallback: [{spot: false}]}", "fallback is of Google's"},
		"no memory":          {"{vcpus: 16}", "16 vCPUs, 0 GiB: give both"},
		"no vCPUs":           {"{memory: 64}", "0 vCPUs, 64 GiB: give both"},
		"vCPUs below 0":      {"{vcpus: -1, memory: 64}", "-1 vCPUs"},
		"too much memory":    {"{vcpus: 16, memory: 100000}", "100000 GiB"},
		"memory with a unit": {"{vcpus: 16, memory: 64GiB}", "expected a whole number, found \"64GiB\""},
	} {
		_, err := sweep.ParseSpec("sweep.yaml", []byte(withMachine(c[0])), words())
		placed(t, name, err, c[1])
	}
}

// TestJobsOfASweep: each choice of machines has a job with an id of its own, which is valid and unlike those of other
// sweeps, even if the sweep's id is as long as may be. Placed makes the plan as if that job were the only one.
func TestJobsOfASweep(t *testing.T) {
	long := sweep.ID(strings.Repeat("a", 63))
	for _, c := range []struct {
		id   sweep.ID
		n    int
		want string
	}{{"nightly-1", 0, "nightly-1"}, {"nightly-1", 1, "nightly-1-f1"}, {"nightly-1", 20, "nightly-1-f20"},
		{long, 0, string(long)}} {
		if got := c.id.JobID(c.n); string(got) != c.want {
			t.Errorf("job %d of sweep %s is called %s; want %s", c.n, c.id, got, c.want)
		}
	}
	// Three ids that are alike in the part that is kept beside a suffix.
	seen := map[sweep.ID]bool{}
	for _, id := range []sweep.ID{long, long[:62] + "b", long[:61]} {
		for n := range sweep.MaxFallbacks + 1 {
			job := id.JobID(n)
			if err := sweep.CheckID(string(job)); err != nil || seen[job] {
				t.Errorf("%s: %v, seen before: %t; want a valid id, and a new one", job, err, seen[job])
			}
			seen[job] = true
		}
	}
	p := &sweep.Plan{Sweep: "j", Job: "projects/p/locations/l/jobs/j", Sizing: sweep.Sizing{VMs: 1},
		Fallback: []sweep.Sizing{{VMs: 2}}}
	p.Spec.Machine.Fallback = []sweep.Fallback{{Type: "n2d-highmem-64"}}
	if p.Placed(0) != p {
		t.Errorf("job 0 of the plan is %+v, want the plan itself", p.Placed(0))
	}
	placed := p.Placed(1)
	if placed.Job != "projects/p/locations/l/jobs/j-f1" || placed.Spec.Machine.Type != "n2d-highmem-64" ||
		placed.Sizing.VMs != 2 || p.Sizing.VMs != 1 || placed.Sweep != "j" {
		t.Errorf("job 1 of the plan is %+v; want j-f1 with 2 n2d-highmem-64, and the plan unchanged", placed)
	}
	if placed.Fingerprint() == p.Fingerprint() {
		t.Error("the plans of two jobs have one fingerprint, want two")
	}
}

// FuzzJobRecord: whatever data are read as the record of job n, the outcome is that record, or an error of kind
// damaged.
func FuzzJobRecord(f *testing.F) {
	p := &sweep.Plan{Sweep: "j", Job: "projects/p/locations/l/jobs/j", Fallback: make([]sweep.Sizing, 2)}
	whole, err := json.Marshal(sweep.JobRecord{Format: 1, Sweep: "j", Number: 1, Job: p.JobName(1), Reason: "because"})
	must.Do(f, err)
	must.Get(sweep.DecodeJobRecord(whole, p, 1))(f)
	f.Add(whole, 1)
	f.Add([]byte(`{"format":1}`), 3)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		r, err := sweep.DecodeJobRecord(data, p, n)
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("a record that cannot be read: got error %v, want one of kind damaged", err)
		}
		if err == nil && (r.Number != n || n < 1 || n > 2 || r.Job != p.JobName(n)) {
			t.Fatalf("the record of job %d of 1 and 2 was read as %+v; want number %[1]d and its job", n, r)
		}
	})
}

// TestDescribedMachine: vCPUs and memory in place of a type make a custom type, with the memory in MiB, that is not
// Spot. The plan has the type only.
func TestDescribedMachine(t *testing.T) {
	s := must.Get(sweep.ParseSpec("sweep.yaml", []byte(withMachine("{vcpus: 16, memory: 64, vms: 4}")), words()))(t)
	if m := s.Machine; m.Type != "custom-16-65536" || *m.Spot || m.VMs != 4 {
		t.Errorf("16 vCPUs and 64 GiB: got %+v, want four of custom-16-65536 that are not Spot", m)
	}
	text := must.Get(json.Marshal(s.Machine))(t)
	if strings.Contains(string(text), "memory") || strings.Contains(string(text), "vcpus") {
		t.Errorf("the machine is written as %s; want the type without vcpus and memory", text)
	}
}

// TestCurvesAreBounded: however many trees are added, a curve has at most MaxCurve scores, and more than half of that
// once there are enough trees. It keeps its first tree, its scores belong to the trees that First and Every say,
// rounded to seven digits, and it is read back as it was written, in at most 16 KiB. The first tree is 41, as of a
// claim that resumes after 40, and each score has 1e-15 more than its seven digits.
func TestCurvesAreBounded(t *testing.T) {
	for _, n := range []int{0, 1, 2, sweep.MaxCurve, sweep.MaxCurve + 1, 5*sweep.MaxCurve + 17, 100_000} {
		c := sweep.Curve{Format: 1, Sweep: "night-1"}
		for tree := 41; tree < 41+n; tree++ {
			c.Add(tree, float64(tree)/100_000+1e-15)
		}
		if len(c.Scores) > sweep.MaxCurve || n > 0 && c.First != 41 || n > sweep.MaxCurve &&
			len(c.Scores) <= sweep.MaxCurve/2 {
			t.Errorf("of %d trees: %d scores from tree %d; want half of %d to all of them from tree 41", n,
				len(c.Scores), c.First, sweep.MaxCurve)
		}
		for i, s := range c.Rounded().Scores {
			if tree := c.First + i*c.Every; s != float64(tree)/100_000 {
				t.Fatalf("of %d trees: score %v at tree %d, want %v", n, s, tree, float64(tree)/100_000)
			}
		}
		if want := (n - 1) / max(c.Every, 1); n > 0 && len(c.Scores) != want+1 {
			t.Errorf("of %d trees, one in %d: %d scores, want %d", n, c.Every, len(c.Scores), want+1)
		}
		data, err := json.Marshal(c.Rounded())
		if err != nil || len(data) > 16<<10 {
			t.Errorf("of %d trees: %d bytes, error %v; want at most 16 KiB", n, len(data), err)
		}
		if back, err := sweep.DecodeCurve(data); n > 0 &&
			(err != nil || !reflect.DeepEqual(back.Scores, c.Rounded().Scores)) {
			t.Errorf("of %d trees: read back %v, error %v; want the same scores", n, back, err)
		}
	}
}

// TestCurvesBeginAnew: a curve starts over where a training does, from tree 1 after tree 9, and after NaN, which JSON
// cannot represent.
func TestCurvesBeginAnew(t *testing.T) {
	var c sweep.Curve
	for tree := 7; tree <= 9; tree++ {
		c.Add(tree, 0.5)
	}
	c.Add(1, 0.25)
	c.Add(2, math.NaN())
	if len(c.Scores) != 0 {
		t.Errorf("after NaN the curve has the scores %v, want none", c.Scores)
	}
	c.Add(3, 0.75)
	c.Add(4, 1)
	if c.First != 3 || !reflect.DeepEqual(c.Scores, []float64{0.75, 1}) {
		t.Errorf("the curve has %v from tree %d, want 0.75 and 1 from tree 3", c.Scores, c.First)
	}
}

// TestJoinCurves: the curve of a later claim replaces those of earlier claims from its first tree on, in whatever order
// they are given. Trees that no curve has are missing.
func TestJoinCurves(t *testing.T) {
	curve := func(claim, first, every int, scores ...float64) sweep.Curve {
		return sweep.Curve{Claim: claim, First: first, Every: every, Scores: scores}
	}
	for name, tc := range map[string]struct {
		curves []sweep.Curve
		want   []sweep.CurvePoint
	}{
		"none": {nil, nil},
		"one":  {[]sweep.Curve{curve(0, 1, 1, .1, .2)}, []sweep.CurvePoint{{1, .1}, {2, .2}}},
		"gone on": {[]sweep.Curve{curve(1, 3, 1, .3, .4), curve(0, 1, 1, .1, .2, .9)},
			[]sweep.CurvePoint{{1, .1}, {2, .2}, {3, .3}, {4, .4}}},
		"begun again": {[]sweep.Curve{curve(0, 1, 1, .8, .9), curve(1, 5, 1, .9), curve(2, 1, 1, .1, .2)},
			[]sweep.CurvePoint{{1, .1}, {2, .2}}},
		"a gap": {[]sweep.Curve{curve(0, 1, 1, .1), curve(2, 4, 2, .4, .6)},
			[]sweep.CurvePoint{{1, .1}, {4, .4}, {6, .6}}},
		"an empty one": {[]sweep.Curve{curve(0, 1, 1, .1), curve(1, 1, 1)}, []sweep.CurvePoint{{1, .1}}},
	} {
		if got := sweep.JoinCurves(tc.curves); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: joined to %v, want %v", name, got, tc.want)
		}
	}
}

// TestMethodAutoAlone: a search that says method: auto and nothing else is the default search. One that has a range of
// its own is not filled up with others.
func TestMethodAutoAlone(t *testing.T) {
	const head = "name: n\ndataset: d\nmetric: auc\ntrials: 9\n"
	read := func(text string) sweep.Search {
		s, err := sweep.ParseSpec("sweep.yaml", []byte(head+text), words())
		if err != nil {
			t.Fatalf("%s: got error %v, want none", text, err)
		}
		return s.Search
	}
	if got, want := read("search: {method: auto}\n"), read(""); !reflect.DeepEqual(got, want) {
		t.Errorf("with method: auto alone the search is %+v, want it as without search, %+v", got, want)
	}
	if got := read("search: {method: auto, random: {num_leaves: {int: [2, 9]}}}\n"); len(got.Random) != 1 {
		t.Errorf("a search of one parameter searches %v, want that one alone", got.Random)
	}
}

// TestAMachineThatGoesCostsAnAttempt: a task that is stopped from outside, however early, is tried again; a failure
// that would recur is not.
func TestAMachineThatGoesCostsAnAttempt(t *testing.T) {
	codes := sweep.RetryableExitCodes()
	for code, want := range map[int]bool{
		sweep.ExitTransient: true, sweep.ExitInterrupt: true, sweep.ExitTerminated: true, sweep.ExitKilled: true,
		sweep.ExitOK: false, sweep.ExitError: false, sweep.ExitInput: false, sweep.ExitSetup: false,
	} {
		if got := slices.Contains(codes, int32(code)); got != want {
			t.Errorf("exit code %d is tried again: %t, want %t", code, got, want)
		}
	}
}

// TestStopFillsWhatTheSpecLeavesOpen: where the spec does not say by what, trials are compared by rows if the sample
// has 2,000, and by trees otherwise or if the metric is of ranks. The sample has one row in 25, eta squared, of 50,000
// rows, and one in 5 below that: 49,999 rows would give 1,999, and so would one in 5 of 9,999, which compare by trees
// then. The rung is as many trees as cost the same, at least one: of 100 trees, one in 25 are 4.
func TestStopFillsWhatTheSpecLeavesOpen(t *testing.T) {
	asha := func(by string, eta int) sweep.Stop { return sweep.Stop{Rule: sweep.StopASHA, By: by, Eta: eta} }
	for _, c := range []struct {
		given       sweep.Stop
		trees, rows int
		rankOnly    bool
		want        sweep.Stop
		fits        bool
	}{
		{asha("", 0), 100, 1_000_000, false, sweep.Stop{By: sweep.ByRows, Eta: 5, OneIn: 25, Rungs: []int{4}}, true},
		{asha("", 3), 270, 1_000_000, false, sweep.Stop{By: sweep.ByRows, Eta: 3, OneIn: 9, Rungs: []int{30}}, true},
		{asha("", 0), 10, 49_999, false, sweep.Stop{By: sweep.ByRows, Eta: 5, OneIn: 5, Rungs: []int{2}}, true},
		{asha("", 0), 10, 50_000, false, sweep.Stop{By: sweep.ByRows, Eta: 5, OneIn: 25, Rungs: []int{1}}, true},
		{asha("", 0), 100, 9_999, false, sweep.Stop{By: sweep.ByTrees, Eta: 3}, true},
		{asha(sweep.ByTrees, 0), 100, 1_000_000, false, sweep.Stop{By: sweep.ByTrees, Eta: 3}, true},
		{asha(sweep.ByRows, 0), 100, 9_999, false, sweep.Stop{By: sweep.ByRows, Eta: 5}, false},
		{asha("", 0), 100, 1_000_000, true, sweep.Stop{By: sweep.ByTrees, Eta: 3}, true},
		{asha(sweep.ByRows, 0), 100, 1_000_000, true, sweep.Stop{By: sweep.ByRows, Eta: 5, OneIn: 25, Rungs: []int{4}},
			true},
	} {
		got := c.given
		fits := got.Fill(c.trees, c.rows, c.rankOnly)
		if fits != c.fits || got.By != c.want.By || got.Eta != c.want.Eta || got.OneIn != c.want.OneIn ||
			!slices.Equal(got.Rungs, c.want.Rungs) {
			t.Errorf("%+v with %d trees, %d rows, a metric of ranks %t: got %+v, fits %t; want %+v, %t", c.given,
				c.trees, c.rows, c.rankOnly, got, fits, c.want, c.fits)
		}
	}

	rows, trees := sweep.Stop{By: sweep.ByRows, OneIn: 16, Rungs: []int{4}}, sweep.Stop{Rungs: []int{10, 30}}
	if got := rows.Reached(4); got != "on one row in 16" {
		t.Errorf("by rows, the rung is reached %q, want on one row in 16", got)
	}
	if got := trees.Reached(10); got != "at 10 trees" {
		t.Errorf("by trees, the first rung is reached %q, want at 10 trees", got)
	}
}

// TestStopIsChecked: search.stop is refused if its rule or what it compares by is unknown, or if it compares by rows
// and has a first rung in trees. A number that is too small is refused, too: a written 0 is not taken for the default.
// An empty text stands for no error.
func TestStopIsChecked(t *testing.T) {
	for stop, want := range map[string]string{
		"{rule: asha, by: rows}":               "",
		"{rule: hyperband, by: rows}":          "",
		"{rule: asha, by: rows, min_trees: 5}": "min_trees is the first rung by: trees",
		"{rule: asha, by: row}":                `unknown "row"`,
		"{rule: median}":                       "unknown rule",
		"{rule: asha, eta: 1}":                 "eta is 1: one in eta trials continues at a rung; use 2 to 100",
		"{rule: asha, eta: 0}":                 "search.stop.eta is 0: use a number above 0, or leave it out",
		"{rule: asha, min_trees: -1}":          "min_trees is -1: use 1 or more",
		"{rule: asha, min_trees: 0}":           "search.stop.min_trees is 0: use a number above 0, or leave it out",
	} {
		_, err := sweep.ParseSpec("sweep.yaml",
			[]byte(strings.Replace(good, "search:\n", "search:\n  stop: "+stop+"\n", 1)), words())
		must.Say(t, "stop: "+stop, err, want)
	}
}

// TestSeenRungsAreBounded: a decision that has seen a trial with more rungs than there can be, or with rungs that do
// not ascend, is damaged, so that no search spends its time on it.
func TestSeenRungsAreBounded(t *testing.T) {
	for rungs, ok := range map[string]bool{
		`{"step": 3, "score": 0.5}, {"step": 9, "score": 0.6}`:          true,
		`{"step": 9, "score": 0.6}, {"step": 3, "score": 0.5}`:          false,
		`{"step": 3}` + strings.Repeat(`, {"step": 3, "score": 1}`, 40): false,
	} {
		text := `{"format": 1, "sweep": "test-1", "trial": 2, "params": {"a": 1}, "own": {"a": 1}, "seen": ` +
			`[{"trial": 1, "status": "stopped", "score": 0.5, "rungs": [` + rungs + `]}]}`
		if _, err := sweep.DecodeDecision([]byte(text)); (err == nil) != ok {
			t.Errorf("a decision that has seen rungs %.60s: error %v; want it to be read: %t", rungs, err, ok)
		}
	}
}
