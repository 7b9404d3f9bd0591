//go:build e2e

package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"coppice/internal/must"
)

// withoutCloud is an environment that names no cloud, with a temporary folder of its own.
func withoutCloud(t *testing.T, temporary string) []string {
	t.Helper()
	must.Do(t, os.MkdirAll(temporary, 0o755))
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "COPPICE_") || strings.HasPrefix(v, "TMPDIR=") ||
			strings.Contains(v, "EMULATOR_HOST=")
	})
	return append(env, "TMPDIR="+temporary)
}

// fitted is the last line of `launcher fit --json`.
type fitted struct {
	Model    string             `json:"model"`
	Version  int                `json:"version"`
	Champion bool               `json:"champion"`
	Test     map[string]float64 `json:"test"`
	Page     string             `json:"page"`
	Sweep    string             `json:"sweep"`
}

// TestE2EFit: a table becomes a model without a spec and without a cloud, the specs that fit saves give the same model
// in another local cloud, later commands find the model, and nothing is left in the temporary folder.
func TestE2EFit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	temporary := filepath.Join(dir, "tmp")
	env := withoutCloud(t, temporary)
	launcher := binaryOf(t, "launcher")
	execute(t, dir, env, binaryOf(t, "clicks"), "--rows", "20000", "--out", "clicks.parquet").ok(t)
	fit := []string{"fit", "clicks.parquet", "--label", "is_click", "--drop", "impression_id", "--trials", "3"}

	r := execute(t, dir, env, launcher, append(fit, "--json", "--save-specs", "specs", "--out", "version")...)
	r.ok(t)
	var got fitted
	decode(t, lastLine(r.out), &got)
	if got.Model != "clicks" || got.Version != 1 || !got.Champion || got.Test["log_loss"] <= 0 {
		t.Errorf("fit says %+v; want version 1 of clicks, the champion, with its log_loss on test", got)
	}
	if page, err := os.ReadFile(got.Page); err != nil || !strings.Contains(string(page), got.Sweep) {
		t.Errorf("the page %s: %v, or it does not name sweep %s", got.Page, err, got.Sweep)
	}

	execute(t, dir, env, launcher, "predict", "--model", "clicks", "--in", "clicks.parquet", "--out",
		"scored.csv").ok(t)
	again := execute(t, dir, env, launcher, append(fit, "--json")...)
	again.ok(t)
	var second fitted
	if decode(t, lastLine(again.out), &second); second.Version != 1 || second.Sweep != got.Sweep {
		t.Errorf("the same fit once more is %+v; want the same sweep and version", second)
	}

	l := newLocal(t)
	l.must("launcher", "stage", filepath.Join(dir, "specs", "dataset.yaml"))
	l.must("launcher", "sweep", filepath.Join(dir, "specs", "sweep.yaml"))
	want := l.objects()["coppice-registry/registry/clicks/versions/1/model.txt"]
	have, err := os.ReadFile(filepath.Join(dir, "version", "model.txt"))
	if err != nil || string(have) != want || want == "" {
		t.Errorf("fit's model has %d bytes (%v) and the saved specs' %d; want the same bytes", len(have), err,
			len(want))
	}

	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("%v is left in the temporary folder (%v); want nothing", left, err)
	}
	elsewhere := execute(t, t.TempDir(), env, launcher, "registry", "list")
	if elsewhere.code != 6 || !strings.Contains(elsewhere.errOut, "launcher fit") {
		t.Errorf("elsewhere, registry list ended with %d: %s; want 6 and how to get a cloud", elsewhere.code,
			elsewhere.errOut)
	}
}

// TestE2EFitsTakeTurns: two fits and a listing on one folder at once all end well, because each waits for the local
// cloud of the one before.
func TestE2EFitsTakeTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := withoutCloud(t, filepath.Join(dir, "tmp"))
	launcher := binaryOf(t, "launcher")
	execute(t, dir, env, binaryOf(t, "clicks"), "--rows", "5000", "--out", "clicks.parquet").ok(t)
	var group sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		group.Go(func() {
			execute(t, dir, env, launcher, "fit", "clicks.parquet", "--label", "is_click", "--name", name, "--trials",
				"1").ok(t)
		})
	}
	group.Wait()
	r := execute(t, dir, env, launcher, "registry", "list", "--json")
	r.ok(t)
	if !strings.Contains(r.out, `"one"`) || !strings.Contains(r.out, `"two"`) {
		t.Errorf("registry list says %s; want models one and two", r.out)
	}
}

// TestE2EFitUsesWhatIsUp: beside a local cloud that stays up, fit trains in that one.
func TestE2EFitUsesWhatIsUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := withoutCloud(t, filepath.Join(dir, "tmp"))
	data := filepath.Join(dir, "coppice-data")
	up := exec.CommandContext(t.Context(), binaryOf(t, "localemu"), "up", "--data", data)
	up.Dir, up.Env = dir, env
	said, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = up.Process.Signal(os.Interrupt); _ = up.Wait() }()
	if _, err := bufio.NewReader(said).ReadString('\n'); err != nil { // it prints its settings once they are written
		t.Fatalf("the local cloud does not come up: %v", err)
	}
	execute(t, dir, env, binaryOf(t, "clicks"), "--rows", "5000", "--out", "clicks.parquet").ok(t)
	r := execute(t, dir, env, binaryOf(t, "launcher"), "fit", "clicks.parquet", "--label", "is_click", "--trials", "1")
	r.ok(t)
	if strings.Contains(r.errOut, "waiting") {
		t.Errorf("fit says %s; want it not to wait for a cloud that stays up", r.errOut)
	}
}

// TestE2EFitFromABucket: a table in a bucket is looked at here, and staged and trained on where it is.
func TestE2EFitFromABucket(t *testing.T) {
	e := newExport(t, 2, 4000)
	args := []string{"fit", "gs://coppice-datasets/exports/clicks-*.parquet", "--label", "is_click", "--drop",
		"impression_id", "--trials", "1", "--json"}
	r := execute(t, e.dir, e.env, binaryOf(t, "launcher"), args...)
	if r.code != 2 || !strings.Contains(r.errOut, "--where batch --name NAME") {
		t.Errorf("without --where batch: got %d, %s, want 2 and what to add", r.code, r.errOut)
	}
	r = execute(t, e.dir, e.env, binaryOf(t, "launcher"), append(args, "--where", "batch", "--name", "trial",
		"--save-specs", "specs")...)
	r.ok(t)
	var got fitted
	if decode(t, lastLine(r.out), &got); got.Model != "trial" || got.Version != 1 {
		t.Errorf("got %+v, want version 1 of trial", got)
	}
	spec, err := os.ReadFile(filepath.Join(e.dir, "specs", "dataset.yaml"))
	if err != nil || !strings.Contains(string(spec), `source: ["gs://coppice-datasets/exports/clicks-*.parquet"]`) {
		t.Errorf("got the spec %s (%v), want the bucket as its source", spec, err)
	}
}
