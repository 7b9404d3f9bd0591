//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"coppice/internal/sweep"
)

// chaosClass is a kind of faults: what localemu counts it as, and what a script says to have it.
type chaosClass struct {
	counted string
	share   float64 // of the scripts
	add     func(r *rand.Rand, s *chaosScript)
}

// chaosScript is what a run's file of faults says, by key.
type chaosScript struct {
	keys    []string
	entries map[string][]string
	plain   []string
	args    []string
	cancel  []string // empty, or after how many seconds the sweep is cancelled
}

func (s *chaosScript) say(format string, args ...any) {
	s.plain = append(s.plain, fmt.Sprintf(format, args...))
}

func (s *chaosScript) add(key, format string, args ...any) {
	if s.entries[key] == nil {
		s.keys = append(s.keys, key)
	}
	s.entries[key] = append(s.entries[key], fmt.Sprintf("  - {"+format+"}", args...))
}

func (s *chaosScript) text() string {
	lines := slices.Clone(s.plain)
	for _, key := range s.keys {
		lines = append(append(lines, key+":"), s.entries[key]...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// chaosTrials is how many trials the sweep has, on two machines with two tasks each.
const chaosTrials = 10

// moment is a write at which something may strike, while machines still have work.
func moment(r *rand.Rand) string {
	match := []string{"claims/*", "checkpoints/**", "heartbeats/*", "result.json", "attempts/**"}[r.IntN(5)]
	return fmt.Sprintf(`match: "sweeps/*/trials/*/%s", nth: %d`, match, 1+r.IntN(7))
}

// most is the share of the scripts that have a class; some of those entries come to nothing.
const most = 0.8

// sweepCancelled is what a person does, and counted by follow.
const sweepCancelled = "sweep cancelled"

func chaosClasses() []chaosClass {
	machine := func(code int) func(*rand.Rand, *chaosScript) {
		return func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: lose_machine, vm: %d, code: %d", moment(r), r.IntN(2), code)
		}
	}
	read := func(more string) func(*rand.Rand, *chaosScript) {
		return func(r *rand.Rand, s *chaosScript) {
			match := []string{"datasets/*/*/**", "sweeps/*/trials/**"}[r.IntN(2)]
			s.add("read_fault", `match: "%s", times: %d, %s`, match, 1+r.IntN(3), more)
		}
	}
	write := func(key, more string) func(*rand.Rand, *chaosScript) {
		return func(r *rand.Rand, s *chaosScript) {
			for range 1 + r.IntN(3) {
				match := []string{"claims/*", "checkpoints/**", "heartbeats/*", "result.json", "attempts/**",
					"releases/*"}[r.IntN(5)]
				s.add(key, `match: "sweeps/*/trials/*/%s", times: %d%s`, match, 1+r.IntN(3), more)
			}
			match := []string{"sweeps/*/ending.json", "sweeps/*/conclusion.json", "registry/**"}[r.IntN(3)]
			s.add(key, `match: "%s", times: 1%s`, match, more)
		}
	}
	return []chaosClass{
		{"machine preempted (50001)", most, machine(50001)},
		{"machine lost (50002)", most, machine(50002)},
		{"machine rebooted (50003)", most, machine(50003)},
		{"machine unresponsive (50004)", most, machine(50004)},
		{"machine recreated (50006)", most, machine(50006)},
		{"notice before the end", most, func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: lose_machine, vm: %d, code: 50001, notice: 8s", moment(r), r.IntN(2))
		}},
		{"task killed", most, func(r *rand.Rand, s *chaosScript) {
			s.add("at_write", "%s, does: kill_task, task: %d", moment(r), r.IntN(4))
		}},
		{"aggregator killed", most, func(r *rand.Rand, s *chaosScript) {
			for range 1 + r.IntN(3) {
				match := []string{"sweeps/*/ending.json", "registry/**", "sweeps/*/trials/*/result.json"}[r.IntN(3)]
				s.add("at_write", `match: "%s", nth: %d, does: kill_aggregators`, match, 1+r.IntN(4)%chaosTrials)
			}
			s.add("at_write", `match: "sweeps/*/ending.json", does: kill_aggregators`)
		}},
		{"write refused", most, func(r *rand.Rand, s *chaosScript) {
			write("refuse_write", fmt.Sprintf(", status: %d", []int{429, 500, 503}[r.IntN(3)]))(r, s)
			s.add("refuse_write", `match: "**", status: 429`) // the service's limit
		}},
		{"answer lost", most, write("lose_answer", "")},
		{"read refused", most, func(r *rand.Rand, s *chaosScript) {
			read(fmt.Sprintf("status: %d", []int{429, 503}[r.IntN(2)]))(r, s)
		}},
		{"delay", most, read("delay: 700ms")},
		{"message dropped", most,
			func(r *rand.Rand, s *chaosScript) { s.say("drop_messages: %.1f", 0.2+0.8*r.Float64()) }},
		{"message doubled", most, func(_ *rand.Rand, s *chaosScript) { s.say("duplicate_messages: true") }},
		{"messages shuffled", most, func(_ *rand.Rand, s *chaosScript) { s.say("shuffle_messages: true") }},
		{"acknowledgement lost", most,
			func(r *rand.Rand, s *chaosScript) { s.say("lose_acks: %.1f", 0.3+0.7*r.Float64()) }},
		{sweepCancelled, 0.25, func(r *rand.Rand, s *chaosScript) {
			s.cancel = []string{fmt.Sprintf("%.1f", 4*r.Float64())}
		}},
	}
}

// newScript is the script of a seed.
func newScript(seed uint64) *chaosScript {
	r := rand.New(rand.NewPCG(seed, 0xc4a05))
	s := &chaosScript{entries: map[string][]string{}}
	s.say("seed: %d", seed)
	for _, c := range chaosClasses() {
		if r.Float64() < c.share {
			c.add(r, s)
		}
	}
	s.args = []string{"--aggregators", strconv.Itoa(1 + r.IntN(3))}
	return s
}

// fired is in how many runs a class has struck.
func fired(runs []chaosRun, class string) (n int) {
	for _, r := range runs {
		if r.struck[class] > 0 {
			n++
		}
	}
	return n
}

// chaosTable is what struck how often.
func chaosTable(runs []chaosRun) string {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"fault", "runs", "share", "times"})
	for _, c := range chaosClasses() {
		times, n := 0, fired(runs, c.counted)
		for _, r := range runs {
			times += r.struck[c.counted]
		}
		t.AppendRow(table.Row{c.counted, n, fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(1, len(runs)))), times})
	}

	var took time.Duration
	wrong, claims, cancelled := 0, 0, 0
	for _, r := range runs {
		took += r.took
		claims += r.claims
		if len(r.wrong) > 0 {
			wrong++
		}
		if r.cancelled {
			cancelled++
		}
	}
	return fmt.Sprintf("%s\n\n%d sweeps of %d trials, %d cancelled, %d claims, %d broke a promise; %.1f s a "+
		"sweep\n", t.RenderMarkdown(), len(runs), chaosTrials, cancelled, claims, wrong,
		took.Seconds()/float64(max(1, len(runs))))
}

