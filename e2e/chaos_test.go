//go:build e2e

package e2e

import (
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// A chaos run is a whole sweep, by the built programs on the local cloud, under a random script of faults. Whatever
// strikes, these hold:
//
//   - the sweep has a winner, and the registry exactly one version of it;
//   - it is the trial that wins undisturbed, and its models, the judged and the final one or with
//     COPPICE_CHAOS_ENSEMBLE the mean of so many, and its calibrator have the same bytes;
//   - launcher registry reproduce makes the version's bytes again;
//   - every trial is done or, with COPPICE_CHAOS_STOP, stopped as it was decided: none that was promoted is lost.
//     Only where the order of arrival counts, with asha and hyperband, another trial may win;
//   - with COPPICE_CHAOS_METHOD, which finds configurations while the sweep runs, another trial may win too, but no
//     two trials have the same one, each was trained with what was decided, and every decision comes out again of
//     what it has seen;
//   - nobody's work is left behind: no checkpoint that holds anything, no object or file with a name that is
//     none of a sweep's, no machine;
//   - a sweep that was cancelled has no version.
//
// What strikes is chosen by the run's seed alone. When, mostly, too: at the nth write of a kind, not after a time.

// follow is a shell script that runs the sweep and, if it has one more argument, cancels it after so many seconds. That
// the sweep has ended by then (exit code 5) is no error. The script ends when no task of the sweep runs any more, so
// that the test can look at what they have left. A command that fails under faults is given again.
//
//go:embed testdata/follow.sh
var follow string

// TestE2EChaos: a sweep keeps the promises that stand at the head of this file, whatever faults strike. The test runs
// COPPICE_CHAOS_RUNS sweeps, 2 if that is not set, under random scripts of faults, whose seeds count up from
// COPPICE_CHAOS_SEED. `make chaos RUNS=200 SEED=1` runs many. With 20 runs or more, each kind of faults also has to
// strike in 40 % of the runs, so that none goes untested; only cancelling a sweep, which is rarer, need not.
func TestE2EChaos(t *testing.T) {
	runs, seed := number(t, "COPPICE_CHAOS_RUNS", 2),
		uint64(number(t, "COPPICE_CHAOS_SEED", int(time.Now().Unix()%1e6)))
	limit := time.Duration(number(t, "COPPICE_CHAOS_MINUTES", 600)) * time.Minute

	// Run the sweep undisturbed, with the settings of the environment.
	calm := newLocal(t)
	file := calm.smallSweep(chaosTrials)
	text := must.Get(os.ReadFile(file))(t)
	setting := "search: {"
	if rule := chaosStop(); rule != "" {
		setting += "stop: {rule: " + rule + ", min_trees: 5}, "
	}
	if method := chaosMethod(); method != "" {
		setting += "method: " + method + ", "
	}
	changed := strings.Replace(string(text), "search: {", setting, 1)
	if n := os.Getenv("COPPICE_CHAOS_ENSEMBLE"); n != "" {
		changed = strings.Replace(changed, "metric: auc", "metric: auc\nensemble: {bag: "+n+"}", 1)
		table := filepath.Join(calm.dir, "dataset.yaml") // a bag takes no statistics of ids
		calm.must("launcher", "stage", calm.file("dataset.yaml",
			string(must.Get(os.ReadFile(table))(t))+"encodings: none\n"), "--json")
	}
	calm.file("sweep.yaml", changed)
	calm.file("follow.sh", follow)
	want := calm.chaos("calm")
	if len(want.wrong) > 0 {
		t.Fatalf("the undisturbed sweep: %s", strings.Join(want.wrong, "; "))
	}
	t.Logf("undisturbed: trial %d wins after %s; seeds from %d", want.trial, want.took.Round(100*time.Millisecond),
		seed)

	// Run it disturbed, several at once, until all seeds are done or the time is over: a run that has begun ends.
	var mu sync.Mutex // guards done
	var done []chaosRun
	var group sync.WaitGroup
	start, next := time.Now(), make(chan uint64)
	for range number(t, "COPPICE_CHAOS_AT_ONCE", 3) {
		group.Go(func() {
			for n := range next {
				run := calm.disturbed(n, want)
				mu.Lock()
				done = append(done, run)
				mu.Unlock()
				if len(run.wrong) > 0 {
					t.Errorf("seed %d: %s\n%s", n, strings.Join(run.wrong, "; "), run.script)
					continue
				}
				t.Logf("seed %d: every promise kept, after %s and %d kinds of faults", n,
					run.took.Round(100*time.Millisecond), len(run.struck))
			}
		})
	}
	for n := range runs {
		if time.Since(start) > limit {
			break
		}
		next <- seed + uint64(n)
	}
	close(next)
	group.Wait()

	t.Log("\n" + chaosTable(done))
	if len(done) < 20 { // too few: of two runs, a kind that is in 80 % of the scripts is in neither once in 25 times
		return
	}
	for _, c := range chaosClasses() {
		if n := fired(done, c.counted); c.share == most && float64(n) < 0.4*float64(len(done)) {
			t.Errorf("%s: in %d of %d runs; want 40 %% of them", c.counted, n, len(done))
		}
	}
}

// chaosStop returns the rule by which trials of the sweeps are paused and promoted, "" if all run to their ends.
func chaosStop() string { return os.Getenv("COPPICE_CHAOS_STOP") }

// chaosMethod returns how configurations are found while a sweep runs, "" if they are drawn at random before it.
func chaosMethod() string { return os.Getenv("COPPICE_CHAOS_METHOD") }

// number returns the setting of that name, which has to be a whole number from 1 on, or otherwise if it is not set.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: use a number from 1 on", name, text)
	}
	return n
}

