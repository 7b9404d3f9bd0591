//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/cloud/gcs"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// clicksTable is the dataset.yaml of the example's table of clicks, without its name and source.
const clicksTable = "label: is_click\ndrop: [impression_id, ts]\ncategorical: [campaign_id, publisher_id]\nsplit: " +
	"{by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\n"

// export is what BigQuery exports of a table: several Parquet files with one schema. They are in a folder and in a
// bucket of a local cloud that stays up.
type export struct {
	*local
	env    []string   // for programs that use the local cloud
	bucket blob.Store // of datasets; the files are below exports/
	files  []string   // their paths in the folder
}

// newExport makes n files of so many rows, brings a local cloud up and puts the files into its bucket. args are further
// arguments of localemu.
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

// up starts the local cloud, and fills env and bucket. It runs until the test ends.
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
	// It prints the environment of its users, as lines of a shell: export NAME='VALUE'.
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
		if name == "PUBSUB_EMULATOR_HOST" { // the last variable; localemu prints nothing after it, so a read would wait
			break
		}
	}
	client := must.Get(gcs.New(e.t.Context()))(e.t)
	e.t.Cleanup(func() { client.Close() })
	e.bucket = client.Bucket("coppice-datasets")
}

// put writes an object below exports/ in the bucket.
func (e *export) put(name string, data []byte) {
	e.t.Helper()
	must.Get(e.bucket.Put(e.t.Context(), "exports/"+name, blob.Any, bytes.NewReader(data)))(e.t)
}

// here stages the files in the folder without any cloud, and returns the dataset's version and its folder.
func (e *export) here() (version, dir string) {
	e.t.Helper()
	spec := e.file("here.yaml", "name: clicks\nsource: export/clicks-*.parquet\n"+clicksTable)
	r := execute(e.t, e.dir, nil, binaryOf(e.t, "launcher"), "stage", spec, "--out", "here", "--json")
	r.ok(e.t)
	version = versionOf(e.t, r.out)
	return version, filepath.Join(e.dir, "here", "clicks", version)
}

// versionOf returns the version of a dataset from what `launcher stage --json` prints.
func versionOf(t *testing.T, printed string) string {
	t.Helper()
	var m struct{ Version string }
	if err := json.Unmarshal([]byte(printed), &m); err != nil || m.Version == "" {
		t.Fatalf("got no version (error %v), want one in %s", err, printed)
	}
	return m.Version
}

// TestE2EStageFromBigQuery: staging a table of BigQuery as a job gives the same version with the same bytes as staging
// its files, and empties the objects that BigQuery exported on the way. The launcher then recognises that the version
// exists. --dry-run says what BigQuery would cost.
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
		t.Errorf("staged again: got %s; want version %s, which existed", r.out, version)
	}
	left := 0
	for attrs, err := range e.bucket.List(t.Context(), "bigquery-exports/") {
		if err != nil || attrs.Size > 0 {
			t.Errorf("%s still has %d bytes (error %v), want none", attrs.Name, attrs.Size, err)
		}
		left++
	}
	if left != 2 {
		t.Errorf("found %d objects of the export, want those of its two files", left)
	}
}

// sameBytes fails the test unless a version of clicks in the bucket has the same files as the folder dir. The manifest
// is not compared, since it names the sources.
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
			e.t.Errorf("%s has %d bytes in the bucket that differ from the %d in the folder, want the same", name,
				len(got), len(want))
		}
		compared++
		return err
	})
	if err != nil || compared < 5 {
		e.t.Errorf("compared %d files (error %v), want at least 5", compared, err)
	}
}

// TestE2ENoCloud: without a cloud, an emulator or credentials, each program ends with the exit code of a wrong
// environment and a message that says what is missing and what to do, not with a panic.
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
			if r.code != sweep.ExitSetup || strings.Contains(r.errOut, "goroutine") {
				t.Errorf("exit code %d, want %d and no stack:\n%s", r.code, sweep.ExitSetup, r.errOut)
			}
			for _, part := range tc.says {
				if !strings.Contains(r.errOut, part) {
					t.Errorf("got the message\n%s\nwant %q in it", r.errOut, part)
				}
			}
		})
	}
}

