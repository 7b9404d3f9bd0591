package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/gbt"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/task/internal/keep"
)

// ending says how a training ended.
type ending struct {
	claim  *sweep.Claim  // nil when this task gives up a trial it does not hold
	why    protocol.Why  // set when it ended early
	err    error         // with why
	step   int           // where the trial was paused
	result *sweep.Result // unless it ended early
	files  *modelFiles   // nil if there is no model
	late   bool          // the rest of the time is kept for the final training
}

// modelFiles are the files that a trained trial writes in addition to its result.
type modelFiles struct {
	model       []byte
	calib, test []float64
}

// finish writes how a training ended, in the order that package protocol prescribes: its files, its result, and what
// follows, or that the claim is given back. A trained model is not thrown away because the machine is going: if ctx has
// ended, the steps still run, as far as deadlines.go gives them time. An error ends the task's attempt.
func (w *Worker) finish(ctx context.Context, end ending) error {
	f := protocol.Finish{Late: end.late}
	if end.claim != nil { // nil for a trial that was given up, which no task holds
		f.Trial, f.Claim = end.claim.Trial, end.claim.Claim
	} else {
		f.Trial, f.Claim = end.result.Trial, end.result.Claim
	}

	f, first := f.Begin(end.files != nil, end.why)
	step := func(a protocol.Action) (protocol.Answer, error) { return w.finishStep(ctx, a, end) }
	do, err := protocol.Run(f, first, step)
	if do.Do == protocol.Stop {
		return cmp.Or(err, end.err)
	}
	if end.err != nil {
		w.Log.Warn("given up", "trial", f.Trial, "reason", end.err.Error())
	}
	return nil
}

// finishStep carries out one action of the protocol's Finish and returns the answer.
func (w *Worker) finishStep(ctx context.Context, step protocol.Action, end ending) (answer protocol.Answer, err error) {
	switch step.Do {
	case protocol.Upload:
		return answer, w.upload(w.after.work, end.result, end.files)

	case protocol.CreateResult:
		answer.Yes, err = w.trials.CreateResult(w.after.work, *end.result)
		switch r := end.result; {
		case err != nil:
			return answer, fmt.Errorf("write the result of trial %d: %w", step.Trial, err)
		case !answer.Yes:
			w.Log.Warn("another task had already ended the trial", "trial", step.Trial, "claim", step.Claim)
		default:
			w.measures.end(r.Status)
			w.remember(r)
			w.Log.Info("trial ended", "trial", step.Trial, "status", r.Status, "score", r.Score, "trees", r.Trees,
				"machines", r.Usage.Machines, "seconds", r.Usage.TrainSeconds)
		}

	case protocol.EndOthers:
		return answer, w.endOthers(w.after.work, protocol.Finish{Late: end.late}, end.result.Reason)

	case protocol.Publish:
		return answer, w.publish(w.after.work, end.result)

	case protocol.DropCheckpoints: // after the message, on which the aggregator waits
		w.dropCheckpoints(w.after.release, step.Trial)

	case protocol.MarkPaused:
		if err := w.trials.CreatePause(w.after.work, step.Trial, step.Claim, end.step); err != nil {
			return answer, fmt.Errorf("mark trial %d as paused: %w", step.Trial, err)
		}

	case protocol.Release:
		w.release(ctx, end.claim)
	}
	return answer, nil
}

// endOthers writes results, with this reason, for the other trials that f says end too, by the listing in which this
// task has found its own trial. A trial that was paused gets its score at its last rung. The final training, for which
// this is done, is left out.
func (w *Worker) endOthers(ctx context.Context, f protocol.Finish, reason string) error {
	w.Log.Info("ends the trials that have not begun or are paused", "reason", reason)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16) // requests at a time
	for _, t := range w.known.listing.Trials {
		if !f.EndsToo(t.Trial) || w.plan.Trials[t.Number].Refit {
			continue
		}
		group.Go(func() error {
			r := w.unclaimed(ctx, t.Number, sweep.StatusStopped, reason)
			passed, err := w.trials.AtPause(ctx, t)
			if err != nil {
				return err
			}
			if n := len(passed); n > 0 {
				r.Rungs, r.Score, r.TreesGrown = passed, passed[n-1].Score, passed[n-1].Step
			}
			created, err := w.trials.CreateResult(ctx, r)
			if created {
				w.measures.end(sweep.StatusStopped)
			}
			return err
		})
	}
	return group.Wait()
}

// unclaimed returns a result for a trial that this task does not hold. An open trial has the parameters that were
// decided for it; none if it was not decided, or the decision cannot be read.
func (w *Worker) unclaimed(ctx context.Context, trial int, status sweep.Status, reason string) sweep.Result {
	now, params := time.Now().UTC(), w.plan.Trials[trial].Params
	if w.plan.Trials[trial].Open {
		if d, err := w.trials.Decision(ctx, w.plan.Decider(trial)); err == nil && d != nil {
			params = d.Params
		}
	}
	return sweep.Result{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: trial, Task: w.Task, Attempt: w.Attempt,
		Params: params, Metrics: map[string]float64{}, Status: status, Reason: reason, Started: now, Ended: now}
}