// chaosRun is what came of a run.
type chaosRun struct {
	outcome
	seed   uint64
	script string
	took   time.Duration
	struck map[string]int // how often each class of faults has struck
	claims int            // how many claims of trials there were
	wrong  []string       // the promises that were broken; none is the aim

	cancelled bool
}

// disturbed runs the sweep under the script of faults that follows from the seed, in a copy of l. want is the run that
// was not disturbed. If something is wrong, the copy's folder stays and wrong says where it is.
func (l *local) disturbed(seed uint64, want chaosRun) chaosRun {
	s := newScript(seed)
	own, err := l.twin()
	if err != nil {
		return chaosRun{seed: seed, wrong: []string{err.Error()}}
	}
	own.args = append(s.args, "--faults", own.file("faults.yaml", s.text()))

	run := own.chaos(fmt.Sprint("seed ", seed), s.cancel...)
	run.seed, run.script = seed, s.text()+"cancelled after: "+strings.Join(s.cancel, "")+"\n"
	anyOrder := chaosMethod() == "" && (chaosStop() == "" || chaosStop() == sweep.StopHalving)
	if got := run.outcome; len(run.wrong) == 0 && anyOrder && !run.cancelled && got != want.outcome {
		run.wrong = append(run.wrong, fmt.Sprintf("it ended with %+v, undisturbed with %+v", got, want.outcome))
	}
	if len(run.wrong) == 0 {
		os.RemoveAll(own.dir)
	} else {
		run.wrong = append(run.wrong, "see "+own.dir)
	}
	return run
}

// twin returns another local cloud with the same dataset and the same files of a sweep. Its folder is not removed when
// the test ends.
func (l *local) twin() (*local, error) {
	dir, err := os.MkdirTemp("", "coppice-chaos-")
	if err != nil {
		return nil, err
	}
	own := &local{t: l.t, dir: dir, data: filepath.Join(dir, "cloud")}
	// The emulator's records of the objects are copied, too: it forgets objects of which it has only contents.
	copied := fmt.Sprintf("mkdir -p %s/gcs && cp -a %s/gcs/coppice-datasets %s/gcs/.records %s/gcs/ && cp "+
		"%s/sweep.yaml %s/follow.sh %s/", own.data, l.data, l.data, own.data, l.dir, l.dir, dir)
	if out, err := exec.Command("sh", "-c", copied).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return own, nil
}

