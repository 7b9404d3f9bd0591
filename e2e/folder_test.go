//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/folder"
	"coppice/internal/must"
)

// TestE2EFolder runs a sweep whose buckets are folders, without a cloud or an emulator of one: two tasks, one after the
// other, and an aggregator that nobody sends messages. What they register has the bytes that the local cloud registers.
func TestE2EFolder(t *testing.T) {
	l := newLocal(t)
	spec := l.smallSweep(2)
	l.must("launcher", "sweep", spec, "--id", "shared", "--json")
	want := l.objects()

	shared := filepath.Join(l.dir, "shared")
	tools := filepath.Join(l.dir, "tools") // a Slurm that runs nothing
	must.Do(t, os.MkdirAll(tools, 0o777))
	must.Do(t, os.WriteFile(filepath.Join(tools, "squeue"), []byte("#!/bin/sh\n"), 0o777))
	env := []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "COPPICE_ENGINE=slurm", "HOME=" + l.dir,
		"NO_GCE_CHECK=true",
		"COPPICE_SWEEP=shared", "COPPICE_JOB=shared", "COPPICE_SCRATCH=" + filepath.Join(l.dir, "scratch")}
	for _, name := range []string{"datasets", "sweeps", "registry"} {
		must.Do(t, os.MkdirAll(filepath.Join(shared, name), 0o777))
		env = append(env, "COPPICE_"+strings.ToUpper(name)+"_BUCKET="+filepath.Join(shared, name))
	}
	execute(t, l.dir, env, binaryOf(t, "launcher"), "stage", filepath.Join(l.dir, "dataset.yaml"), "--json").ok(t)
	// The plan is the local cloud's, but for the name of the job.
	sweeps := folder.Bucket(filepath.Join(shared, "sweeps"))
	for name, text := range want {
		if plan, is := strings.CutPrefix(name, "coppice-sweeps/plans/"); is {
			text = strings.Replace(text, "projects/local-project/locations/us-central1/jobs/", "slurm/", 1)
			must.Get(blob.Create(t.Context(), sweeps, "plans/"+plan, []byte(text)))(t)
		}
	}
	for _, index := range []string{"0", "1"} {
		execute(t, l.dir, append(slices.Clone(env), "COPPICE_TASK_INDEX="+index), binaryOf(t, "task"), "run").ok(t)
	}
	execute(t, l.dir, env, binaryOf(t, "aggregator"), "reconcile").ok(t)

	registered := folder.Bucket(filepath.Join(shared, "registry"))
	compared := 0
	for _, file := range []string{"model.txt", "judged.txt", "calibrator.json", "features.json", "levels.arrow"} {
		name := "registry/ctr/versions/1/" + file
		got, _, err := blob.ReadAll(t.Context(), registered, name, 64<<20)
		if text, is := want["coppice-registry/"+name]; is && (err != nil || string(got) != text) {
			t.Errorf("%s has %d bytes in the folder (%v), and differs from the local cloud's %d", file, len(got), err,
				len(text))
		} else if is {
			compared++
		}
	}
	if compared < 4 {
		t.Errorf("%d files of the version were compared", compared)
	}
	status := execute(t, l.dir, env, binaryOf(t, "launcher"), "status", "shared")
	if status.ok(t); !strings.Contains(status.out, "ctr v1 is live") {
		t.Errorf("status: %s", status.out)
	}
}
