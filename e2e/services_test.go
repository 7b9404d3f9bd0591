//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud/gcs"
	"coppice/internal/dataset/datasettest"
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

// TestE2EOldLocalCloud: a folder of the first localemu (e2e/testdata/cloud-1 is what its commit f886c52c47c5 left of
// one upload) and one of a later one are refused by all that would write into them, and stay as they are; a folder of
// this build is used again.
func TestE2EOldLocalCloud(t *testing.T) {
	for format, reads := range map[string]string{
		"format is 1 and this build reads 2": "localemu f886c52c47c5",
		"format is 3 and this build reads 2": "localemu v9",
	} {
		l := newLocal(t)
		must.Do(t, os.CopyFS(l.data, os.DirFS("e2e/testdata/cloud-1")))
		if strings.Contains(format, "3") {
			must.Do(t, os.WriteFile(filepath.Join(l.data, "gcs", ".format"), []byte(`{"format":3,"build":"v9"}`),
				0o644))
		}
		before := l.objects()
		for name, r := range map[string]ran{
			"exec": l.run("launcher", "registry", "list"),
			"fit": execute(t, l.dir, nil, binaryOf(t, "launcher"), "fit", l.file("t.csv", "a,b\n1,0\n"), "--label", "b",
				"--data", l.data),
		} {
			if r.code != 5 || !strings.Contains(r.errOut, format) || !strings.Contains(r.errOut, reads) {
				t.Errorf("%s ended with %d, expected 5, and said\n%s\nexpected %q and %q", name, r.code, r.errOut,
					format, reads)
			}
		}
		if after := l.objects(); !maps.Equal(before, after) {
			t.Errorf("%s: the folder has changed: %v, before %v", format, after, before)
		}
	}

	l := newLocal(t)
	for range 2 {
		l.must("launcher", "registry", "list")
	}
}

// TestE2ETwoBuilds: one build's launcher leaves a plan that the other's programs would misunderstand. Launcher and task
// refuse to train it in words that name its build, whichever is newer, and it can still be trained once that build is
// there. Meanwhile it can be read, unless its format is another.
func TestE2ETwoBuilds(t *testing.T) {
	e := &export{local: newLocal(t)}
	file := e.smallSweep(2)
	e.up()
	launcher := func(args ...string) ran {
		return execute(t, e.dir, e.env, binaryOf(t, "launcher"), args...)
	}
	dry := launcher("sweep", file, "--dry-run", "--json")
	dry.ok(t)
	var out struct{ Plan json.RawMessage }
	decode(t, dry.out, &out)
	var compact bytes.Buffer
	must.Do(t, json.Compact(&compact, out.Plan))
	ours := compact.String()
	var named struct{ Sweep, Coppice string }
	decode(t, ours, &named)
	client := must.Get(gcs.New(t.Context()))(t)
	defer client.Close()
	bucket, object := client.Bucket("coppice-sweeps"), "plans/"+named.Sweep+".json"

	theirs := strings.Replace(ours, `"coppice":"`+named.Coppice+`"`, `"coppice":"v0.9"`, 1)
	at := blob.Absent
	for name, edit := range map[string][2]string{
		"an older build, whose key is gone": {`"spec":{`, `"spec":{"when":[],`},
		"a newer build, with a new key":     {`"trials":[{`, `"trials":[{"moon":1,`},
		"a newer build's format":            {`"format":1`, `"format":2`},
	} {
		plan := strings.Replace(theirs, edit[0], edit[1], 1)
		if plan == theirs || theirs == ours {
			t.Fatalf("%s: the plan does not have %s:\n%s", name, edit[0], theirs)
		}
		attrs := must.Get(bucket.Put(t.Context(), object, at, strings.NewReader(plan)))(t)
		at = attrs.Generation
		task := execute(t, e.dir, append(e.env, "COPPICE_SWEEP="+named.Sweep, "COPPICE_JOB="+named.Sweep,
			"COPPICE_SCRATCH="+t.TempDir(), "COPPICE_TASK=0", "COPPICE_ATTEMPT=0"), binaryOf(t, "task"), "run")
		refuse := map[string]ran{"launcher sweep": launcher("sweep", file), "task": task}
		if shown := launcher("bill", named.Sweep); strings.Contains(name, "format") {
			refuse["launcher bill"] = shown
		} else {
			shown.ok(t)
		}
		for who, r := range refuse {
			if said := r.errOut + r.out; r.code != 3 || !strings.Contains(said, "coppice v0.9 wrote it") {
				t.Errorf("%s: %s ended with %d, expected 3, and said\n%s", name, who, r.code, said)
			}
		}
	}
	must.Get(bucket.Put(t.Context(), object, at, strings.NewReader(ours)))(t)
	launcher("sweep", file).ok(t)
	checkFormats(t, client, file, string(named.Sweep), launcher)
}

var formatNumber = regexp.MustCompile(`"format": ?\d+\b`)

