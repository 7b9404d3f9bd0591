//go:build unix

package batchemu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/batch/apiv1/batchpb"

	"coppice/internal/must"
)

// fakeTool stands for podman: it records its arguments and does what the container would, using the test binary.
const fakeTool = `#!/bin/sh
verb=$1
echo "$@" >> "$NOTES/$verb"
[ "$verb" = run ] || exit 0
while [ "$1" != IMAGE ]; do
  [ "$1" = --env ] && export "$2"
  shift
done
shift
exec "$PROGRAM" "$@"
`

// containers is a world in which podman is the fake.
func containers(t *testing.T) (w *world, notes string) {
	t.Helper()
	bin, notes := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "podman"), []byte(fakeTool),
		0o755); err != nil { //nolint:gosec // to be run
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return newWorld(t, func(o *Options) {
		o.Containers, o.Images = "podman", map[string]string{"coppice-task": "IMAGE"}
		o.Environ = []string{"PATH=" + os.Getenv("PATH"), "NOTES=" + notes, "PROGRAM=" + os.Args[0]}
	}), notes
}

func noted(t *testing.T, file string) []string {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func TestContainerIsRunAsInTheCloud(t *testing.T) {
	w, notes := containers(t)
	job := w.create("boxed-1", "env", 1, nil)
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	name := fmt.Sprintf("localemu-%d-boxed-1-0-0", os.Getpid())
	ssd := filepath.Join(w.dir, "machines", "boxed-1", "vm-0", "ssd")
	got := noted(t, filepath.Join(notes, "run"))
	want := fmt.Sprintf("run --rm --name %s --pull=never --network=host --read-only --volume %s:%s --env "+
		"STORAGE_EMULATOR_HOST=127.0.0.1:1 "+
		"--env HELPER=env --env MEET=%s --env PARTY=1 --env SCRATCH=%s --env HOSTNAME=boxed-1-vm-0 --env "+
		"BATCH_TASK_COUNT=1 --env BATCH_TASK_INDEX=0 "+
		"--env BATCH_TASK_RETRY_ATTEMPT=0 IMAGE run --scratch=%s", name, ssd, testSSD, w.meet, testSSD, testSSD)
	if len(got) != 1 || got[0] != want {
		t.Errorf("run as\n%s\nwant\n%s", got, want)
	}
	if log := w.log("boxed-1", 0, 0); !strings.Contains(log, "run\n--scratch="+testSSD+"\n") ||
		!strings.Contains(log, "\nSCRATCH="+testSSD+"\n") {
		t.Errorf("inside, paths are the job's: %s", log)
	}
	if got := noted(t, filepath.Join(notes, "rm")); !slices.Equal(got, []string{"rm --force " + name}) {
		t.Errorf("removed %q", got)
	}
}

// TestContainerOfAKilledTaskIsRemoved: killing the tool's client does not end what a daemon runs for it.
func TestContainerOfAKilledTaskIsRemoved(t *testing.T) {
	w, notes := containers(t)
	job := w.create("boxed-2", "stubborn", 1, func(j *batchpb.Job) { j.TaskGroups[0].TaskSpec.MaxRetryCount = 0 })
	w.waitCount(job.Name, "RUNNING", 1)
	w.server.Close()
	name := fmt.Sprintf("localemu-%d-boxed-2-0-0", os.Getpid())
	if got := noted(t, filepath.Join(notes, "rm")); !slices.Equal(got, []string{"rm --force " + name}) {
		t.Errorf("removed %q", got)
	}
}

func TestUnknownImageIsTheToolsBusiness(t *testing.T) {
	w, _ := containers(t)
	w.create("boxed-4", "ok", 1, func(j *batchpb.Job) {
		j.TaskGroups[0].TaskSpec.Runnables[0].GetContainer().ImageUri = "registry/of/somebody:1"
	})
}

// TestBuildahCommand: the script gets its arguments in the expected order; `make images-check` runs it for real.
func TestBuildahCommand(t *testing.T) {
	s := &Server{opts: Options{Containers: "buildah", Environ: []string{"PATH=/bin"},
		TaskEnv: []string{"A=1"}}}
	j := &job{srv: s, id: "job", plan: plan{program: "IMAGE", args: []string{"run", "--x"}, env: []string{"B=2"},
		tasks: 3}}
	a := &attempt{job: j, task: &task{index: 2}, number: 1,
		vm: &machine{name: "vm-1", replaced: 2, mounts: []mount{{"/mnt/disks/a", "/data/ssd"}}}}
	c := a.contained()
	want := []string{"--mount", "sh", "-c", buildahScript, "sh", fmt.Sprintf("localemu-%d-job-2-1", os.Getpid()),
		"IMAGE", "/data/ssd:/mnt/disks/a", "--",
		"A=1", "B=2", "HOSTNAME=job-vm-1-2", "BATCH_TASK_COUNT=3", "BATCH_TASK_INDEX=2", "BATCH_TASK_RETRY_ATTEMPT=1",
		"--", "run", "--x"}
	if filepath.Base(c.Path) != "unshare" || !slices.Equal(c.Args, want) ||
		!slices.Equal(c.Env, []string{"PATH=/bin"}) {
		t.Errorf("the command is %s %q with the environment %q, expected unshare %q and PATH alone", c.Path, c.Args,
			c.Env, want)
	}
}
