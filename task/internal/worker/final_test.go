package worker

import (
	"runtime"
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
)

// TestTheFinalTraining: the winner's configuration is trained again on the rows of all splits once all other trials
// have ended, with the same bytes for one task and for four that start at once, and where every trial is paused at a
// rung.
func TestTheFinalTraining(t *testing.T) {
	for name, change := range map[string]func(*sweep.Plan){
		"all trials end": func(*sweep.Plan) {},
		"halving":        stopping(sweep.StopHalving),
	} {
		var texts []string
		for _, tasks := range []int{1, 4} {
			w := newWorldOn(t, datasettest.Options{Rows: 1500, Encodings: "{final: true}"}, 4, func(p *sweep.Plan) {
				change(p)
				withFinal(p)
			})
			w.tasks(t, tasks)

			b := w.board(t)
			final, best := w.result(t, 4), b.Best()
			rows := w.manifest.HeldOutRows() * w.manifest.Copies()
			if s, ok := w.manifest.FindSplit(sweep.Train); ok {
				rows += s.Rows
			}
			switch {
			case final.Status != sweep.StatusDone || final.Refits == nil || *final.Refits != best.Trial:
				t.Fatalf("%s: the final training: %+v; expected it done, of trial %d", name, final, best.Trial)
			case final.TrainRows != rows || final.Trees != best.Trees || final.Score != best.Score:
				t.Errorf("%s: it has %d trees of %d rows, score %v; expected %d of %d, %v", name, final.Trees,
					final.TrainRows, final.Score, best.Trees, rows, best.Score)
			case final.Started.Before(best.Ended):
				t.Errorf("%s: it began at %v, before trial %d ended at %v", name, final.Started, best.Trial, best.Ended)
			case b.Rows[4].Trial.Number != 4:
				t.Errorf("%s: the final training is not the last row of the board", name)
			}
			texts = append(texts, w.refit(t))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: one task and four have trained different final models", name)
		}
	}
}

// TestTheFinalTrainingOfClasses: trees are counted by round, of which each has one for every class, so that the final
// training has as many rounds as the winner and not as many as the winner has trees.
func TestTheFinalTrainingOfClasses(t *testing.T) {
	o := datasettest.Options{Rows: 1500, Label: "{column: site, kind: classes}", Encodings: "{final: true}"}
	w := newWorldOn(t, o, 2, func(p *sweep.Plan) {
		p.Spec.Objective, p.Spec.Metric, p.Metrics, p.Maximize = "multiclass", "multi_logloss",
			[]string{"multi_logloss"}, false
		for _, of := range p.Trials {
			of.Params["objective"], of.Params["num_class"] = "multiclass", 40.0
		}
		withFinal(p)
	})
	if n := len(w.manifest.Label.Classes); n != 40 {
		t.Fatalf("the label has %d classes, want 40", n)
	}
	w.run(t, 0)
	final, best := w.result(t, 2), w.board(t).Best()
	if final.Status != sweep.StatusDone || best.Trees != best.BestIteration || best.Trees > 8 ||
		final.Trees != best.Trees {
		t.Errorf("the winner has %d trees (the best %d), the final model %d: %s; want the same number, at most 8",
			best.Trees, best.BestIteration, final.Trees, final.Reason)
	}
}

// TestTheFinalTrainingHasNothingToTrain: without a trial that may win it ends untrained, and the task ends.
func TestTheFinalTrainingHasNothingToTrain(t *testing.T) {
	w := newWorld(t, 2, func(p *sweep.Plan) {
		p.Spec.Require = []string{"trees < 0"}
		withFinal(p)
	})
	w.run(t, 0)
	if r := w.result(t, 2); r.Status != sweep.StatusStopped || r.Reason == "" {
		t.Errorf("the final training: %+v; expected it to be stopped, with the reason", r)
	}
}

// TestARefitHasTheThreadsOfItsMachine: as many as all tasks of it together, but no more than it has.
func TestARefitHasTheThreadsOfItsMachine(t *testing.T) {
	has := runtime.GOMAXPROCS(0)
	for _, tc := range []struct{ tasks, threads, want int }{{1, 1, 1}, {1000, 1, has}, {1, has + 5, has + 5}} {
		w := &Worker{plan: &sweep.Plan{Sizing: sweep.Sizing{TasksPerVM: tc.tasks, ThreadsPerTask: tc.threads}}}
		if got := w.threads(sweep.Trial{Refit: true}); got != tc.want {
			t.Errorf("%d tasks of %d threads on %d processors: a refit has %d threads, expected %d", tc.tasks,
				tc.threads, has, got, tc.want)
		}
		if got := w.threads(sweep.Trial{}); got != tc.threads {
			t.Errorf("a trial of %d threads has %d", tc.threads, got)
		}
	}
}
