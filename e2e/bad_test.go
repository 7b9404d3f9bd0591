//go:build e2e

package e2e

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// badInput is one way of being wrong: what is typed, and what has to be said.
type badInput struct {
	files   map[string]string
	command []string
	code    int
	says    []string // place and remedy
}

const goodTable = "id,age,site,y\n1,31,a,0\n2,45,b,1\n3,27,a,0\n4,39,c,1\n5,52,b,0\n6,33,a,1\n"

const goodSweep = "name: night\ndataset: clicks\nmodel: ctr\nmetric: auc\ntrials: 2\nsearch: {random: {num_leaves: " +
	"{int: [4, 40]}}}\nmachine: {type: n2-highmem-2, threads_per_task: 1}\n"

func badInputs() map[string]badInput {
	stage := []string{"launcher", "stage", "dataset.yaml"}
	run := []string{"launcher", "sweep", "sweep.yaml"}
	spec := func(label string) string { return "name: t\nsource: t.csv\nlabel: " + label + "\n" }
	return map[string]badInput{
		"missing label column": {map[string]string{"t.csv": goodTable, "dataset.yaml": spec("clicked")}, stage,
			sweep.ExitInput, []string{"dataset.yaml:3:8", "clicked"}},
		"label with three values": {map[string]string{"t.csv": strings.Replace(goodTable, "c,1", "c,2", 1),
			"dataset.yaml": spec("y")}, stage, sweep.ExitInput,
			[]string{"dataset.yaml:3:8", "0, 1", "2", "above"}},
		"empty file": {map[string]string{"t.csv": "", "dataset.yaml": spec("y")}, stage, sweep.ExitInput,
			[]string{"t.csv", "empty"}},
		"ragged row": {map[string]string{"t.csv": strings.Replace(goodTable, "3,27,a,0", "3,27,0", 1),
			"dataset.yaml": spec("y")}, stage, sweep.ExitInput,
			[]string{"t.csv:4", "3 fields where the first line has 4"}},
		"unknown key in dataset.yaml": {map[string]string{"t.csv": goodTable, "dataset.yaml": spec("y") +
			"categorcal: [site]\n"}, stage, sweep.ExitInput,
			[]string{"dataset.yaml:4:1", `unknown key "categorcal"`, `did you mean "categorical"?`}},
		"unknown key in sweep.yaml": {map[string]string{"sweep.yaml": goodSweep + "trails: 3\n"}, run, sweep.ExitInput,
			[]string{"sweep.yaml:8:1", `did you mean "trials"?`}},
		"../ in a dataset's name": {map[string]string{"t.csv": goodTable, "dataset.yaml": strings.Replace(spec("y"),
			"name: t", "name: ../t", 1)}, stage, sweep.ExitInput, []string{"dataset.yaml:1:7", "../t"}},
		"../ in a sweep's dataset": {map[string]string{"sweep.yaml": strings.Replace(goodSweep, "clicks", "../clicks",
			1)}, run, sweep.ExitInput, []string{"sweep.yaml:2:10", "../clicks"}},
		"../ in a sweep's id": {map[string]string{"sweep.yaml": goodSweep}, append(run, "--id", "../x"),
			sweep.ExitUsage, []string{"../x", "63"}},
		"../ in a model's name": {nil, []string{"launcher", "registry", "show", "../x"}, sweep.ExitInput,
			[]string{"../x"}},
		"a metric that does not exist": {map[string]string{"sweep.yaml": strings.Replace(goodSweep, "metric: auc",
			"metric: average_precison", 1)}, run, sweep.ExitInput,
			[]string{"sweep.yaml:4:9", `average_precision`}},
		"a parameter that does not exist": {map[string]string{"sweep.yaml": strings.Replace(goodSweep, "num_leaves:",
			"num_leefs:", 1)}, run, sweep.ExitInput, []string{"sweep.yaml:6:31", `did you mean "num_leaves"?`}},
		"a machine that does not exist": {map[string]string{"t.csv": goodTable, "sweep.yaml": strings.Replace(goodSweep,
			"n2-highmem-2", "n2-highmen-2", 1)}, run, sweep.ExitInput,
			[]string{"sweep.yaml:7:17", `did you mean "n2-highmem"?`}},
		"a dataset that is not staged": {map[string]string{"sweep.yaml": goodSweep}, run, sweep.ExitNotFound,
			[]string{"dataset clicks is not staged", "launcher stage"}},
		"a sweep that does not exist": {nil, []string{"launcher", "status", "nobody"}, sweep.ExitNotFound,
			[]string{"nobody", "launcher status"}},
		"a model that does not exist": {nil, []string{"launcher", "predict", "--model", "nobody", "--in", "t.csv",
			"--out", "o.csv"}, sweep.ExitNotFound, []string{"nobody"}},
		"an unknown flag": {nil, []string{"launcher", "sweep", "--fast"}, sweep.ExitUsage,
			[]string{"--fast"}},
	}
}