var pastLoop = regexp.MustCompile("(?s)\n## Past nights\n.*?\n```sh\n(.*?)```\n")

// TestE2EPastNights: the loop over past nights in docs/sweep.md makes a version for each of three days. The dataset of
// the first day is the one that is staged where the later days do not exist, so it has no row of a later day.
func TestE2EPastNights(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("docs/sweep.md"))(t)
	m := pastLoop.FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/sweep.md has no loop below \"Past nights\", want one")
	}

	l := newLocal(t)
	day := func(folder string, d int) {
		must.Do(t, os.MkdirAll(filepath.Join(l.dir, folder), 0o755))
		l.file(filepath.Join(folder, fmt.Sprintf("2026-11-%d.csv", d)),
			string(datasettest.Table(datasettest.Options{Rows: 2000, Seed: uint64(d)})))
	}
	for d := 16; d <= 19; d++ { // a night takes two days (last: 2d), so four days make three nights
		day("days", d)
	}
	table := "name: clicks\nsource: {files: \"%s/{date:2006-01-02}.csv\", last: 2d}\nlabel: is_click\n" +
		"drop: [revenue, day]\ncategorical: [campaign_id]\nencodings: none\n" +
		"split: {by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\n"
	l.file("clicks.yaml", fmt.Sprintf(table, "days"))
	l.file("sweep.yaml", "name: past\ndataset: clicks\nmodel: ctr\nmetric: log_loss\ntrials: 2\nseed: 3\n"+
		"params: {num_iterations: 20}\nsearch: {random: {num_leaves: {log_int: [4, 16]}}}\n"+
		"machine: {type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 2}\n"+
		"limits: {trial: 2m, sweep: 5m}\n")
	// A version that does not become the champion ends with 9 (sweep.ExitNotPromoted), which is no failure of the loop.
	r := l.script("bin=$1\ncoppice() { \"$bin\" \"$@\" || test $? = 9; }\n" + string(m[1]))
	r.ok(t)

	if versions := l.versions("ctr"); len(versions) != 3 {
		t.Fatalf("the loop made versions %v, expected one for each of three days:\n%s\n%s", versions, r.out, r.errOut)
	}
	if !strings.Contains(r.out, "champion") {
		t.Errorf("the loop prints\n%s\nwant a champion named in it", r.out)
	}

	// The first night again, where the days after it do not exist.
	day("before", 16)
	day("before", 17)
	l.file("before.yaml", fmt.Sprintf(table, "before"))
	alone := l.must("launcher", "stage", "before.yaml", "--day", "2026-11-17", "--out", "alone", "--json")
	var datasets []string
	for name := range l.objects() {
		if rest, ok := strings.CutPrefix(name, "coppice-datasets/datasets/clicks/"); ok &&
			strings.HasSuffix(rest, "/manifest.json") {
			datasets = append(datasets, strings.TrimSuffix(rest, "/manifest.json"))
		}
	}
	if len(datasets) != 3 || !slices.Contains(datasets, versionOf(t, alone)) {
		t.Errorf("the datasets %q are not three with that of a first night without later days, %s", datasets,
			versionOf(t, alone))
	}
}

// withoutCloud returns the environment of the test without the variables that name a cloud, and with that folder, which
// it makes, for temporary files.
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

// TestE2EFit: `launcher fit` makes a model of a table without a spec and without a cloud. The specs that it saves give
// the same model in another local cloud. Later commands in the same folder find the model, and the same fit once more
// trains nothing. Nothing is left in the temporary folder. In another folder `launcher registry list` says how to get a
// cloud.
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

	// Later commands find the model, and the same fit trains nothing anew.
	execute(t, dir, env, launcher, "predict", "--model", "clicks", "--in", "clicks.parquet", "--out",
		"scored.csv").ok(t)
	again := execute(t, dir, env, launcher, append(fit, "--json")...)
	again.ok(t)
	var second fitted
	if decode(t, lastLine(again.out), &second); second.Version != 1 || second.Sweep != got.Sweep {
		t.Errorf("the same fit once more is %+v; want the same sweep and version", second)
	}

	// The saved specs give the same model elsewhere.
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
	if elsewhere.code != sweep.ExitSetup || !strings.Contains(elsewhere.errOut, "launcher fit") {
		t.Errorf("elsewhere, registry list ended with %d: %s; want %d and how to get a cloud", elsewhere.code,
			elsewhere.errOut, sweep.ExitSetup)
	}
}

