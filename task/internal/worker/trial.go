package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
	"coppice/task/internal/keep"
	"coppice/task/internal/usage"
)

// training is this task's training of a trial that it has claimed.
type training struct {
	*Worker
	ctx     context.Context // the task's: it ends when the machine is being taken away
	claim   *sweep.Claim
	planned sweep.Trial
	pulse   *pulse
	result  *sweep.Result
	files   *modelFiles // nil without a model

	// Where it saves, and what it resumes from.
	keeper *keep.Keeper
	damage error           // errCopy, once a save has found it
	from   *gbt.Checkpoint // nil at the beginning

	deadline   time.Time // when the training has to end: by limits.trial,
	finalFirst bool      // or, if this is set, by the time that is kept for the final training
	late       bool      // that time had begun before the trial was trained at all

	pauseAt int // the trees at which the trial waits for others; 0 while it does not
	passed  []sweep.RungScore
}

// newTraining prepares an attempt at a claimed trial, with the parts of its result that are known.
func (w *Worker) newTraining(ctx context.Context, claim *sweep.Claim) *training {
	t := &training{Worker: w, ctx: ctx, claim: claim, planned: w.plan.Trials[claim.Trial]}
	t.keeper = t.newKeeper()
	t.result = &sweep.Result{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: claim.Trial, Claim: claim.Claim,
		Task: w.Task, Attempt: w.Attempt, Configuration: t.planned.Configuration, Fold: t.planned.Fold,
		Params: t.planned.Params, Metrics: map[string]float64{}}
	return t
}

// trainClaimed trains a claimed trial and writes its result. A returned error is a storage failure; an error of the
// configuration itself becomes a failed result.
func (w *Worker) trainClaimed(ctx context.Context, claim *sweep.Claim) error {
	// Others take a silent holder for dead, so the claim is kept alive from here until the upload has ended, which may
	// take longer than the takeover time.
	trialCtx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	t := w.newTraining(ctx, claim)
	t.pulse = w.startPulse(ctx, claim, abort)
	defer t.pulse.end()

	e := t.run(trialCtx)

	// A reader of the result must find the curve, so it is written before. If there is no result, the claim is released
	// first: other tasks wait for that.
	if e.why == protocol.NoReason {
		hurry, cancel := outlive(ctx, curveFor) // if ctx ends, there is no more time for it than that
		w.writeCurve(hurry, t.pulse)
		cancel()
		return w.finish(ctx, e)
	}
	err := w.finish(ctx, e)
	w.writeCurve(w.after.curve, t.pulse)
	return err
}

// run trains the trial and says how that ended, for finish to act on. trialCtx ends with the task's context, or when
// the pulse finds that the training is not wanted any more; its cause says which.
func (t *training) run(trialCtx context.Context) ending {
	started, cpu := time.Now().UTC(), usage.CPU()

	// What an earlier holder saved comes first, since the time spent on it counts towards the limit.
	if err := t.resume(); err != nil {
		return ending{claim: t.claim, why: protocol.Broken, err: fmt.Errorf("trial %d: %w", t.claim.Trial, err)}
	}
	t.limitTime()

	err := t.train(trialCtx)
	ended, cause := time.Now().UTC(), context.Cause(trialCtx)
	t.result.Rungs = t.passed

	// An early end says nothing about the configuration: whoever holds the trial next goes on with it.
	if why, reason := classify(err, t.ctx.Err(), cause); why != protocol.NoReason {
		e := ending{claim: t.claim, why: why, err: reason}
		switch paused := new(pausedError); {
		case errors.As(reason, &paused):
			e.step, e.err = paused.step, nil
			t.Log.Info("paused", "trial", t.claim.Trial, "trees", paused.step)
		case problem.Is(reason, problem.Transient):
			e.err = fmt.Errorf("trial %d: %w", t.claim.Trial, reason)
		}
		return e
	}

	// What is left ends the trial for good, so it must not come from a damaged copy. A failure may come from the
	// damage; a model of changed labels could win the sweep, and no other machine reproduces one of changed bins.
	if err == nil || !t.leftNothing(err, cause) {
		if damage := t.verify(t.after.work, "after a trial"); damage != nil {
			return ending{claim: t.claim, why: protocol.Broken, err: damage}
		}
	}

	r := t.result
	if stopped := new(stoppedError); errors.As(err, &stopped) {
		r.Score, r.TreesGrown = stopped.score, stopped.step
		r.Usage = sweep.Usage{TreesPerSecond: t.pulse.rate(), PrivateBytes: usage.Self().Private}
	}
	r.Started, r.Ended = started, ended
	r.Usage.CPUSeconds = (usage.CPU() - cpu).Seconds()
	r.Usage.PeakPSSBytes, r.Usage.MappedBytes = t.pulse.peak(), t.dataset.Mapped()
	if err != nil {
		r.Status, r.Reason = t.failure(err, cause)
		r.Reason = sweep.CutReason(r.Reason)
		t.Log.Warn("trial ended without a model", "trial", r.Trial, "status", r.Status, "reason", r.Reason)
		t.files = nil
	}
	return ending{claim: t.claim, result: r, files: t.files, late: t.late}
}