const (
	spotVMs    = 2
	spotEvery  = 30 * time.Second // of machine time
	spotLosses = 40               // beyond what a sweep of these lasts
)

// TestSpotMachinesLost trains a sweep twice, side by side, so that what else runs here slows both: on machines that
// stay, and on machines of which one vanishes without notice after every 30 s of machine time. It says how much longer
// the second takes and how much of it was trained twice. `make chaos-spot` runs it; it is no part of `make e2e`, since
// it measures time.
func TestSpotMachinesLost(t *testing.T) {
	trials := number(t, "COPPICE_SPOT_TRIALS", 6)
	iterations := number(t, "COPPICE_SPOT_ITERATIONS", 1500)

	calm := newLocal(t)
	execute(t, calm.dir, nil, binaryOf(t, "clicks"), "--rows", "60000", "--out",
		filepath.Join(calm.dir, "clicks.parquet")).ok(t)
	ds := calm.file("dataset.yaml",
		"name: clicks\nsource: clicks.parquet\nlabel: is_click\ndrop: [impression_id, ts]\ncategorical: "+
			"[campaign_id, publisher_id]\n"+
			"split: {by: hash, key: user_id, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n")
	calm.must("launcher", "stage", ds, "--json")
	calm.file("sweep.yaml",
		fmt.Sprintf("name: spot\ndataset: clicks\nmodel: ctr\nmetric: auc\ntrials: %d\nseed: 3\nparams: "+
			"{num_iterations: %d, learning_rate: 0.01, num_leaves: 31}\n"+
			"search: {random: {feature_fraction: {uniform: [0.5, 1]}, lambda_l2: {uniform: [0, 10]}}}\n"+
			"machine: {type: n2-highmem-2, vms: %d, threads_per_task: 1, tasks_per_vm: 1}\nlimits: {trial: 10m, "+
			"sweep: 3h}\n", trials, iterations, spotVMs))
	calm.file("follow.sh", strings.ReplaceAll(follow, "chaos", "spot"))

	lost := &local{t: t, dir: t.TempDir()}
	lost.data = filepath.Join(lost.dir, "cloud")
	execute(t, calm.dir, nil, "sh", "-c",
		fmt.Sprintf("mkdir -p %s/gcs && cp -a cloud/gcs/coppice-datasets cloud/gcs/.records %s/gcs/ && cp "+
			"sweep.yaml follow.sh %s/", lost.data, lost.data, lost.dir)).ok(t)
	losses := make([][]string, spotVMs)
	for i := range spotLosses {
		losses[i%spotVMs] = append(losses[i%spotVMs], (time.Duration(i+1) * spotEvery / spotVMs).String())
	}
	faults := "lose_machine:\n"
	for vm, after := range losses {
		faults += fmt.Sprintf("  %d: [%s]\n", vm, strings.Join(after, ", "))
	}
	lost.args = []string{"--faults", lost.file("faults.yaml", faults)}

	// Side by side, each with its own time.
	var group sync.WaitGroup
	var runs [2]spotRun
	for i, l := range []*local{calm, lost} {
		group.Go(func() { runs[i] = l.spot(trials) })
	}
	group.Wait()
	for i, r := range runs {
		if r.wrong != "" {
			t.Fatalf("sweep %d: %s", i, r.wrong)
		}
	}

	stays, vanishes := runs[0], runs[1]
	ratio, twice := vanishes.took.Seconds()/stays.took.Seconds(), float64(vanishes.twice)/float64(vanishes.trees)
	t.Logf("%d trials of %d trees on %d machines: %.0f s on machines that stay; %.0f s, %.2f times as long, with "+
		"one lost after every %s of machine time: %d claims lost, %d of %d trees (%.1f %%) grown twice",
		trials, iterations, spotVMs, stays.took.Seconds(), vanishes.took.Seconds(), ratio, spotEvery,
		vanishes.claims-trials, vanishes.twice, vanishes.trees, 100*twice)

	if stays.model != vanishes.model {
		t.Error("the sweep on vanishing machines has another model")
	}
	if vanishes.claims == trials {
		t.Errorf("no machine was lost in %s: the sweep is too short (COPPICE_SPOT_ITERATIONS)", vanishes.took)
	}
	if ratio > 1.35 {
		t.Errorf("it took %.2f times as long; want 1.35 at most", ratio)
	}
	if twice >= 0.1 {
		t.Errorf("%.1f %% of the trees were grown twice; want less than 10 %%", 100*twice)
	}
}