// upload writes the trial's files, in parallel, into the folder of this claim, and notes them in the result. A trial of
// a fold has none.
func (w *Worker) upload(ctx context.Context, result *sweep.Result, files *modelFiles) error {
	if result.Fold > 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	put := func(file string, data []byte, to *sweep.Object) {
		group.Go(func() error {
			o, err := w.trials.WriteFile(ctx, result.Trial, result.Claim, file, data)
			if err != nil {
				return fmt.Errorf("trial %d: %w", result.Trial, err)
			}
			*to = o
			return nil
		})
	}

	result.Model, result.Scores = &sweep.Object{}, &sweep.Scored{}
	put("model.txt", files.model, result.Model)
	put("calib.scores", sweep.EncodeScores(files.calib), &result.Scores.Calib)
	put("test.scores", sweep.EncodeScores(files.test), &result.Scores.Test)
	return group.Wait()
}

// publish sends the result to the aggregator. A failed publish is only logged: the aggregator finds the result object
// anyway.
func (w *Worker) publish(ctx context.Context, result *sweep.Result) error {
	if w.Scores == nil { // nobody waits for messages
		return nil
	}
	message, err := json.Marshal(sweep.ScoreMessage{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: result.Trial,
		Claim: result.Claim, Attempt: result.Attempt, Status: result.Status, Score: result.Score})
	if err != nil {
		return err
	}

	number := strconv.Itoa(result.Trial)
	attrs := map[string]string{"sweep": string(w.Sweep), "trial": number,
		"traceparent": w.Sweep.TraceParent("trial", number)}
	if err := w.Scores.Publish(ctx, message, attrs); err != nil {
		w.Log.Warn("publish the score", "trial", result.Trial, "error", err.Error())
	}
	return nil
}

// remember keeps a result that this task has written, so that it need not be read.
func (w *Worker) remember(result *sweep.Result) {
	switch {
	case w.plan.Folds != nil:
		w.known.results[result.Trial] = *result
	case w.plan.Open(): // results of any other plan are read once they are needed: see board
		w.trials.SeenResult(w.known.seen, result)
	}
}

// release gives a claim back, so that no task has to wait until its holder counts as dead. A failure is only logged.
func (w *Worker) release(ctx context.Context, claim *sweep.Claim) {
	if ctx.Err() != nil {
		w.measures.count(w.measures.interruptions)
	}

	ctx, cancel := context.WithTimeout(w.after.release, patience)
	defer cancel()
	if err := w.trials.Release(ctx, claim.Trial, claim.Claim); err != nil {
		w.Log.Warn("release the claim", "trial", claim.Trial, "error", err.Error())
	}
}

// dropCheckpoints empties the checkpoints of a trial. A failure is only logged: any that remain do no harm, and are
// deleted with the sweep.
func (w *Worker) dropCheckpoints(ctx context.Context, trial int) {
	k := keep.Keeper{Place: w.trials.Checkpoints(trial, gbt.MaxCheckpointBytes)}
	if err := k.Clear(ctx); err != nil {
		w.Log.Warn("drop the trial's checkpoints", "trial", trial, "error", err.Error())
	}
}

// writeCurve writes the trial's learning curve. There is none if trees are not scored one by one. A failure is only
// logged.
func (w *Worker) writeCurve(ctx context.Context, p *pulse) {
	p.mu.Lock()
	c := p.curve
	p.mu.Unlock()
	if len(c.Scores) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := w.trials.CreateCurve(ctx, c); err != nil {
		w.Log.Warn("write the learning curve", "trial", c.Trial, "error", err.Error())
	}
}

// tidy drops checkpoints that are of no use any more. In a sweep that is over these are all. Otherwise they are those
// of trials that have ended, whose holder vanished after it had written the result, or came back and saved once more. A
// failure is only logged.
func (w *Worker) tidy(ctx context.Context) {
	over, err := w.whyOver(ctx)
	list, failed := w.trials.List(ctx)
	if err := cmp.Or(err, failed); err != nil {
		w.Log.Warn("look for checkpoints that were left", "error", err.Error())
		return
	}
	rules := protocol.Leaving{Over: over != nil}
	for _, t := range list.Trials {
		kept := slices.ContainsFunc(t.Claims, func(c sweepstore.ListedClaim) bool { return c.Kept })
		if kept && rules.Drops(t.Trial) {
			w.Log.Info("dropping checkpoints that were left", "trial", t.Number)
			w.dropCheckpoints(ctx, t.Number)
		}
	}
}
