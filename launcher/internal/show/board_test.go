package show

import (
	"bytes"
	"strings"
	"testing"

	"coppice/internal/program"
	"coppice/internal/program/tables"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/report"
	"coppice/launcher/internal/sweepview"
)

// board writes the whole board of a sweep of which nothing else is known.
func board(w Printer, p *sweep.Plan, b sweep.Board) {
	st := sweepview.State{Board: b, Listing: sweepstore.Listing{Trials: make([]sweepstore.Listed, len(p.Trials))}}
	w.Board(report.Board(p, st), p, b, 0)
}

// TestBoardOfConfigurations: the board of a cross-validated sweep has a line for each of three configurations: one with
// both folds done, with mean and error, one with one fold, and one that was dropped, with the reason. The refit has a
// line of its own, and its number of trees does not count as a varied parameter.
func TestBoardOfConfigurations(t *testing.T) {
	p := &sweep.Plan{Sweep: "night-1", Maximize: true, Spec: sweep.Spec{Metric: "auc"},
		Folds: &sweep.Folds{Rounds: make([]sweep.Round, 2), First: 1}}
	var configurations []sweep.Trial
	for i := range 3 {
		configurations = append(configurations,
			sweep.Trial{Params: sweep.Params{"num_leaves": float64(10 + i), "num_iterations": 100.0}})
	}
	// Trials 0 to 2 are the first fold of configurations 0 to 2, and trials 3 to 5 the second; trial 6 is the refit. So
	// configuration 1 has trials 1 and 4, whose scores of 0.7 and 0.9 have the mean 0.8 and its standard error 0.1. A
	// score of 0 in the list stands for no result.
	p.Trials = p.Folds.Expand(configurations)

	var results []sweep.Result
	for trial, score := range []float64{0.5, 0.7, 0.6, 0, 0.9} {
		if of := p.Trials[trial]; score > 0 {
			results = append(results, sweep.Result{Sweep: p.Sweep, Trial: trial, Configuration: of.Configuration,
				Fold: of.Fold, Status: sweep.StatusDone, Score: score, BestIteration: 20, TrainRows: 100})
		}
	}
	results = append(results, sweep.Result{Sweep: p.Sweep, Trial: 5, Status: sweep.StatusStopped,
		Reason: "configuration 2 is behind configuration 1"},
		sweep.Result{Sweep: p.Sweep, Trial: 6, Status: sweep.StatusDone, Score: 0.8, Trees: 20, TrainRows: 250})
	b := sweep.MakeBoard(p.WithRefit(sweep.Params{"num_leaves": 11.0, "num_iterations": 20.0}), results)

	var out bytes.Buffer
	w := Printer{Screen: tables.Screen{Output: program.To(&out)}}
	board(w, p, b)
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"0.80 ± 0.10", "2 of 2", "1, 4", "num_leaves", "dropped",
		"configuration 2 is behind configuration 1",
		"1 of 2", "refit: trial 6, 20 trees on 250 rows"} {
		if !strings.Contains(text, want) {
			t.Errorf("the board does not say %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(text, "num_iterations") {
		t.Errorf("want no column of num_iterations, which only the refit sets:\n%s", out.String())
	}
}

// TestBoardTellsOfMachines: the board says by how many machines a trial was trained only if these were several, as for
// trial 1; trial 0 says nothing of machines.
func TestBoardTellsOfMachines(t *testing.T) {
	p := &sweep.Plan{Sweep: "night-1", Maximize: true, Spec: sweep.Spec{Metric: "auc"}, Trials: make([]sweep.Trial, 2)}
	var results []sweep.Result
	for trial := range p.Trials {
		p.Trials[trial] = sweep.Trial{Number: trial, Params: sweep.Params{"num_leaves": float64(10 + trial)}}
		results = append(results, sweep.Result{Sweep: p.Sweep, Trial: trial, Status: sweep.StatusDone, Score: 0.5,
			Usage: sweep.Usage{Machines: 2 * trial, Teams: 1, SentBytes: 3e6}})
	}
	var out bytes.Buffer
	w := Printer{Screen: tables.Screen{Output: program.To(&out)}}
	board(w, p, sweep.MakeBoard(p, results))
	text := strings.Join(strings.Fields(out.String()), " ")
	if strings.Count(text, "by 2 machines: the first sent 3.0 MB") != 1 || strings.Count(text, "machine") != 1 ||
		!strings.Contains(text, "auc on valid") {
		t.Errorf("the board says\n%s\nwant auc on valid, and two machines in one trial", out.String())
	}
}
