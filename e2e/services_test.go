//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// script runs a shell script inside the local cloud, with the launcher as $1 and further arguments after it.
func (l *local) script(text string, args ...string) ran {
	l.t.Helper()
	sh := must.Get(exec.LookPath("sh"))(l.t)
	command := slices.Concat([]string{"exec", "--data", l.data}, l.args,
		[]string{"--", sh, l.file("script.sh", "set -e\n"+text), binaryOf(l.t, "launcher")}, args)
	return execute(l.t, l.dir, nil, binaryOf(l.t, "localemu"), command...)
}

// read is a file that a script has left.
func (l *local) read(name string) string {
	l.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(l.dir, name)))(l.t)
	return string(text)
}

// ranJobs are the ids of all Batch jobs that have started a task.
func (l *local) ranJobs() []string {
	l.t.Helper()
	logs := must.Get(filepath.Glob(filepath.Join(l.data, "logs", "*", "task-0.attempt-0.log")))(l.t)
	var ids []string
	for _, log := range logs {
		ids = append(ids, filepath.Base(filepath.Dir(log)))
	}
	return ids
}

// TestE2EOneSlotOneJob fires one slot of a schedule three times at once, and again after a new version of the dataset
// and a change of the spec: it stays one job, one sweep, one registered version. The schedule's slot is new year's day,
// so that none begins while the test runs.
func TestE2EOneSlotOneJob(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	file := l.smallSweep(6)
	other := filepath.Join(l.dir, "clicks-2.parquet")
	execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "20000", "--seed", "8", "--out", other).ok(t)
	l.file("dataset-2.yaml", strings.Replace(l.read("dataset.yaml"), "clicks.parquet", "clicks-2.parquet", 1))
	l.file("sweep-2.yaml", strings.Replace(l.read("sweep.yaml"), "trials: 6", "trials: 7", 1))
	r := l.script(`
fire() { "$1" sweep "$2" --schedule "0 0 1 1 *" --time-zone UTC --no-wait --json; }
fire "$1" "$2" >a.json & a=$!
fire "$1" "$2" >b.json & b=$!
fire "$1" "$2" >c.json & c=$!
wait $a; wait $b; wait $c
"$1" stage dataset-2.yaml --json >staged.json
fire "$1" sweep-2.yaml >d.json
"$1" sweep "$2" --schedule "0 0 1 1 *" --json >e.json
"$1" status --json >ls.json
`, file)
	r.ok(t)
	var first map[string]any
	for _, name := range []string{"a.json", "b.json", "c.json", "d.json"} {
		var got map[string]any
		decode(t, l.read(name), &got)
		delete(got, "ended") // it may have, when the last one came
		if first == nil {
			first = got
		}
		if !maps.Equal(got, first) || !strings.Contains(fmt.Sprint(got["sweep"]), "0101-0000") {
			t.Errorf("%s says %v and the first said %v; expected the same, of the sweep of 0101-0000", name, got, first)
		}
	}
	c := conclusion(t, l.read("e.json"))
	if c.Outcome != sweep.OutcomeWinner || c.Done != 6 || len(l.versions("ctr")) != 1 {
		t.Errorf("the sweep ended with %+v; expected a winner of 6 trials, as the only version", c)
	}
	if jobs := l.ranJobs(); !slices.Equal(jobs, []string{string(c.Sweep)}) {
		t.Errorf("jobs %q", jobs)
	}
	var listed []map[string]any
	if err := json.Unmarshal([]byte(l.read("ls.json")), &listed); err != nil || len(listed) != 1 {
		t.Errorf("%d sweeps: %v", len(listed), err)
	}
	for name := range l.objects() {
		if strings.HasSuffix(name, "/claims/1") {
			t.Errorf("a trial was trained twice: %s", name)
		}
	}
}

// TestE2EPushAloneConcludes: where the schedule's calls are refused, what tasks publish has a sweep concluded, and
// where pushes are, the schedule does, so that each is seen without the other.
func TestE2EPushAloneConcludes(t *testing.T) {
	t.Parallel()
	calm := newLocal(t)
	want := calm.outcome(calm.smallSweep(6))
	const both = "coppice-push@local-project.iam.gserviceaccount.com," +
		"coppice-scheduler@local-project.iam.gserviceaccount.com"
	for _, caller := range strings.Split(both, ",") {
		t.Run(caller, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t)
			file := l.smallSweep(6)
			only := l.file("aggregator.sh", "#!/bin/sh\n[ \"$COPPICE_CALLERS\" = "+both+" ] || exit 1\n"+
				"COPPICE_CALLERS="+caller+" exec "+binaryOf(t, "aggregator")+" \"$@\"\n")
			must.Do(t, os.Chmod(only, 0o755))
			l.args = append(l.args, "--aggregator", only)
			// Without word of the job's end, which calls /reconcile as well.
			l.script(`unset COPPICE_JOBS_TOPIC; "$1" sweep "$2"`, file).ok(t)
			if got := l.outcome(file); got != want {
				t.Errorf("got %+v, and with both %+v", got, want)
			}
		})
	}
}