// chaos runs the sweep, at most for 300 seconds, and looks at what it leaves. name is what messages call the run.
// cancel is empty, or says after how many seconds the sweep is cancelled.
func (l *local) chaos(name string, cancel ...string) (run chaosRun) {
	wrong := func(format string, args ...any) { run.wrong = append(run.wrong, fmt.Sprintf(format, args...)) }
	start := time.Now()
	args := slices.Concat([]string{"300", binaryOf(l.t, "localemu"), "exec", "--data", l.data}, l.args,
		[]string{"--", "sh", filepath.Join(l.dir, "follow.sh"), binaryOf(l.t, "launcher")}, cancel)
	r := execute(l.t, l.dir, nil, "timeout", args...)
	run.took = time.Since(start)

	run.struck = map[string]int{}
	if text, err := os.ReadFile(filepath.Join(l.data, "faults.json")); err == nil {
		if err := json.Unmarshal(text, &run.struck); err != nil {
			wrong("%v", err)
		}
	}
	// A sweep that is cancelled ends with ExitNoWinner, unless it has ended before.
	mayBe := len(cancel) > 0
	if r.code != 0 && !(mayBe && r.code == sweep.ExitNoWinner) {
		wrong("%s ended with %d: %.2000s", name, r.code, r.errOut)
		return run
	}

	c := conclusion(l.t, r.out)
	run.trial, run.version = c.Trial, c.Version
	if run.cancelled = mayBe && c.Outcome == sweep.OutcomeCancelled; run.cancelled {
		run.struck[sweepCancelled]++
	} else if !concludedAs(c) {
		wrong("%s: %s, %d done, %d failed: %s", name, c.Outcome, c.Done, c.Failed, c.Reason)
	}
	l.leftovers(&run, wrong)
	if run.version > 0 { // train the version again, now without faults
		again := execute(l.t, l.dir, nil, "timeout", "120", binaryOf(l.t, "localemu"), "exec", "--data", l.data, "--",
			binaryOf(l.t, "launcher"), "registry", "reproduce", "ctr@1")
		if again.code != 0 || !strings.Contains(again.out, "the same bytes") {
			wrong("trained again, the version is another: exit %d, %.1000s %.1000s", again.code, again.out,
				again.errOut)
		}
	}
	return run
}

// concludedAs reports whether a sweep that was not cancelled may end with the conclusion c: with a winner of all
// trials, or of those that were not stopped.
func concludedAs(c *sweep.Conclusion) bool {
	return c.Failed == 0 && c.Outcome == sweep.OutcomeWinner && c.Version == 1 &&
		(c.Done == chaosTrials || c.Done > 0 && chaosStop() != "")
}

// leftovers goes through all objects after the end. It writes into run the checksums of the version's files and the
// number of claims, and calls wrong for each object or machine that should not be there.
func (l *local) leftovers(run *chaosRun, wrong func(string, ...any)) {
	versions := 0
	names := sweep.Names("chaos")
	objects := l.objects()
	if !run.cancelled {
		promises(objects, wrong)
	}
	if chaosMethod() != "" {
		learntFrom(objects, "chaos", wrong)
	}
	for object, data := range objects {
		bucket, name, _ := strings.Cut(object, "/")
		trial, part, _, ours := names.ParseTrialObject(name)
		switch {
		case bucket == "coppice-registry" && strings.HasSuffix(name, "/version.json"):
			versions++
		case bucket == "coppice-registry" && strings.HasSuffix(name, "/model.txt"):
			run.model = fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
		case bucket == "coppice-registry" && strings.HasSuffix(name, "/judged.txt"):
			run.judged = fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
		case bucket == "coppice-registry" && strings.HasSuffix(name, "/calibrator.json"):
			run.calibrate = fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
		case bucket == "coppice-registry" && strings.Contains(name, "/other/"):
			wrong("%s: a version's files were written twice, and differ", name)
		case bucket != "coppice-sweeps":
		case ours && part == sweep.PartCheckpoint && data != "":
			wrong("%s holds %d bytes after the end", name, len(data))
		case ours && part == sweep.PartClaim:
			run.claims++
		case strings.HasPrefix(name, names.Troubles()): // what tasks wait for
		case ours && part == sweep.PartOther && !strings.Contains(name, "/attempts/"),
			ours && trial > chaosTrials: // that is the final training
			wrong("%s is an object of no known kind", name)
		case chaosMethod() != "" && strings.HasPrefix(name, names.Configurations()):
		case name == names.Cancel() && run.cancelled:
		case !ours && !slices.Contains([]string{names.Plan(), names.Ending(), names.Conclusion(),
			names.Told(sweep.OccasionConcluded, "topic")}, name):
			wrong("%s is an object of no known kind", name)
		}
	}
	if versions != min(run.version, 1) {
		wrong("the registry has %d versions, want %d", versions, min(run.version, 1))
	}
	if left, _ := filepath.Glob(filepath.Join(l.data, "machines", "*", "*")); len(left) > 0 {
		wrong("machines are left: %q", left)
	}
}