// TestE2EFitOrders: a fit of grades in queries uses statistics of the items. Predictions use the statistics of all
// training rows, so that an item has the same score in every query, and in every form of input. Of the 600 items those
// with odd numbers have grades that are higher by 1, beside noise of 0 to 2. An item with an odd number should mostly
// be scored above the one before it: in 200 of the 300 pairs, where chance gives 150.
func TestE2EFitOrders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env, launcher := withoutCloud(t, filepath.Join(dir, "tmp")), binaryOf(t, "launcher")
	rng := rand.New(rand.NewPCG(4, 8))
	table, rows, lines := "query,item,grade\n", "query,item\n", ""
	for i := range 6000 {
		item := rng.IntN(600)
		table += fmt.Sprintf("q%d,i%d,%d\n", i/10, item, rng.IntN(3)+item%2)
	}
	for i := range 1200 {
		rows += fmt.Sprintf("new%d,i%d\n", i/7, i%600) // each item twice, in two queries
		lines += fmt.Sprintf("{\"item\": \"i%d\"}\n", i%600)
	}
	for name, text := range map[string]string{"judged.csv": table, "new.csv": rows, "new.jsonl": lines} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	fit := execute(t, dir, env, launcher, "fit", "judged.csv", "--label", "grade", "--group", "query", "--trials", "1")
	fit.ok(t)
	if !strings.Contains(fit.out, "item:rate") {
		t.Errorf("fit says %s; want a model of item:rate", fit.out)
	}

	var scores [2][]string
	for i, in := range []string{"new.csv", "new.jsonl"} {
		execute(t, dir, env, launcher, "predict", "--model", "judged", "--in", in, "--out", "scored.csv").ok(t)
		scores[i] = strings.Fields(string(must.Get(os.ReadFile(filepath.Join(dir, "scored.csv")))(t)))[1:]
	}
	if len(scores[0]) != 1200 || !slices.Equal(scores[0], scores[1]) ||
		!slices.Equal(scores[0][:600], scores[0][600:]) {
		t.Errorf("got %d scores of CSV and %d of JSON that differ from each other, or by query; want 1200 that do not",
			len(scores[0]), len(scores[1]))
	}
	better := 0
	for i := 0; i < 600; i += 2 {
		worse, good := must.Get(strconv.ParseFloat(scores[0][i], 64))(t), must.Get(strconv.ParseFloat(scores[0][i+1],
			64))(t)
		if good > worse {
			better++
		}
	}
	if better < 200 {
		t.Errorf("the better item has the higher score in %d of 300 pairs; want at least 200", better)
	}
}

// TestE2EFitsTakeTurns: two fits at once in one folder both succeed, because one waits for the local cloud of the
// other. A listing afterwards shows both models.
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

// TestE2EFitUsesWhatIsUp: in a folder whose local cloud is up, fit uses that cloud and does not wait for it to end.
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
	must.Do(t, err)
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

// TestE2EFitFromABucket: fit can read a table in a bucket and then stages and trains as jobs in the cloud. The user has
// to ask for that with --where batch and give a name, since jobs cost money; without these, fit says so. The saved spec
// has the bucket as its source.
func TestE2EFitFromABucket(t *testing.T) {
	e := newExport(t, 2, 4000)
	args := []string{"fit", "gs://coppice-datasets/exports/clicks-*.parquet", "--label", "is_click", "--drop",
		"impression_id", "--trials", "1", "--json"}
	r := execute(t, e.dir, e.env, binaryOf(t, "launcher"), args...)
	if r.code != sweep.ExitUsage || !strings.Contains(r.errOut, "--where batch --name NAME") {
		t.Errorf("without --where batch: got %d, %s, want %d and what to add", r.code, r.errOut, sweep.ExitUsage)
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
