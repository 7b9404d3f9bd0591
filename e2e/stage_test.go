//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud/gcs"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

const clicksTable = "label: is_click\ndrop: [impression_id, ts]\ncategorical: [campaign_id, publisher_id]\nsplit: " +
	"{by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\n"

// export is a BigQuery export: several Parquet files with one schema, here and in a bucket of a local cloud that is
// kept up.
type export struct {
	*local
	env    []string
	bucket blob.Store
	files  []string
}

// newExport makes n files of so many rows and brings the local cloud up.
func newExport(t *testing.T, n, rows int, args ...string) *export {
	t.Helper()
	e := &export{local: newLocal(t, args...)}
	for i := range n {
		file := filepath.Join(e.dir, "export", "clicks-00000000000"+strconv.Itoa(i)+".parquet")
		execute(t, e.dir, nil, binaryOf(t, "clicks"), "--rows", strconv.Itoa(rows), "--seed", strconv.Itoa(i+1),
			"--out", file).ok(t)
		e.files = append(e.files, file)
	}
	e.up()
	for _, file := range e.files {
		data := must.Get(os.ReadFile(file))(t)
		e.put(filepath.Base(file), data)
	}
	return e
}

// up keeps the local cloud running until the test ends.
func (e *export) up() {
	e.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(e.t.Context()), binaryOf(e.t, "localemu"),
		slices.Concat([]string{"up", "--data", e.data}, e.args)...)
	cmd.Dir = e.dir
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out := must.Get(cmd.StdoutPipe())(e.t)
	must.Do(e.t, cmd.Start())
	e.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			e.t.Errorf("localemu: %v\n%s", err, &errOut)
		}
	})
	e.env = os.Environ()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		name, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		if !ok {
			continue
		}
		e.env = append(e.env, name+"="+strings.Trim(value, "'"))
		if name == "STORAGE_EMULATOR_HOST" {
			e.t.Setenv(name, value) // the test itself is a client, too
		}
		if name == "PUBSUB_EMULATOR_HOST" { // the last one
			break
		}
	}
	client := must.Get(gcs.New(e.t.Context()))(e.t)
	e.t.Cleanup(func() { client.Close() })
	e.bucket = client.Bucket("coppice-datasets")
}

func (e *export) put(name string, data []byte) {
	e.t.Helper()
	must.Get(e.bucket.Put(e.t.Context(), "exports/"+name, blob.Any, bytes.NewReader(data)))(e.t)
}

// stage stages the export in the cloud.
func (e *export) stage(flags ...string) ran {
	e.t.Helper()
	spec := e.file("cloud.yaml", "name: clicks\nsource: gs://coppice-datasets/exports/clicks-*.parquet\n"+clicksTable)
	return execute(e.t, e.dir, e.env, binaryOf(e.t, "launcher"), append([]string{"stage", spec, "--batch"},
		flags...)...)
}

// here stages the same files without any cloud, and gives version and folder.
func (e *export) here() (version, dir string) {
	e.t.Helper()
	spec := e.file("here.yaml", "name: clicks\nsource: export/clicks-*.parquet\n"+clicksTable)
	r := execute(e.t, e.dir, nil, binaryOf(e.t, "launcher"), "stage", spec, "--out", "here", "--json")
	r.ok(e.t)
	version = versionOf(e.t, r.out)
	return version, filepath.Join(e.dir, "here", "clicks", version)
}

func versionOf(t *testing.T, manifest string) string {
	t.Helper()
	var m struct{ Version string }
	if err := json.Unmarshal([]byte(manifest), &m); err != nil || m.Version == "" {
		t.Fatalf("the manifest has no version (%v): %s", err, manifest)
	}
	return m.Version
}

// TestE2EStageFromBigQuery: a table of BigQuery becomes the same bytes as its files do, and its export is emptied; the
// job recognises what the launcher has staged.
func TestE2EStageFromBigQuery(t *testing.T) {
	e := newExport(t, 2, 2_000)
	version, dir := e.here()
	table := filepath.Join(e.data, "bigquery", "ads-1", "events", "clicks")
	must.Do(t, os.MkdirAll(filepath.Dir(table), 0o755))
	must.Do(t, os.Rename(filepath.Dir(e.files[0]), table))
	spec := e.file("rows.yaml", "name: clicks\nsource: bigquery://ads-1/events/clicks\n"+clicksTable)
	run := func(flags ...string) ran {
		t.Helper()
		r := execute(t, e.dir, e.env, binaryOf(t, "launcher"), append([]string{"stage", spec}, flags...)...)
		r.ok(t)
		return r
	}
	if r := run("--dry-run"); !strings.Contains(r.out, "USD") {
		t.Errorf("--dry-run says %q, expected what BigQuery costs", r.out)
	}
	if got := versionOf(t, run("--batch", "--json").out); got != version {
		t.Fatalf("version %s from BigQuery, %s from its files", got, version)
	}
	e.sameBytes(dir, version)
	if r := run("--json"); versionOf(t, r.out) != version || !strings.Contains(r.out, `"existed": true`) {
		t.Errorf("staged again: %s", r.out)
	}
	left := 0
	for attrs, err := range e.bucket.List(t.Context(), "bigquery-exports/") {
		if err != nil || attrs.Size > 0 {
			t.Errorf("%s still has %d bytes, %v", attrs.Name, attrs.Size, err)
		}
		left++
	}
	if left != 2 {
		t.Errorf("%d objects of one export of two files", left)
	}
}

