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
	"syscall"
	"testing"

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
