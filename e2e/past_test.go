//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
)

var pastLoop = regexp.MustCompile("(?s)\n## Past nights\n.*?\n```sh\n(.*?)```\n")

// TestE2EPastNights runs the loop of docs/sweep.md over three days: each becomes a version, of a dataset that has no
// row of a later day.
func TestE2EPastNights(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("docs/sweep.md"))(t)
	m := pastLoop.FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/sweep.md has no loop over past nights")
	}

	l := newLocal(t)
	day := func(folder string, d int) {
		must.Do(t, os.MkdirAll(filepath.Join(l.dir, folder), 0o755))
		l.file(filepath.Join(folder, fmt.Sprintf("2026-11-%d.csv", d)),
			string(datasettest.Table(datasettest.Options{Rows: 2000, Seed: uint64(d)})))
	}
	for d := 16; d <= 19; d++ {
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
	r := l.script("bin=$1\ncoppice() { \"$bin\" \"$@\" || test $? = 9; }\n" + string(m[1]))
	r.ok(t)

	if versions := l.versions("ctr"); len(versions) != 3 {
		t.Fatalf("the loop made versions %v, expected one for each of three days:\n%s\n%s", versions, r.out, r.errOut)
	}
	if !strings.Contains(r.out, "champion") {
		t.Errorf("the history names no champion:\n%s", r.out)
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
