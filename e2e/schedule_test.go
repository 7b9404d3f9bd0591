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

// fallbacks is the small sweep on machines of which the first two kinds cannot be had.
const fallbacks = "machine: {type: n2-highmem-2, zones: [us-central1-a], wait: 1s, fallback: [{type: n2-highmem-4}, " +
	"{type: n2-highmem-2, zones: [us-central1-f], spot: false}, {type: n2-highmem-8}], " +
	"vms: 2, threads_per_task: 1, tasks_per_vm: 2}"

const shortage = "no_capacity: [{type: n2-highmem-2, spot: true}, {type: n2-highmem-4, fail: true}]\n"

// fallbackSweep is the small sweep with alternatives, in a world without the first two.
func fallbackSweep(t *testing.T, faults string) (*local, string) {
	t.Helper()
	l := newLocal(t)
	file := l.smallSweep(6)
	l.args = append(l.args, "--faults", l.file("faults.yaml", faults))
	text := l.read("sweep.yaml")
	return l, l.file(filepath.Base(file), strings.Replace(text, text[strings.Index(text, "machine: "):strings.Index(text, "\nlimits")], fallbacks, 1))
}

// TestE2EFallback: Spot machines of the first kind never come, those of the second are refused at once, the third kind
// runs the sweep. The launcher is killed in the middle of it and started again. The model is the one of an undisturbed
// sweep.
func TestE2EFallback(t *testing.T) {
	t.Parallel()
	calm := newLocal(t)
	want := calm.outcome(calm.smallSweep(6))
	l, file := fallbackSweep(t, shortage)
	r := l.script(`
"$1" sweep "$2" --json >killed.json & first=$!
while ! ls cloud/gcs/coppice-sweeps/sweeps/*/jobs/1.json >found 2>/dev/null; do sleep 0.02; done
kill -9 $first
"$1" sweep "$2" --no-wait --json >a.json & a=$!
"$1" sweep "$2" --json >b.json & b=$!
wait $a; wait $b
id=$("$1" status --json | sed -n 's/.*"sweep": "\(.*\)",/\1/p')
"$1" status "$id" --json >status.json
"$1" status "$id"
`, file)
	r.ok(t)
	c := conclusion(t, l.read("b.json"))
	if jobs := l.ranJobs(); c.Outcome != sweep.OutcomeWinner || c.Done != 6 ||
		!slices.Equal(jobs, []string{string(c.Sweep) + "-f2"}) {
		t.Errorf("jobs %q, %+v", jobs, c)
	}
	var submitted struct{ Job string }
	if err := json.Unmarshal([]byte(l.read("a.json")), &submitted); err != nil ||
		!strings.HasSuffix(submitted.Job, "-f2") {
		t.Errorf("--no-wait --json: %v\n%s", err, l.read("a.json"))
	}
	if got := l.outcome(file); got != want {
		t.Errorf("got %+v, without shortage %+v", got, want)
	}
	var status struct {
		Job struct {
			Name     string `json:"name"`
			Finished bool   `json:"finished"`
			Earlier  []struct {
				Reason string `json:"reason"`
			} `json:"earlier"`
		} `json:"job"`
	}
	decode(t, l.read("status.json"), &status)
	if e := status.Job.Earlier; len(e) != 2 || !strings.Contains(e[0].Reason, "it was waiting after 1s") ||
		!strings.Contains(e[1].Reason, "it failed: ") || !strings.HasSuffix(status.Job.Name, "-f2") {
		t.Errorf("status %+v; expected a job that waited for a second, one that failed, and then the job -f2", status)
	}
	if !strings.Contains(r.out, "n2-highmem-4, Spot in us-central1-a") {
		t.Errorf("the status does not name the machines that were given up:\n%s", r.out)
	}
	for name := range l.objects() {
		if strings.HasSuffix(name, "/claims/1") || strings.HasSuffix(name, "/jobs/3.json") {
			t.Errorf("%s is there; expected no second claim and no third job", name)
		}
	}
}

// TestE2ECancelWithoutMachines cancels a sweep that waits for machines, none of which can be had: all its jobs end, and
// the launcher that waits for them says how.
func TestE2ECancelWithoutMachines(t *testing.T) {
	t.Parallel()
	l, file := fallbackSweep(t, "no_capacity: [{}]\n")
	r := l.script(`
"$1" sweep "$2" --id long-1 >out.txt 2>err.txt & first=$!
while ! ls cloud/gcs/coppice-sweeps/sweeps/long-1/jobs/2.json >found 2>/dev/null; do sleep 0.02; done
while ! "$1" status long-1 --json | grep -q '"why": "Instance of type n2-highmem'; do sleep 0.05; done
"$1" status long-1 >waits.txt
"$1" report long-1 --out waits.html
"$1" cancel long-1
code=0; wait $first || code=$?
test $code = 7
code=0; "$1" watch long-1 || code=$?
test $code = 7
"$1" status long-1 --json >status.json
`, file)
	r.ok(t)
	if status := l.read("status.json"); !strings.Contains(status, `"finished": true`) ||
		!strings.Contains(status, `"cancelled"`) {
		t.Errorf("status %s; expected that it is finished and cancelled", status)
	}
	for name, says := range map[string]string{"waits.txt": "0 of 2, asked for ",
		"waits.html": "Machines: 0 of 2, asked for "} {
		if text := strings.Join(strings.Fields(l.read(name)), " "); !strings.Contains(text, says) ||
			!strings.Contains(text, "does not have enough resources") {
			t.Errorf("%s says nothing of the missing machines, expected %q:\n%s", name, says, text)
		}
	}
	if jobs := l.ranJobs(); len(jobs) != 0 {
		t.Errorf("jobs %q", jobs)
	}
	if out := l.read("out.txt"); !strings.Contains(out, "continuing with n2-highmem-4, Spot in us-central1-a") {
		t.Errorf("the launcher wrote %s; expected that it continues with n2-highmem-4, Spot in us-central1-a", out)
	}
}