// TestE2EBadInput types what is wrong: the place and the remedy are said, the exit code is the right one, and nothing
// is written anywhere.
func TestE2EBadInput(t *testing.T) {
	l := newLocal(t)
	l.must("launcher", "status") // makes the buckets
	before := l.objects()
	for name, tc := range badInputs() {
		t.Run(name, func(t *testing.T) {
			entries, _ := os.ReadDir(l.dir)
			for _, e := range entries {
				if e.Name() != "cloud" {
					os.RemoveAll(filepath.Join(l.dir, e.Name()))
				}
			}
			for file, text := range tc.files {
				l.file(file, text)
			}
			checkRefused(t, l.run(slices.Clone(tc.command)...), tc)
			if after := l.objects(); !maps.Equal(before, after) {
				t.Errorf("something was written: %v", slices.Collect(maps.Keys(after)))
			}
			entries, _ = os.ReadDir(l.dir)
			if len(entries) != len(tc.files)+1 {
				t.Errorf("files were left: %v", entries)
			}
		})
	}
}

func checkRefused(t *testing.T, r ran, tc badInput) {
	t.Helper()
	if r.code != tc.code {
		t.Errorf("exit code %d, want %d", r.code, tc.code)
	}
	for _, part := range tc.says {
		if !strings.Contains(r.errOut, part) {
			t.Errorf("the message does not say %q:\n%s", part, r.errOut)
		}
	}
	if strings.Contains(r.errOut, "panic") || strings.Contains(r.errOut, "goroutine") {
		t.Errorf("it fell over:\n%s", r.errOut)
	}
	t.Logf("%s", strings.TrimSpace(r.errOut))
}

// TestE2ESweepOverADamagedDataset flips a bit of what is in the bucket: the sweep ends soon, and says where to look.
func TestE2ESweepOverADamagedDataset(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	file := l.smallSweep(4)
	rows, err := filepath.Glob(filepath.Join(l.data, "gcs", "coppice-datasets", "datasets", "clicks", "*", "train",
		"rows.arrow"))
	if err != nil || len(rows) != 1 {
		t.Fatalf("files of rows in the bucket: %v, %v; expected one", rows, err)
	}
	data := must.Get(os.ReadFile(rows[0]))(t)
	data[len(data)/2] ^= 1
	must.Do(t, os.WriteFile(rows[0], data, 0o644))
	r := l.run("launcher", "sweep", file)
	t.Logf("%s", strings.TrimSpace(r.errOut))
	if r.code != sweep.ExitNoWinner || !strings.Contains(r.errOut, "exit code 3") ||
		!strings.Contains(r.errOut, "logs/") {
		t.Errorf("code %d", r.code)
	}
	if v := l.objects(); v["coppice-registry/registry/ctr/model.json"] != "" {
		t.Error("something was registered")
	}
	logs, _ := filepath.Glob(filepath.Join(l.data, "logs", "small-*", "task-*.attempt-0.log"))
	said := false
	for _, name := range logs {
		text, err := os.ReadFile(name)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		said = said || err == nil && strings.Contains(lines[len(lines)-1], "rows.arrow") &&
			strings.Contains(lines[len(lines)-1], "checksum")
	}
	if !said {
		t.Errorf("no task's last words are about the damaged file: %v", logs)
	}
}