// TestE2EStageInBatch: three files of an export become the same bytes in the cloud as here, also when the machine is
// taken away in between.
func TestE2EStageInBatch(t *testing.T) {
	for name, tc := range map[string]struct {
		faults string
		flags  []string
		trace  string // log that shows what happened
	}{
		"calm":      {"", nil, "stage-clicks-*/task-0.attempt-0.log"},
		"preempted": {"lose_machine: {0: [50ms]}\n", []string{"--spot"}, "stage-clicks-*/task-0.attempt-1.log"},
	} {
		if name == "calm" && os.Getenv("COPPICE_FULL") == "" {
			continue // the second attempt of the other is calm
		}
		t.Run(name, func(t *testing.T) {
			faults := filepath.Join(t.TempDir(), "faults.yaml")
			must.Do(t, os.WriteFile(faults, []byte(tc.faults+"seed: 1\n"), 0o644))
			e := newExport(t, 3, 8_000, "--faults", faults)
			version, dir := e.here()
			r := e.stage(append(tc.flags, "--json")...)
			r.ok(t)
			if got := versionOf(t, r.out); got != version {
				t.Fatalf("version %s in the cloud, %s here", got, version)
			}
			e.sameBytes(dir, version)
			if logs, _ := filepath.Glob(filepath.Join(e.data, "logs", tc.trace)); len(logs) != 1 {
				t.Errorf("there is no %s", tc.trace)
			}
			again := e.stage()
			jobs, _ := filepath.Glob(filepath.Join(e.data, "logs", "stage-*"))
			if again.code != 0 || len(jobs) != 1 {
				t.Errorf("staged again: %d, %d jobs\n%s", again.code, len(jobs), again.errOut)
			}
		})
	}
}

// sameBytes compares every file of a version but the manifest, which names other sources.
func (e *export) sameBytes(dir, version string) {
	e.t.Helper()
	compared := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "manifest.json" {
			return err
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		got, _, err := blob.ReadAll(e.t.Context(), e.bucket, sweep.DatasetDir("clicks", version)+filepath.ToSlash(name),
			1<<30)
		if err == nil && !bytes.Equal(got, want) {
			e.t.Errorf("%s differs", name)
		}
		compared++
		return err
	})
	if err != nil || compared < 5 {
		e.t.Errorf("%d files compared, %v", compared, err)
	}
}

