package worker

import (
	"testing"

	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestValueChoosesAnotherTrial: of the same trials the value has another best one than log loss, which still stops them
// all, and whose curves say so; the models are the same bytes for any number of threads.
func TestValueChoosesAnotherTrial(t *testing.T) {
	const value = "value(prediction > 0.35 ? 2 * label - 1 : 0)"
	run := func(metric string, maximize bool, threads int) (w *world, best int) {
		w = newWorld(t, 5, func(p *sweep.Plan) {
			p.Spec.Metric, p.Maximize, p.Metrics = metric, maximize, []string{"log_loss", value}
			p.Sizing.ThreadsPerTask = threads
			for _, trial := range p.Trials {
				trial.Params["num_iterations"], trial.Params["learning_rate"] = 40.0, 0.2
			}
		})
		w.run(t, 0)
		for i := range w.plan.Trials {
			r, than := w.result(t, i), w.result(t, best)
			if r.Score != r.Metrics[metric] {
				t.Errorf("trial %d has the score %v of %v", i, r.Score, r.Metrics)
			}
			if r.Score != than.Score && (r.Score > than.Score) == maximize {
				best = i
			}
		}
		return w, best
	}
	loss, byLoss := run("log_loss", false, 1)
	own, byValue := run(value, true, 3)
	if byLoss == byValue {
		t.Errorf("both choose trial %d", byLoss)
	}
	a, b := loss.models(t), own.models(t)
	for i := range a {
		if a[i] != b[i] || loss.result(t, i).BestIteration != own.result(t, i).BestIteration {
			t.Errorf("trial %d is another model where a value chooses", i)
		}
	}

	trials := sweepstore.NewTrials(own.sweeps, own.plan)
	c, err := trials.Curve(t.Context(), 0, 0)
	if err != nil || c.Metric != "log_loss" || len(c.Scores) != own.result(t, 0).TreesGrown {
		t.Errorf("the learning curve is %+v, %v", c, err)
	}
}