// TestE2EDamagedDataset changes single bytes of a staged dataset.
func TestE2EDamagedDataset(t *testing.T) {
	l := newLocal(t)
	table := filepath.Join(l.dir, "clicks.csv")
	execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "3000", "--out", table).ok(t)
	spec := l.file("dataset.yaml", "name: t\nsource: clicks.csv\nlabel: is_click\ndrop: [impression_id, ts, user_id]\n")
	execute(t, l.dir, nil, binaryOf(t, "launcher"), "stage", spec, "--out", "out").ok(t)
	manifests, err := filepath.Glob(filepath.Join(l.dir, "out", "t", "*", "manifest.json"))
	if err != nil || len(manifests) != 1 {
		t.Fatalf("staged manifests: %v, %v; expected one", manifests, err)
	}
	dir := filepath.Dir(manifests[0])
	train := func() ran {
		return execute(t, l.dir, nil, binaryOf(t, "task"), "train", "--dataset", dir, "--out", "model.txt")
	}
	train().ok(t)
	os.Remove(filepath.Join(l.dir, "model.txt"))
	for _, file := range []string{"train/rows.arrow", "train/columns.arrow", "train/targets.arrow", "manifest.json"} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		whole := must.Get(os.ReadFile(path))(t)
		for _, damaged := range [][]byte{flip(whole, len(whole)/2), flip(whole, len(whole)-2), whole[:len(whole)-9],
			{}} {
			must.Do(t, os.WriteFile(path, damaged, 0o644))
			checkRefused(t, train(), badInput{code: sweep.ExitInput, says: []string{filepath.Base(file)}})
			if _, err := os.Stat(filepath.Join(l.dir, "model.txt")); err == nil {
				t.Error("a model was written")
			}
		}
		must.Do(t, os.WriteFile(path, whole, 0o644))
	}
}

func flip(data []byte, at int) []byte {
	out := bytes.Clone(data)
	out[at] ^= 4
	return out
}

// TestE2ENoCloud runs the programs with neither an emulator nor credentials.
func TestE2ENoCloud(t *testing.T) {
	dir := t.TempDir()
	bare := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "NO_GCE_CHECK=true"}
	set := append(slices.Clone(bare), "COPPICE_PROJECT=p", "COPPICE_DATASETS_BUCKET=d", "COPPICE_SWEEPS_BUCKET=s",
		"COPPICE_REGISTRY_BUCKET=r")
	for name, tc := range map[string]struct {
		env  []string
		args []string
		says []string
	}{
		"nothing set": {bare, []string{"launcher", "status"},
			[]string{"COPPICE_PROJECT", "COPPICE_LOCAL=coppice-data launcher stage"}},
		"no credentials": {set, []string{"launcher", "status"},
			[]string{"localemu exec", "gcloud auth application-default login"}},
		"emulator not there": {append(slices.Clone(set), "STORAGE_EMULATOR_HOST=127.0.0.1:9",
			"COPPICE_BATCH_ENDPOINT=127.0.0.1:9"), []string{"launcher", "status"}, []string{"127.0.0.1:9"}},
		"aggregator":           {bare, []string{"aggregator", "serve"}, []string{"COPPICE_PROJECT"}},
		"task without its job": {bare, []string{"task", "run"}, []string{"launcher sweep"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, dir, tc.env, binaryOf(t, tc.args[0]), tc.args[1:]...)
			checkRefused(t, r, badInput{code: sweep.ExitSetup, says: tc.says})
		})
	}
}
