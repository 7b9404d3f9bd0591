//go:build e2e

package e2e

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/folder"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// onSlurm is a shell script that runs a sweep whose buckets are folders, and disturbs it: it drains one node, requeues
// one task and kills one. Then it runs a second sweep and cancels it. $1 is the launcher, $2 the sweep's file and $3
// the folder of the programs.
//
//go:embed testdata/slurm.sh
var onSlurm string

// TestSlurm: a sweep on a real Slurm of four nodes, in which three things go wrong, has the winner that the emulator of
// Batch gives, with the same bytes. `launcher reproduce` makes these bytes in a single process, too. A cancelled sweep
// leaves no jobs and no files. The commands of docs/run.md for Slurm work as they stand there. `make slurm` runs the
// test.
func TestSlurm(t *testing.T) {
	spec := strings.NewReplacer("num_iterations: 40", "num_iterations: 600", "early_stopping_rounds: 10\n", "",
		"vms: 2, threads_per_task: 1, tasks_per_vm: 2", "vms: 4, threads_per_task: 1, tasks_per_vm: 1",
		"sweep: 5m", "sweep: 30m")
	batch := newLocal(t)
	file := batch.smallSweep(20)
	text := spec.Replace(batch.read("sweep.yaml"))
	batch.file("sweep.yaml", text)
	want := batch.outcome(file)

	cluster := filepath.Join(t.TempDir(), "cluster")
	t.Cleanup(func() {
		if out, err := exec.Command("e2e/slurm/cluster.sh", "down", cluster).CombinedOutput(); err != nil {
			t.Errorf("the cluster was not ended: %v, %s", err, out)
		}
	})
	execute(t, ".", nil, "e2e/slurm/cluster.sh", "up", cluster).ok(t)
	t.Setenv("SLURM_CONF", filepath.Join(cluster, "slurm.conf"))

	l := newLocal(t)
	for _, name := range []string{"clicks.parquet", "dataset.yaml"} {
		must.Do(t, os.Link(filepath.Join(batch.dir, name), filepath.Join(l.dir, name)))
	}
	env := append(os.Environ(), "HOME="+l.dir, "NO_GCE_CHECK=true") // no cloud, nor anybody's credentials
	r := execute(t, l.dir, env, "/bin/sh", "-c", onSlurm, "sh", binaryOf(t, "launcher"), l.file("sweep.yaml", text),
		filepath.Dir(binaryOf(t, "task")))
	t.Logf("%s\n%s", r.out, r.errOut)
	r.ok(t)
	c := conclusion(t, l.read("watched.json"))
	if c.Outcome != sweep.OutcomeWinner || c.Done != 20 || c.Trial != want.trial {
		t.Errorf("the sweep ended with %+v, expected trial %d of 20 as the winner", c, want.trial)
	}
	registered := folder.Bucket(filepath.Join(l.dir, "shared", "registry"))
	for _, name := range []string{"model.txt", "judged.txt"} {
		object := "registry/ctr/versions/1/" + name
		got, _, err := blob.ReadAll(t.Context(), registered, object, 64<<20)
		if err != nil || string(got) != batch.objects()["coppice-registry/"+object] {
			t.Errorf("%s: %d bytes (%v), others than those of Batch's emulator", name, len(got), err)
		}
	}
	for name, part := range map[string]string{"reproduced.txt": "the same bytes", "running.json": `"state": "running"`,
		"again.json": `"job": "slurm/night-1"`, "cancelled.txt": "sweep night-2 is cancelled",
		"status-2.json": `"finished": true`, "page.html": "night-1"} {
		if text := l.read(name); !strings.Contains(text, part) {
			t.Errorf("%s: want %q in it, got:\n%.2000s", name, part, text)
		}
	}
	if left := l.read("left.txt") + l.read("files.txt"); left != "" {
		t.Errorf("want no jobs and no files left after a cancelled sweep, got:\n%s", left)
	}
	t.Logf("drained %stasks:\n%s", l.read("drained.txt"), l.read("queue.txt"))

	// What docs/run.md says, word for word, but for where the folder is.
	page := must.Get(os.ReadFile("docs/run.md"))(t)
	script := "set -e\n"
	_, section, _ := strings.Cut(string(page), "\n## On a Slurm cluster\n")
	for i, part := range strings.Split(section, "```") {
		if text, is := strings.CutPrefix(part, "sh\n"); is && i%2 == 1 {
			script += strings.ReplaceAll(text, "/shared/coppice", filepath.Join(l.dir, "cluster"))
		}
	}
	r = execute(t, ".", append(builder, "SLURM_CONF="+os.Getenv("SLURM_CONF")), "/bin/sh", "-c", script)
	r.ok(t)
	if !strings.Contains(r.out, "ctr version 1 trained again") ||
		!strings.Contains(r.out, "submitted as slurm/nightly-") {
		t.Errorf("the commands of docs/run.md print\n%s\n%s\nwant that a sweep is submitted and version 1 trained "+
			"again", r.out, r.errOut)
	}
}

// script runs a shell script inside the local cloud, with the launcher as $1 and further arguments after it.
func (l *local) script(text string, args ...string) ran {
	l.t.Helper()
	sh := must.Get(exec.LookPath("sh"))(l.t)
	command := slices.Concat([]string{"exec", "--data", l.data}, l.args,
		[]string{"--", sh, l.file("script.sh", "set -e\n"+text), binaryOf(l.t, "launcher")}, args)
	return execute(l.t, l.dir, nil, binaryOf(l.t, "localemu"), command...)
}

// read returns the text of a file in the test's folder, such as one that a script has left.
func (l *local) read(name string) string {
	l.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(l.dir, name)))(l.t)
	return string(text)
}

// TestE2EPushAloneConcludes: each of the two callers of the aggregator suffices for a sweep to be concluded with the
// same outcome: Pub/Sub, which pushes what tasks publish, and the scheduler. In each case the aggregator refuses the
// other.
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
				t.Errorf("with %s alone: got %+v, want %+v as with both", caller, got, want)
			}
		})
	}
}