// TestE2EStageInBatchSaysWhatIsWrong: the task's error is the command's, with its exit code; so is it a second time, in
// another job, and when the file is mended the job goes through.
func TestE2EStageInBatchSaysWhatIsWrong(t *testing.T) {
	e := newExport(t, 2, 3_000)
	whole := must.Get(os.ReadFile(e.files[1]))(t)
	e.put(filepath.Base(e.files[1]), whole[:len(whole)/2])
	for range 2 {
		checkRefused(t, e.stage(),
			badInput{code: sweep.ExitInput, says: []string{"stage-clicks-", "clicks-000000000001.parquet",
				"job stage-clicks-"}})
	}
	if jobs, _ := filepath.Glob(filepath.Join(e.data, "logs", "stage-*")); len(jobs) != 2 {
		t.Errorf("jobs %q", jobs)
	}
	if attempts, _ := filepath.Glob(filepath.Join(e.data, "logs", "stage-*", "*")); len(attempts) != 2 {
		t.Errorf("what no repetition mends was tried again: %q", attempts)
	}
	e.put(filepath.Base(e.files[1]), whole)
	r := e.stage()
	if r.code != 0 || !strings.Contains(r.errOut, ": done") {
		t.Errorf("staging the whole file ended with exit code %d, expected 0 and a job that SUCCEEDED:\n%s", r.code,
			r.errOut)
	}
	for name, tc := range map[string]badInput{
		"a local source": {files: map[string]string{"x.yaml": "name: x\nsource: clicks.parquet\nlabel: is_click\n"},
			command: []string{"stage", "x.yaml", "--batch"}, code: sweep.ExitUsage, says: []string{"in a bucket"}},
		"out": {files: map[string]string{"x.yaml": "name: x\nsource: gs://b/c.parquet\nlabel: is_click\n"},
			command: []string{"stage", "x.yaml", "--batch", "--out", "x"}, code: sweep.ExitUsage,
			says: []string{"--out"}},
		"no batch": {files: map[string]string{"x.yaml": "name: x\nsource: gs://b/c.parquet\nlabel: is_click\n"},
			command: []string{"stage", "x.yaml", "--spot"}, code: sweep.ExitUsage, says: []string{"--spot"}},
		"no such machine": {files: map[string]string{"x.yaml": "name: x\nsource: gs://b/c.parquet\nlabel: is_click\n"},
			command: []string{"stage", "x.yaml", "--batch", "--machine", "q9-big-4"}, code: sweep.ExitUsage,
			says: []string{"q9-big-4"}},
		"no SSD there": {files: map[string]string{"x.yaml": "name: clicks2\nsource: gs://coppice-datasets/exports/clicks-*.parquet\n" + clicksTable}, command: []string{"stage", "x.yaml", "--batch", "--machine", "e2-standard-4"},
			code: sweep.ExitUsage, says: []string{"e2-standard-4 takes no local SSD"}},
		"no objects": {files: map[string]string{"x.yaml": "name: x\nsource: gs://coppice-datasets/none/*.parquet\nlabel: is_click\n"}, command: []string{"stage", "x.yaml", "--batch"}, code: sweep.ExitNotFound, says: []string{"none/*.parquet"}},
	} {
		t.Run(name, func(t *testing.T) {
			for file, text := range tc.files {
				e.file(file, text)
			}
			checkRefused(t, execute(t, e.dir, e.env, binaryOf(t, "launcher"), tc.command...), tc)
		})
	}
}

// watched collects what a program prints and tells when it has said something.
type watched struct {
	mu   sync.Mutex
	text strings.Builder
	word string
	said chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.text.String(), w.word)
	w.text.Write(p)
	if !before && strings.Contains(w.text.String(), w.word) {
		close(w.said)
	}
	return len(p), nil
}

// TestE2EStageInBatchCtrlC: the job is cancelled while it runs, and while it waits for a machine.
func TestE2EStageInBatchCtrlC(t *testing.T) {
	for state, args := range map[string]func(*testing.T) []string{
		"running": func(t *testing.T) []string {
			hang := filepath.Join(t.TempDir(), "hang.sh")
			must.Do(t, os.WriteFile(hang, []byte("#!/bin/sh\nexec sleep 600\n"), 0o755))
			return []string{"--image", "coppice-launcher=" + hang}
		},
		"waiting": func(t *testing.T) []string {
			faults := filepath.Join(t.TempDir(), "faults.yaml")
			must.Do(t, os.WriteFile(faults, []byte("no_capacity: [{type: n2-highmem-8}]\n"), 0o644))
			return []string{"--faults", faults}
		},
	} {
		t.Run(state, func(t *testing.T) {
			e := newExport(t, 1, 3_000, args(t)...)
			spec := e.file("cloud.yaml", "name: clicks\nsource: gs://coppice-datasets/exports/*.parquet\n"+clicksTable)
			cmd := exec.CommandContext(t.Context(), binaryOf(t, "launcher"), "stage", spec, "--batch")
			errOut := &watched{word: ": " + state, said: make(chan struct{})}
			cmd.Dir, cmd.Env, cmd.Stderr = e.dir, e.env, errOut
			must.Do(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-errOut.said:
			case <-time.After(time.Minute):
				t.Errorf("it never was %s", state)
			}
			start := time.Now()
			must.Do(t, cmd.Process.Signal(syscall.SIGINT))
			<-ended
			if took := time.Since(start); cmd.ProcessState.ExitCode() != sweep.ExitInterrupt || took > 30*time.Second {
				t.Errorf("it ended with %d after %s\n%s", cmd.ProcessState.ExitCode(), took, &errOut.text)
			}
			if !strings.Contains(errOut.text.String(), "is cancelled") {
				t.Errorf("the interrupted launcher wrote %s; expected that the job is cancelled", &errOut.text)
			}
			if left, _ := filepath.Glob(filepath.Join(e.data, "machines", "stage-*")); len(left) != 0 {
				t.Errorf("machines are left: %q", left)
			}
		})
	}
}
