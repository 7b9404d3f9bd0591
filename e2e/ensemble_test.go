//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// TestE2EEnsemble merges the best three of four noisy trials, some of whose workers are killed. The merged model is the
// version's, leaves has verified it, it is trained and merged again to the same bytes, it predicts, and the report says
// what it is made of.
func TestE2EEnsemble(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	l.killAll("sweeps/*/trials/*/claims/*", 2)
	l.stageClicks(20_000)

	c := conclusion(t, l.run("launcher", "sweep", l.file("mean.yaml", `
name: mean
dataset: clicks
model: ctr
metric: log_loss
trials: 4
ensemble: {cost: 3}
params: {num_iterations: 30, num_leaves: 31, learning_rate: 0.15, bagging_fraction: 0.5, bagging_freq: 1, lambda_l2: 10}
search: {grid: {seed: [1, 2, 3, 4]}}
machine: {type: n2-highmem-2, vms: 2, threads_per_task: 1, tasks_per_vm: 1}
limits: {trial: 5m, sweep: 15m}
`), "--json").out)
	e := c.Ensemble
	if c.Outcome != sweep.OutcomeWinner || e == nil || !e.Registered || len(e.Trials) != 3 || c.Verified == nil {
		t.Fatalf("a sweep with an ensemble: %+v, ensemble %+v; expected one to be registered", c, e)
	}
	said := fmt.Sprintf("registered as an ensemble, the mean of trials %v", e.Trials)
	if out := l.must("launcher", "registry", "show", "ctr@1"); !strings.Contains(strings.Join(strings.Fields(out), " "),
		"registered as an ensemble, the mean of trials") || !strings.Contains(out, scorer.FileMembers) {
		t.Errorf("registry show says\n%s\nexpected that it %s, and %s", out, said, scorer.FileMembers)
	}
	if out := l.must("launcher", "registry", "reproduce", "ctr@1"); !strings.Contains(out, "the same bytes") {
		t.Errorf("the members trained and merged again: got\n%s\nexpected the same bytes", out)
	}
	page := l.file("mean.html", "")
	l.must("launcher", "report", string(c.Sweep), "--out", page)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "the mean of trials") {
		t.Error("the sweep's page does not say what the model is the mean of")
	}
}