// resume sets t.from to the newest checkpoint of the trial, if there is one. A checkpoint of another training, as
// another build would make it, is dropped at once, so that the time spent on it does not count towards this trial's
// limit.
func (t *training) resume() (err error) {
	if t.from, err = t.keeper.Newest(t.ctx); err != nil || t.from == nil {
		return err
	}
	if own := t.identities(); !slices.Contains(own, t.from.Identity()) {
		t.keeper.Log.Warn("the trial starts over", "checkpoint", t.from.Identity(), "this", own[0])
		t.startOver()
	}
	return nil
}

// identities returns the identities that checkpoints of this trial may have: first that of its training on all rows,
// and then, if trials are compared on a sample, that of its training on the sample.
func (t *training) identities() []string {
	q := t.forTrial(t.claim.Trial, fit.Request{Metric: t.metric})
	all := []string{t.table.Identity(q)}
	if stop := t.plan.Spec.Search.Stop; stop != nil && stop.By == sweep.ByRows {
		q.OneIn = stop.OneIn
		all = append(all, t.table.Identity(q))
	}
	return all
}

// limitTime sets when the training has to end: at limits.trial or, if that is earlier, when the rest of limits.sweep
// has to be kept for the final training. Time spent under earlier claims counts only up to the checkpoint, so that a
// trial does not time out because its machines keep vanishing.
func (t *training) limitTime() {
	spent := time.Duration(0)
	if t.from != nil {
		spent = t.from.Elapsed()
	}
	t.deadline = time.Now().Add(time.Duration(t.plan.Spec.Limits.Trial) - spent)
	if until, ok := t.reserve(t.ctx, t.claim, spent); ok && until.Before(t.deadline) {
		t.deadline, t.finalFirst = until, true
	}
}

// reserve returns until when a claimed trial, which has trained for spent, may train so that the final training can
// still end within limits.sweep. ok is false if no time is kept: in a sweep without a final training, for the final
// training itself, if that cannot end in time anyway, and if the store does not say how old the sweep is.
func (w *Worker) reserve(ctx context.Context, claim *sweep.Claim, spent time.Duration) (until time.Time, ok bool) {
	if w.plan.FinalReserve() == 0 || w.plan.Trials[claim.Trial].Refit {
		return time.Time{}, false
	}
	left, best, err := w.timeLeft(ctx, claim)
	if err != nil {
		w.Log.Warn("no time is kept for the final training", "trial", claim.Trial, "error", err.Error())
		return time.Time{}, false
	}
	share, ok := w.plan.BeforeFinal(left, spent, best)
	return time.Now().Add(share), ok
}