// promises calls wrong for each paused trial that did not get what was decided about it: one that was promoted has to
// be done or to have come to a later rung, and one that was not has to be stopped at that rung.
func promises(objects map[string]string, wrong func(string, ...any)) {
	names := sweep.Names("chaos")
	for trial := range chaosTrials {
		r, err := sweep.DecodeResult([]byte(objects["coppice-sweeps/"+names.Result(trial)]))
		if err != nil {
			wrong("the result of trial %d: %v", trial, err)
			continue
		}
		last := 0
		for object := range objects {
			_, name, _ := strings.Cut(object, "/")
			if of, part, step, ok := names.ParseTrialObject(name); ok && of == trial && part == sweep.PartRung {
				last = max(last, step)
			}
		}
		for object, data := range objects {
			_, name, _ := strings.Cut(object, "/")
			of, part, step, ok := names.ParseTrialObject(name)
			if !ok || of != trial || part != sweep.PartPromotion {
				continue
			}
			p, err := sweep.DecodePromotion([]byte(data))
			switch {
			case err != nil:
				wrong("%s: %v", name, err)
			case p.Promoted && r.Status != sweep.StatusDone && last <= step:
				wrong("trial %d was promoted at %d trees and is lost: it ended %s: %s", trial, step, r.Status, r.Reason)
			case !p.Promoted && (r.Status != sweep.StatusStopped || last != step):
				wrong("trial %d was to stop at %d trees, came to %d and ended %s: %s", trial, step, last, r.Status,
					r.Reason)
			}
		}
	}
}

// chaosClass is a kind of faults.
type chaosClass struct {
	counted string                             // what localemu counts it as
	share   float64                            // the share of the scripts that have it
	add     func(r *rand.Rand, s *chaosScript) // writes such a fault, chosen with r, into a script
}

// chaosScript is a run's file of faults while it is being written, and how the run is started.
type chaosScript struct {
	keys    []string            // of entries, in the order of their first use
	entries map[string][]string // the lines of each list in the file
	plain   []string            // the lines that come before the lists
	args    []string            // of localemu
	cancel  []string            // empty, or after how many seconds the sweep is cancelled
}

// say adds a line that is no entry of a list.
func (s *chaosScript) say(format string, args ...any) {
	s.plain = append(s.plain, fmt.Sprintf(format, args...))
}

// add adds an entry to the list of that key.
func (s *chaosScript) add(key, format string, args ...any) {
	if s.entries[key] == nil {
		s.keys = append(s.keys, key)
	}
	s.entries[key] = append(s.entries[key], fmt.Sprintf("  - {"+format+"}", args...))
}

// text returns the file.
func (s *chaosScript) text() string {
	lines := slices.Clone(s.plain)
	for _, key := range s.keys {
		lines = append(append(lines, key+":"), s.entries[key]...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// chaosTrials is how many trials the sweep has, on two machines with two tasks each.
const chaosTrials = 10

// moment returns, as YAML, a random write at which something may strike. The first seven writes of a kind happen while
// machines still have work.
func moment(r *rand.Rand) string {
	match := []string{"claims/*", "checkpoints/**", "heartbeats/*", "result.json", "attempts/**"}[r.IntN(5)]
	return fmt.Sprintf(`match: "sweeps/*/trials/*/%s", nth: %d`, match, 1+r.IntN(7))
}

// most is the share of the scripts that have a class of faults. It is above the 40 % of TestE2EChaos because some
// faults never strike, as when the sweep ends before.
const most = 0.8

// sweepCancelled is what a cancelled sweep is counted as: something that a person does, unlike the faults of localemu.
const sweepCancelled = "sweep cancelled"

// chaosClasses returns all classes of faults. Their order is part of what a seed means.
func chaosClasses() []chaosClass {
	// Each of these returns a function for add, for faults of one kind that differ in a code, a status or the like.
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
					"releases/*"}[r.IntN(6)]
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
				s.add("at_write", `match: "%s", nth: %d, does: kill_aggregators`, match, 1+r.IntN(4))
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

// newScript returns the script of a seed, always the same.
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

// fired returns in how many runs a class of faults has struck.
func fired(runs []chaosRun, class string) (n int) {
	for _, r := range runs {
		if r.struck[class] > 0 {
			n++
		}
	}
	return n
}

// chaosTable returns a table in Markdown of how often each class of faults has struck, and a line with totals.
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