// checkFormats plants what a newer build would write in the place of each object that lasts and that a launcher reads
// before it acts: the command names the format, and leaves the object as it is.
func checkFormats(t *testing.T, client *gcs.Client, file, id string, launcher func(...string) ran) {
	t.Helper()
	for _, tc := range []struct {
		bucket, ends string
		command      []string
	}{
		{"registry", "/versions/1/version.json", []string{"registry", "show", "ctr@1"}},
		{"registry", "/aliases/champion.json", []string{"registry", "promote", "ctr@1", "--why", "known"}},
		{"datasets", "/latest.json", []string{"sweep", file, "--id", "later"}},
		{"datasets", "/manifest.json", []string{"sweep", file, "--id", "later"}},
		{"sweeps", "/conclusion.json", []string{"watch", id}},
	} {
		bucket, found := client.Bucket("coppice-"+tc.bucket), 0
		for attrs, err := range bucket.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(attrs.Name, tc.ends) {
				continue
			}
			found++
			text, _, err := blob.ReadAll(t.Context(), bucket, attrs.Name, 1<<24)
			newer := formatNumber.ReplaceAllString(string(text), `"format":99`)
			if err != nil || newer == string(text) {
				t.Fatalf("%s: %v, and no format in %.200s", attrs.Name, err, text)
			}
			for _, content := range []string{newer, string(text)} {
				put := must.Get(bucket.Put(t.Context(), attrs.Name, blob.Any, strings.NewReader(content)))(t)
				if content != newer {
					continue
				}
				r := launcher(tc.command...)
				now, err := bucket.Stat(t.Context(), attrs.Name)
				if r.code == 0 || !strings.Contains(r.errOut, "format") || err != nil ||
					now.Generation != put.Generation {
					t.Errorf("%s of a newer build: %v ended with %d, error %v, and said\n%s", attrs.Name, tc.command,
						r.code, err, r.errOut)
				}
			}
		}
		if found == 0 {
			t.Errorf("no object ends in %s", tc.ends)
		}
	}
}

// serving starts `launcher serve` of a folder and returns its address. Its end is that of the test, without an error.
func serving(t *testing.T, dir string, env []string, model string) string {
	t.Helper()
	cmd := exec.Command(binaryOf(t, "launcher"), "serve", "--model", model, "--listen", "127.0.0.1:0", "--grace", "0s")
	cmd.Dir, cmd.Env = dir, env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v, expected no error:\n%s", err, said.String())
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server printed %q (%v), expected its address", url, err)
	}
	return strings.TrimSpace(url)
}

// TestE2EServing: a server of a model that fit has saved answers JSON and CSV with what `launcher predict` writes.
func TestE2EServing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env, launcher := withoutCloud(t, filepath.Join(dir, "tmp")), binaryOf(t, "launcher")
	table := datasettest.Table(datasettest.Options{Rows: 3000})
	today := datasettest.Table(datasettest.Options{Rows: 50, Seed: 2})
	for name, text := range map[string][]byte{"train.csv": table, "today.csv": today} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	execute(t, dir, env, launcher, "fit", "train.csv", "--label", "is_click", "--drop", "revenue", "--trials", "1",
		"--out", "model").ok(t)
	execute(t, dir, env, launcher, "predict", "--model", "./model", "--in", "today.csv", "--out", "scored.csv").ok(t)
	scored := must.Get(os.ReadFile(filepath.Join(dir, "scored.csv")))(t)
	var want []float64
	for _, line := range strings.Fields(string(scored))[1:] {
		x := must.Get(strconv.ParseFloat(line, 64))(t)
		want = append(want, x)
	}

	rows, err := csv.NewReader(bytes.NewReader(today)).ReadAll()
	if err != nil || len(want) != 50 || len(rows) != 51 {
		t.Fatalf("%v: %d rows of %d are scored", err, len(want), len(rows)-1)
	}
	instances := make([]map[string]string, 50)
	for c, name := range rows[0] {
		for r, row := range rows[1:] {
			if instances[r] == nil {
				instances[r] = map[string]string{}
			}
			instances[r][name] = row[c]
		}
	}
	url := serving(t, dir, env, "./model")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for status := 0; status != http.StatusOK; <-tick.C {
		status, _ = ask(t, http.MethodGet, url+"/readyz", "", nil)
	}
	if status, got := ask(t, http.MethodPost, url+"/predict", "text/csv", today); string(got) != string(scored) {
		t.Errorf("CSV: got status %d, %.300s; expected what predict writes, %.300s", status, got, scored)
	}
	var answer struct{ Predictions []float64 }
	body, _ := json.Marshal(map[string]any{"instances": instances})
	_, got := ask(t, http.MethodPost, url+"/predict", "application/json", body)
	decode(t, string(got), &answer)
	if !slices.Equal(answer.Predictions, want) {
		t.Errorf("JSON: got %+v; expected %v", answer, want)
	}

	// The saved version knows what its held-out rows are like.
	_, metrics := ask(t, http.MethodGet, url+"/metrics", "", nil)
	for _, line := range []string{"coppice_serve_rows_total 100\n", "coppice_serve_heldout_mean_prediction 0.",
		"coppice_serve_column_rows_total{column=\"campaign_id\"} 100\n",
		"coppice_serve_column_heldout_unseen_ratio{column=\"campaign_id\"} "} {
		if !strings.Contains(string(metrics), line) {
			t.Errorf("/metrics lacks %q:\n%s", line, metrics)
		}
	}
}

// ask sends a request and returns what comes back.
func ask(t *testing.T, method, url, kind string, body []byte) (status int, text []byte) {
	t.Helper()
	q := must.Get(http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body)))(t)
	q.Header.Set("Content-Type", kind)
	a := must.Get(http.DefaultClient.Do(q))(t)
	defer a.Body.Close()
	text = must.Get(io.ReadAll(a.Body))(t)
	return a.StatusCode, text
}