// timeLeft returns how much of limits.sweep was left when a claim was made, by the store's clock, and the result of the
// best trial that has ended, nil if there is none.
func (w *Worker) timeLeft(ctx context.Context, claim *sweep.Claim) (left time.Duration, best *sweep.Result, err error) {
	if w.known.began.IsZero() {
		if w.known.began, err = w.store.Planned(ctx); err != nil {
			return 0, nil, err
		}
	}
	claimed, err := w.trials.Claimed(ctx, claim.Trial, claim.Claim)
	if err != nil {
		return 0, nil, err
	}
	board, err := w.board(ctx)
	if err != nil {
		return 0, nil, err
	}
	best, _, _, err = w.bestOf(board)
	return time.Duration(w.plan.Spec.Limits.Sweep) - claimed.Sub(w.known.began), best, err
}

// train decides what the trial trains, trains it and notes everything in the result. A panic is recovered as an error
// of the configuration: one bad configuration must not fail the task, and with it the whole Batch job.
func (t *training) train(trialCtx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()

	chosen, err := t.decide(trialCtx)
	if err != nil {
		return err
	}
	q, err := t.fullRequest(trialCtx, t.claim.Trial, t.result.Params, t.result.From)
	if err != nil {
		return err
	}
	q.Metrics, q.StandardError = t.metrics, t.plan.Spec.PicksByError()
	q.OnTree = func(g gbt.Progress) error {
		t.pulse.tree(g)
		return t.climb(trialCtx, g)
	}

	// A sample of the rows is cheap, so trials that fall behind on it end before they see all rows.
	if err := t.compareBySample(trialCtx, q); err != nil {
		return err
	}
	// lead joins the team now; what it returns leaves the team at the end, and notes its part in the result.
	defer t.lead(trialCtx, &q)(&t.result.Usage)
	o, err := t.fit(trialCtx, q)
	if err != nil {
		return err
	}

	if err := t.record(o, chosen, q.Params.NumIterations); err != nil {
		return err
	}
	if t.planned.Fold > 0 { // a fold's model is discarded
		t.files = &modelFiles{}
		return nil
	}
	t.files, err = t.score(o.Model, q.Threads)
	return err
}

// decide finds out whether the trial is to be trained, and what it trains. It sets the parameters in the result also
// for a trial that is not to be trained; the error then is a *stoppedError or an *untrainedError. For a refit or final
// training it returns what was chosen, with the scores that the result gets.
func (t *training) decide(ctx context.Context) (*sweep.Rated, error) {
	var ends error        // why it is not to be trained
	if !t.planned.Refit { // which has no rungs, and for which the time is kept
		// An earlier holder may have paused the trial, which may have ended there or wait still.
		ends = t.checkStanding(ctx)
		if stopped := new(stoppedError); ends != nil && !errors.As(ends, &stopped) {
			return nil, ends
		}
		// A trial of which nothing is saved does not begin in the time that is kept for the final training.
		if ends == nil && t.finalFirst && t.from == nil && !time.Now().Before(t.deadline) {
			t.late, ends = true, &untrainedError{t.plan.KeptBack()}
		}
	}

	// What it trains is settled even if it ends here: its result has the parameters.
	s, err := t.settle(ctx, t.claim)
	t.result.Params, t.result.From = s.params, s.from
	return s.chosen, errors.Join(err, ends)
}

// fullRequest returns the request to train a trial with the parameters decided for it, from the model of from if that
// is not nil. It has all that every machine needs which takes part in the training.
func (w *Worker) fullRequest(ctx context.Context, trial int, decided sweep.Params,
	from *sweep.Origin) (fit.Request, error) {
	params, err := gbt.ParseParams(decided)
	if err != nil {
		return fit.Request{}, err
	}
	input, err := w.inputOf(ctx, from)
	if err != nil {
		return fit.Request{}, err
	}
	return w.forTrial(trial, fit.Request{Params: params, Metric: w.metric, Threads: w.threads(w.plan.Trials[trial]),
		RateTrees: w.plan.Spec.Search.Stop != nil, Input: input}), nil
}