// spotRun is what came of a sweep.
type spotRun struct {
	took         time.Duration // from the first claim to the last result
	model        string
	claims       int
	trees, twice int
	wrong        string
}

func (l *local) spot(trials int) (run spotRun) {
	args := append([]string{"exec", "--data", l.data}, l.args...)
	r := execute(l.t, l.dir, nil, binaryOf(l.t, "localemu"), append(args, "--", "sh", filepath.Join(l.dir, "follow.sh"),
		binaryOf(l.t, "launcher"))...)
	if r.code != 0 {
		return spotRun{wrong: fmt.Sprintf("it ended with %d: %.2000s", r.code, r.errOut)}
	}
	if c := conclusion(l.t, r.out); c.Outcome != sweep.OutcomeWinner || c.Done != trials {
		return spotRun{wrong: fmt.Sprintf("%s, %d of %d trials done", c.Outcome, c.Done, trials)}
	}

	var first, last time.Time
	names, objects := sweep.Names("spot"), l.objects()
	saved := l.savedTrees()
	for trial := range trials {
		for claim := 0; ; claim++ {
			c, err := sweep.DecodeClaim([]byte(objects["coppice-sweeps/"+names.Claim(trial, claim)]))
			if err != nil {
				break
			}
			run.claims++
			if first.IsZero() || c.At.Before(first) {
				first = c.At
			}

			// What the holder had grown by its last sign of life beyond what it had saved, another grew again.
			h, err := sweep.DecodeHeartbeat([]byte(objects["coppice-sweeps/"+names.Heartbeat(trial, claim)]))
			_, followed := objects["coppice-sweeps/"+names.Claim(trial, claim+1)]
			if err == nil && followed {
				run.twice += max(0, h.Trees-saved[[2]int{trial, claim}])
			}
		}

		result, err := sweep.DecodeResult([]byte(objects["coppice-sweeps/"+names.Result(trial)]))
		if err != nil {
			return spotRun{wrong: err.Error()}
		}
		run.trees += result.TreesGrown
		if result.Ended.After(last) {
			last = result.Ended
		}
	}
	run.took = last.Sub(first)
	run.model = objects["coppice-registry/registry/ctr/versions/1/model.txt"]
	return run
}

// savedTrees is how many trees each claim of a trial had saved, as the tasks' logs say.
func (l *local) savedTrees() map[[2]int]int {
	saved := map[[2]int]int{}
	logs, _ := filepath.Glob(filepath.Join(l.data, "logs", "spot", "*.log"))
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			l.t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			var entry struct {
				Message             string
				Trial, Claim, Trees int
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "checkpoint saved" {
				at := [2]int{entry.Trial, entry.Claim}
				saved[at] = max(saved[at], entry.Trees)
			}
		}
	}
	return saved
}
