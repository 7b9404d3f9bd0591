//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestE2EFolds cross-validates four configurations by group, the last of which a method that learns decides, with two
// workers of which one is killed after the fourth fold. The weak configuration is dropped after its first folds, the
// best is trained on all rows of train and valid, registered, promoted, and grows again with the same bytes.
func TestE2EFolds(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	l.args = []string{"--faults", l.file("faults.yaml",
		"at_write: [{match: \"sweeps/*/trials/*/result.json\", nth: 4, does: kill_task, task: 1}]\n")}
	execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "12000", "--out",
		filepath.Join(l.dir, "clicks.parquet")).ok(t)
	l.must("launcher", "stage", l.file("dataset.yaml",
		"name: clicks\nsource: clicks.parquet\nlabel: is_click\ndrop: [impression_id, ts]\ngroup: "+
			"user_id\nencodings: none\n"+
			"split: {by: hash, key: user_id, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}\n"))

	c := conclusion(t, l.must("launcher", "sweep", l.file("folds.yaml", `
name: folds
dataset: clicks
model: ctr
metric: log_loss
trials: 4
seed: 5
early_stopping_rounds: 10
validate: {kfold: 4, by: group}
params: {num_iterations: 40, learning_rate: 0.1}
search: {method: gp, fixed: [{num_leaves: 7}, {learning_rate: 0.00001}], random: {num_leaves: {log_int: [4, 31]}}}
machine: {type: n2-highmem-2, vms: 2, threads_per_task: 1, tasks_per_vm: 1}
limits: {trial: 5m, sweep: 15m}
`), "--json"))
	if c.Outcome != sweep.OutcomeWinner || c.Trial != 16 || !strings.Contains(c.Reason, "over 4 folds") ||
		!strings.Contains(c.Reason, "on all rows of train and valid") {
		t.Errorf("the sweep's end: %+v; want trial 16, the refit, to win for its configuration's mean over 4 folds", c)
	}

	var board sweep.Board
	must.Do(t, json.Unmarshal([]byte(l.must("launcher", "leaderboard", string(c.Sweep), "--json")), &board))
	refit, best := board.Rows[0].Result, board.Configurations[0]
	if refit.Trial != 16 || refit.Score != *best.Mean || refit.Trees != best.Trees || refit.TrainRows < 8000 {
		t.Errorf("the refit is %+v; want it to have the mean and the trees of %+v", refit, best)
	}
	for _, c := range board.Configurations {
		if c.Configuration == 1 && (c.State != sweep.ConfigurationDropped || c.Folds != 3) {
			t.Errorf("the weak configuration is %+v; want it dropped after 3 folds", c)
		}
	}

	if out := l.must("launcher", "status", string(c.Sweep)); !strings.Contains(out, " dropped, in 4 folds") {
		t.Errorf("launcher status printed\n%s\nwant how many configurations were dropped", out)
	}
	page := filepath.Join(l.dir, "folds.html")
	l.must("launcher", "report", string(c.Sweep), "--out", page)
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "Configurations, best first") ||
		!strings.Contains(string(html), "is behind configuration") {
		t.Errorf("the sweep's page of %d bytes, error %v; want its configurations, and why one was dropped", len(html),
			err)
	}
	if out := l.must("launcher", "registry", "reproduce", "ctr@1"); !strings.Contains(out, "the same bytes") {
		t.Errorf("the refit grown again: got\n%s\nwant the same bytes", out)
	}
}