// forTrial returns the request with what follows from the trial's place in the plan and not from its parameters: the
// rows that it trains on and is evaluated on, whether it is the final training, and then of how many models. It also
// sets the build, which a checkpoint must share.
func (w *Worker) forTrial(trial int, request fit.Request) fit.Request {
	request.Rows, request.Valid = w.plan.RowsOf(trial)
	final, ok := w.plan.Final()
	request.Final = ok && trial == final
	if request.Final {
		request.Bag = w.plan.Spec.BagOf(request.Params.NumIterations, request.Params.EarlyStoppingRound)
	}
	request.Program = w.Version
	return request
}

// threads returns how many threads a trial is trained with. A refit comes after all others, so it may use all of its
// machine. The model's bytes are the same for any number.
func (w *Worker) threads(planned sweep.Trial) int {
	z := &w.plan.Sizing
	if planned.Refit {
		return max(z.ThreadsPerTask, min(runtime.GOMAXPROCS(0), z.RefitThreads()))
	}
	return z.ThreadsPerTask
}

// inputOf reads the model of another trial that a trial of a population continues; nil if from is. If the store does
// not answer the error is transient. If the model is lost no task can train the trial.
func (w *Worker) inputOf(ctx context.Context, from *sweep.Origin) (*gbt.InputModel, error) {
	if from == nil {
		return nil, nil
	}
	text, lost, err := w.trials.File(ctx, from.Model)
	if err == nil && lost == nil {
		return fit.Input(w.dataset.Manifest, text)
	}
	why := fmt.Errorf("the model of trial %d, which it continues: %w", from.Trial, cmp.Or(lost, err))
	if lost == nil {
		why = problem.As(problem.Transient, why)
	}
	return nil, why
}

// fit trains the trial from its checkpoint, if there is one that belongs to this request. If training finds that it
// cannot resume the checkpoint, it drops the checkpoint and starts over. While it trains, checkpoints are saved when
// they are due. At a rung where the trial has to wait, one is saved in any case, and the error is a *pausedError.
func (t *training) fit(trialCtx context.Context, request fit.Request) (*fit.Evaluated, error) {
	// A checkpoint of the training on a sample is of no use for the one on all rows, and the other way round.
	if t.from != nil && t.from.Identity() != t.table.Identity(request) {
		t.startOver()
	}

	request.Resume, request.Deadline = t.from, t.deadline
	request.Checkpoint = func(c *gbt.Checkpoint) error {
		if t.pauseAt == 0 {
			t.keeper.Offer(t.ctx, c)
			return t.damage // trees grown from here on would be wasted
		}
		t.keeper.Save(t.ctx, c)
		if t.damage != nil {
			return t.damage
		}
		return &pausedError{t.pauseAt}
	}

	o, err := t.table.Train(trialCtx, request)
	if !errors.As(err, new(*gbt.MismatchError)) {
		return o, err
	}
	t.keeper.Log.Warn("the trial starts over", "error", err.Error())
	t.startOver()
	request.Resume = nil
	return t.table.Train(trialCtx, request)
}

