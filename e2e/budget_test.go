//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/ledger"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// billed is what `launcher bill --json` prints.
type billed struct {
	Cost         float64
	UsefulCost   float64 `json:"useful_cost"`
	StoppedCost  float64 `json:"stopped_cost"`
	LostCost     float64 `json:"lost_cost"`
	LeadCost     float64 `json:"lead_cost"`
	IdleCost     float64 `json:"idle_cost"`
	Hourly       float64
	MachineHours float64 `json:"machine_hours"`
	VMs          int
	Model        string
	Interrupted  int
	Budget       float64
	Quote        *sweep.Quote
	Trials       []struct {
		Trial    int
		Status   sweep.Status
		Attempts int
		Cost     float64
	}
	Attempts []struct {
		ledger.Attempt
		Cost float64
	}
}

func readBill(t *testing.T, out string) billed {
	t.Helper()
	var b billed
	decode(t, out, &b)
	if sum := b.UsefulCost + b.StoppedCost + b.LostCost + b.LeadCost + b.IdleCost; math.Abs(sum-b.Cost) > 1e-9 {
		t.Errorf("the parts of the bill are %v USD, all of it %v", sum, b.Cost)
	}
	if b.Quote == nil || b.Hourly != b.Quote.Hourly || !(b.Hourly > 0) ||
		math.Abs(b.MachineHours*b.Hourly-b.Cost) > 1e-9 {
		t.Errorf("%v machine-hours at %v USD are %v USD", b.MachineHours, b.Hourly, b.Cost)
	}
	return b
}

// trees is the small sweep with one trial for each number of trees.
func (l *local) trees(quorum string, numbers ...int) string {
	text := must.Get(os.ReadFile(l.smallSweep(len(numbers))))(l.t)
	spec := strings.Replace(string(text), "early_stopping_rounds: 10\n", "", 1)
	i, j := strings.Index(spec, "search:"), strings.Index(spec, "machine:")
	fixed := "search:\n  fixed:\n"
	for trial, n := range numbers {
		fixed += fmt.Sprintf("    - {num_iterations: %d, num_leaves: %d}\n", n, 20+trial)
	}
	return l.file("trees.yaml", "final: {rows: train}\n"+spec[:i]+fixed+
		strings.Replace(spec[j:], "sweep: 5m}", "sweep: 5m, quorum: "+quorum+"}", 1))
}

// TestE2EBudget lets a sweep take much longer than its quote: it is stopped before its budget is spent, concluded with
// what there is, and the bill is within the budget. The machines are two pretend ones of some ten cents an hour, so the
// budget is 22 seconds of both.
func TestE2EBudget(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	file := l.trees("0.3", 20, 20, 100_000, 100_000, 100_000, 100_000)
	before := l.objects()
	r := l.run("launcher", "sweep", file, "--budget", "0.0001")
	if r.code != sweep.ExitInput ||
		!strings.Contains(r.errOut, "the budget of $0.0001 is too small: 2 x n2-highmem-2") {
		t.Errorf("a budget that is too small: %d\n%s", r.code, r.errOut)
	}
	if after := l.objects(); len(after) != len(before) {
		t.Errorf("a refused sweep left %d objects more", len(after)-len(before))
	}

	const budget = 0.00122
	script := l.file("budget.sh", `set -e
"$1" sweep "$2" --id budget-1 --budget 0.00122 --ns-per-value 0.000001 --startup 1s --json >sweep.json || test $? = 9 # what 20 trees are worth is not asked here
"$1" cancel budget-1 || test $? = 5
"$1" bill budget-1 --json >bill.json
"$1" bill budget-1
`)
	out := execute(t, l.dir, nil, binaryOf(t, "localemu"), "exec", "--data", l.data, "--", "sh", script,
		binaryOf(t, "launcher"), file)
	out.ok(t)
	t.Logf("%s", out.out)
	if !strings.Contains(out.out, "$0.10 per hour each (price of 9999-12-31)") {
		t.Error("the prices are not those of the test")
	}
	text := must.Get(os.ReadFile(filepath.Join(l.dir, "sweep.json")))(t)
	c := conclusion(t, string(text))
	if c.Outcome != sweep.OutcomeWinner || c.Done != 2 || c.Version != 1 || c.Trial > 1 {
		t.Fatalf("the sweep ended with %+v; expected trial 0 or 1 to win as version 1, and 2 done", c)
	}
	if !strings.Contains(c.Reason, "4 of 6 trials had not ended when") ||
		!strings.Contains(c.Reason, "of the budget of $0.00122") {
		t.Errorf("the reason is %q", c.Reason)
	}
	text = must.Get(os.ReadFile(filepath.Join(l.dir, "bill.json")))(t)
	b := readBill(t, string(text))
	if !(b.Cost > budget/4) || b.Cost > budget || b.Budget != budget || b.Model != "on Spot" || b.VMs != 2 {
		t.Errorf("the bill is %+v; expected a cost between a quarter of the budget and the budget of %v, on two "+
			"Spot machines", b, budget)
	}
	for _, trial := range b.Trials {
		if done := trial.Status == sweep.StatusDone; done != (trial.Trial < 2) || !(trial.Cost > 0) {
			t.Errorf("trial %+v: expected trials 0 and 1 to be done, and each to have a cost", trial)
		}
	}
	if len(b.Trials) != 6 || !(b.StoppedCost > b.UsefulCost) || b.Interrupted != 0 {
		t.Errorf("%d trials, %v USD for those without a model", len(b.Trials), b.StoppedCost)
	}
}
