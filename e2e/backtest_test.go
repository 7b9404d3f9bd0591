//go:build e2e

package e2e

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
	"coppice/terraform"
)

// TestE2EBacktestInBatch: a job plays past nights with the stager's rights, and its report has the bytes of the same
// backtest played here. Asked again, the report is read and nothing is played again; a job that fails says why.
func TestE2EBacktestInBatch(t *testing.T) {
	t.Parallel()
	w := &iamWorld{local: newLocal(t)}
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 4000}))) // 20 days of November
	w.export("clicks.csv")
	table := func(source string) string {
		return "name: clicks\nsource: " + source +
			"\nlabel: is_click\ndrop: [revenue]\nencodings: none\nsplit: {by: time, column: day, train: 0.7, valid: " +
			"0.1, calib: 0.1, test: 0.1}\n"
	}
	nights := "dataset: dataset.yaml\nfrom: 2026-11-10\nto: 2026-11-12\nwindow: 8\nparams: {num_iterations: 3}\n"
	w.file("backtest.yaml", nights)

	w.file("dataset.yaml", table("clicks.csv"))
	here := execute(t, w.dir, nil, binaryOf(t, "launcher"), "backtest", "backtest.yaml", "--out", "here")
	if here.code != 0 {
		t.Fatalf("backtest on this machine: exit code %d, want 0\n%s", here.code, here.errOut)
	}
	w.args = []string{"--enforce-iam", "--as", terraform.Launcher, "--aggregator", "none"}
	checkRefused(t, w.run("launcher", "backtest", "backtest.yaml", "--batch"),
		badInput{code: sweep.ExitUsage, says: []string{"clicks.csv", "gcloud storage cp"}})

	w.file("dataset.yaml", table("gs://coppice-exports/*.csv"))
	r := w.run("launcher", "backtest", "backtest.yaml", "--batch", "--out", "there")
	if r.code != 0 || !strings.Contains(r.errOut, ": SUCCEEDED") || strings.Count(r.errOut, "night of 2026-11-") != 3 {
		t.Fatalf("backtest --batch: exit code %d, want 0, the job's states, three nights and where the report "+
			"is\n%s\n%s", r.code, r.out, r.errOut)
	}
	if !strings.Contains(strings.ReplaceAll(r.out, "there", "here"), strings.TrimSpace(here.out)) {
		t.Errorf("backtest --batch prints another report than backtest:\n%s\nwant\n%s", r.out, here.out)
	}
	kept := map[string]string{}
	for name, text := range w.objects() {
		kept[path.Base(name)] = text
	}
	for _, name := range []string{"backtest.json", "backtest.html"} {
		want := w.read(filepath.Join("here", name))
		if got := w.read(filepath.Join("there", name)); got != want || kept[name] != want {
			t.Errorf("%s of the job: %d bytes downloaded, %d in the bucket; want the same %d as played here", name,
				len(got), len(kept[name]), len(want))
		}
	}

	again := w.run("launcher", "backtest", "backtest.yaml", "--batch")
	if again.code != 0 || !strings.Contains(again.errOut, "was run before") {
		t.Errorf("backtest --batch again: exit code %d, want 0 and that it was run before\n%s", again.code,
			again.errOut)
	}
	w.file("late.yaml", strings.NewReplacer("11-10", "11-20", "11-12", "11-20").Replace(nights))
	checkRefused(t, w.run("launcher", "backtest", "late.yaml", "--batch"),
		badInput{code: sweep.ExitInput, says: []string{"backtest job backtest-clicks-", "no row on 2026-11-21"}})
	if jobs, _ := filepath.Glob(filepath.Join(w.data, "logs", "backtest-*", "*")); len(jobs) != 2 {
		t.Errorf("attempts of jobs %q, want one of the job that went well and one of that which failed", jobs)
	}
}