// record sets the result from what the training made. maxTrees is how many trees the model could have had. chosen is
// what a refit or final training was chosen by, whose score and metrics it gets; nil for any other trial.
func (t *training) record(trained *fit.Evaluated, chosen *sweep.Rated, maxTrees int) (err error) {
	r := t.result
	if trained.Calibrator != nil {
		if r.Calibrator, err = json.Marshal(trained.Calibrator); err != nil {
			return err
		}
	}

	// What the model is, and how good.
	r.Status, r.Score, r.Metrics = sweep.StatusDone, trained.Score, trained.Metrics
	r.BestIteration, r.Trees, r.TreesGrown = trained.Best, trained.Model.Iterations(), trained.Grown
	for _, tree := range trained.Model.Trees {
		r.Leaves += len(tree.LeafValue)
	}
	if trained.Stopped == gbt.StopLimit {
		r.AtLimit = true
		if t.finalFirst {
			r.Reason = fmt.Sprintf("stopped after %d of %d trees: %s", trained.Grown, maxTrees, t.plan.KeptBack())
		} else {
			r.Reason = fmt.Sprintf("stopped at its limit of %s after %d of %d trees", t.plan.Spec.Limits.Trial,
				trained.Grown, maxTrees)
		}
		t.Log.Warn(r.Reason, "trial", r.Trial)
	}

	// What only some trials have: a standard error to pick by, the number of rows, and what a refit takes over.
	refit, folds := t.planned.Refit, t.plan.Folds != nil
	if se := trained.ScoreSE; !refit && t.plan.Spec.PicksByError() && !math.IsNaN(se) && !math.IsInf(se, 0) {
		r.ScoreSE = &trained.ScoreSE
	}
	if folds || refit {
		r.TrainRows = trained.TrainRows
	}
	if chosen != nil { // the refit trained on every row, so none is left to evaluate it: it gets the mean of its folds
		r.Score, r.Metrics = *chosen.Mean, chosen.Metrics
	}
	if refit && !folds { // a final training, whose chosen is the winner's single trial
		r.Refits = &chosen.Trials[0]
	}

	// What it took.
	mem := usage.Self()
	r.Usage = sweep.Usage{TrainSeconds: trained.Seconds, NsPerValue: trained.NsPerValue, TreesPerSecond: t.pulse.rate(),
		ResumedTrees: trained.Resumed, PrivateBytes: mem.Private, SharedBytes: mem.Shared, PSSBytes: mem.PSS}
	return nil
}

// score returns the files of a trial: the model, and its raw scores on the calibration and test rows. The aggregator,
// which does not map the dataset, calibrates and verifies the model with these scores.
func (w *Worker) score(model *gbt.Model, threads int) (*modelFiles, error) {
	out := &modelFiles{}
	for _, part := range []struct {
		rows sweep.Rows
		to   *[]float64
	}{{w.plan.Holdout.Calib, &out.calib}, {w.plan.Holdout.Test, &out.test}} {
		rows, err := w.table.Select(part.rows)
		if err != nil {
			return nil, err
		}
		if *part.to, err = model.PredictBinned(&rows.Data, threads); err != nil {
			return nil, err
		}
	}

	var text bytes.Buffer
	if _, err := model.WriteTo(&text); err != nil {
		return nil, err
	}
	out.model = text.Bytes()
	return out, nil
}

// classify says why a training ended early, and returns the error that says so. It returns NoReason if the training has
// ended the trial for good, with a model or without one. err is the error of the training, told is that of the task's
// context, which ends when the machine is taken away, and cause is why the trial's context was cancelled.
//
// A training without an error has made a model, which counts whatever has happened meanwhile. Otherwise several reasons
// may hold at once, and the first one counts. A machine that is taken away has no time for anything else. A trial that
// another task has taken or ended needs nothing from this one. After a failure of the store or of the disk's copy
// another task has to train the trial, unless the sweep wants no more results. What is left is a trial that waits at a
// rung.
func classify(err, told, cause error) (protocol.Why, error) {
	paused := new(pausedError)
	switch {
	case err == nil:
		return protocol.NoReason, nil
	case told != nil:
		return protocol.ToldToGo, told
	case errors.Is(cause, errSuperseded):
		return protocol.Superseded, cause
	case errors.Is(cause, errEndedElsewhere):
		return protocol.EndedElsewhere, cause
	// after errCopy, the training saw wrong data, even if a later verification succeeds
	case (problem.Is(err, problem.Transient) || errors.Is(err, errCopy)) && !unwanted(cause):
		return protocol.Broken, err
	case errors.As(err, &paused):
		return protocol.Paused, err
	}
	return protocol.NoReason, nil
}

