//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestE2EBag: the final training, whose machine is killed, is of three models, whose mean is the version's. leaves has
// verified it, it is trained and merged again to the same bytes, and terminal and page say what it is.
func TestE2EBag(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	l.killAll("sweeps/*/trials/*/claims/*", 2)
	l.killAll("sweeps/*/trials/0003/claims/*", 1)
	execute(l.t, l.dir, nil, binaryOf(l.t, "clicks"), "--rows", "20000", "--out",
		filepath.Join(l.dir, "clicks.parquet")).ok(l.t)
	l.must("launcher", "stage", l.file("dataset.yaml", "name: clicks\nsource: clicks.parquet\nlabel: is_click\n"+
		"drop: [impression_id, ts]\nsplit: {by: random, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}\n"))

	c := conclusion(t, l.run("launcher", "sweep", l.file("mean.yaml", `
name: mean
dataset: clicks
model: ctr
metric: log_loss
trials: 3
ensemble: {bag: 3}
early_stopping_rounds: 5
params: {num_iterations: 60, num_leaves: 15, learning_rate: 0.15}
search: {grid: {seed: [1, 2, 3]}}
machine: {type: n2-highmem-2, vms: 2, threads_per_task: 1, tasks_per_vm: 1}
limits: {trial: 5m, sweep: 15m}
gate: {promote: never, against: none}
`), "--json").out)
	const said = "the mean of 3 models, each trained without one fold of all "
	if f := c.Final; c.Outcome != sweep.OutcomeWinner || f == nil || !f.Registered ||
		!strings.Contains(f.Reason, said) {
		t.Fatalf("a sweep with a bag: %+v, final %+v; expected one to be registered", c, f)
	}
	if out := l.must("launcher", "registry", "reproduce", "ctr@1"); !strings.Contains(out, "the same bytes") {
		t.Errorf("the models trained and merged again: got\n%s\nexpected the same bytes", out)
	}
	page := l.file("mean.html", "")
	l.must("launcher", "report", string(c.Sweep), "--out", page)
	text := must.Get(os.ReadFile(page))(t)
	if !strings.Contains(string(text), said) {
		t.Error("the sweep's page does not say what the model is the mean of")
	}
}