// verify verifies the machine's whole copy of the dataset. If the copy has changed since it was staged, the error is
// errCopy; when is for its text.
func (w *Worker) verify(ctx context.Context, when string) error {
	err := w.dataset.VerifyMapped(ctx, max(1, w.plan.Sizing.ThreadsPerTask))
	var corrupt *dataset.CorruptError
	if errors.As(err, &corrupt) {
		//nolint:errorlint // a damaged copy is made again: it is not damaged input
		return fmt.Errorf("%w: found %s: %v", errCopy, when, corrupt)
	}
	return err
}

// leftNothing reports whether a training that ended with err, or whose context ended with cause, says nothing that a
// damaged copy could have made wrong: it was stopped from outside or at its limit, or it ended at a rung without
// growing a tree of its own. Its checkpoints are good, since the copy was verified before each was saved.
func (t *training) leftNothing(err, cause error) bool {
	stopped := new(stoppedError)
	return unwanted(cause) || errors.Is(err, gbt.ErrLimit) || errors.As(err, &stopped) && t.pulse.grew() == 0
}

// unwanted reports whether the trial was stopped because the sweep wants no more results.
func unwanted(cause error) bool {
	return errors.Is(cause, errCancelled) || errors.Is(cause, errEnded)
}

// failure returns the status and the reason for the result of a trial that has ended without a model, with this error
// of its training; cause is why its context was cancelled.
func (t *training) failure(err, cause error) (sweep.Status, string) {
	var stopped *stoppedError
	var untrained *untrainedError
	spec := &t.plan.Spec
	switch limited := errors.Is(err, gbt.ErrLimit); { // its time was over before there was a model
	case limited && t.finalFirst:
		return sweep.StatusStopped, t.plan.KeptBack()
	case errors.As(err, &untrained):
		return sweep.StatusStopped, untrained.reason
	case errors.As(err, &stopped):
		return sweep.StatusStopped, fmt.Sprintf("%s: %s", spec.Search.Stop.Reached(stopped.step), stopped.reason)
	case limited:
		return sweep.StatusTimedOut, fmt.Sprintf("stopped at its limit of %s before it had a model", spec.Limits.Trial)
	case unwanted(cause):
		return sweep.StatusCancelled, cause.Error()
	}
	return sweep.StatusFailed, err.Error()
}

// keepEvery bounds the training time between two checkpoints. A task that vanishes is missed only after the plan's
// takeover time; losing its unsaved trees should cost no more than that.
const keepEvery = time.Minute

// newKeeper returns the keeper of the trial's checkpoints: it reads those of every claim and writes those of this one.
//
// It saves nothing once the machine's copy of the dataset is damaged: a checkpoint outlives the copy, and another task,
// here or on another machine, resumes from it on good data. So the whole copy is verified before every save. Damage on
// a disk does not heal, so a copy that verifies now was whole during all the training so far, and every checkpoint in
// the bucket is of good data. That takes about as long as one tree, and a save that takes longer comes less often.
func (t *training) newKeeper() *keep.Keeper {
	place := t.trials.Checkpoints(t.claim.Trial, gbt.MaxCheckpointBytes)
	return &keep.Keeper{
		Place:  place,
		Prefix: place.Prefix(t.claim.Claim),
		Every:  min(keepEvery, time.Duration(t.plan.Takeover)),
		Soon:   true,
		Last:   t.after.work,
		Sound: func(ctx context.Context) error {
			err := t.verify(ctx, "before a checkpoint")
			if errors.Is(err, errCopy) {
				t.damage = err
			}
			return err
		},
		Log: t.Log.With("trial", t.claim.Trial, "claim", t.claim.Claim),
	}
}

// startOver drops the trial's checkpoints, so that the training to come does not resume any. A failure is only logged.
func (t *training) startOver() {
	if err := t.keeper.Clear(t.ctx); err != nil {
		t.keeper.Log.Warn("drop the trial's checkpoints", "error", err.Error())
	}
	t.from = nil
}
