package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
	"coppice/task/internal/usage"
)

// Why training stops early.
var (
	errSuperseded = errors.New("another task has taken the trial over")
	// An earlier holder of the trial was taken for dead, came back and ended it.
	errEndedElsewhere = errors.New("another task has ended the trial")
)

// trial trains a claimed trial and writes its result. A returned error is a storage failure; an error of the
// configuration itself becomes a failed result.
func (w *Worker) trial(ctx context.Context, claim *sweep.Claim, m metric.Metric) error {
	training, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pulse := w.startPulse(ctx, claim, stop)
	defer pulse.end() // after the upload, which may take longer than the takeover time

	e := w.attempt(ctx, training, claim, m, pulse)

	// A reader of the result must find the curve, so it is written before. If there is no result, the claim is released
	// first: other tasks wait for that.
	if e.why == protocol.Unknown {
		hurry, cancel := outlive(ctx, curveFor)
		w.leaveCurve(hurry, claim, pulse)
		cancel()
		return w.finish(ctx, e)
	}
	err := w.finish(ctx, e)
	w.leaveCurve(w.after.curve, claim, pulse)
	return err
}

// ending says how a training ended.
type ending struct {
	claim *sweep.Claim // nil when this task gives up a trial it does not hold
	why   protocol.Why // set when it ended early
	r     *sweep.Result
	out   *finished // nil if there is no model
	step  int       // where the trial was paused
	err   error
}

// attempt trains a claimed trial.
func (w *Worker) attempt(ctx, training context.Context, claim *sweep.Claim, m metric.Metric, pulse *pulse) ending {
	started, cpu := time.Now().UTC(), usage.CPU()
	s, err := w.saved(ctx, claim, m)
	if err != nil {
		return ending{claim: claim, why: protocol.Broken, err: fmt.Errorf("trial %d: %w", claim.Trial, err)}
	}

	s.limit = time.Now().Add(w.timeLeft(s.from))
	w.leaveTime(ctx, claim, s)
	r, out, err := w.train(training, claim, m, pulse, s)
	ended, cause := time.Now().UTC(), context.Cause(training)

	// The first match wins: causes that say nothing about the configuration come before those that do.
	paused := new(pausedError)
	switch {
	case err != nil && ctx.Err() != nil: // the machine is being taken away; the next attempt resumes the trial
		return ending{claim: claim, why: protocol.ToldToGo, err: ctx.Err()}
	case err != nil && errors.Is(cause, errSuperseded):
		return ending{claim: claim, why: protocol.Superseded, r: r, err: cause}
	case err != nil && errors.Is(cause, errEndedElsewhere):
		return ending{claim: claim, why: protocol.EndedElsewhere, r: r, err: cause}
	case problem.Is(err, problem.Transient) && !unwanted(cause):
		return ending{claim: claim, why: protocol.Broken, err: fmt.Errorf("trial %d: %w", claim.Trial, err)}
	// this training saw wrong data, even if a later verification succeeds
	case errors.Is(err, errCopy) && !unwanted(cause):
		return ending{claim: claim, why: protocol.Broken, err: err}
	case errors.As(err, &paused):
		w.Log.Info("paused", "trial", claim.Trial, "trees", paused.step)
		return ending{claim: claim, why: protocol.Paused, step: paused.step}
	}
	stopped := new(stoppedError)
	idle := errors.As(err, &stopped) && pulse.grew() == 0 // it was stopped where an earlier holder had left it
	discarded := unwanted(cause) || errors.Is(err, gbt.ErrLimit) || idle
	if damage := w.intact(w.after.work, err != nil && discarded); damage != nil {
		return ending{claim: claim, why: protocol.Broken, err: damage}
	}

	if errors.As(err, &stopped) {
		r.Score, r.TreesGrown = stopped.score, stopped.step
		r.Usage = sweep.Usage{TreesPerSecond: pulse.rate(), PrivateBytes: usage.Self().Private}
	}
	r.Started, r.Ended = started, ended
	r.Usage.CPUSeconds, r.Usage.PeakPSSBytes, r.Usage.MappedBytes = (usage.CPU() - cpu).Seconds(), pulse.peak(),
		w.mapped
	if s.kept && errors.Is(err, gbt.ErrLimit) { // before its first tree
		err = &untrainedError{w.plan.KeptBack()}
	}
	if err != nil {
		r.Status, r.Reason = w.failure(cause, err)
		r.Reason = sweep.CutReason(r.Reason)
		w.Log.Warn("trial ended without a model", "trial", claim.Trial, "status", r.Status, "reason", r.Reason)
		return ending{claim: claim, r: r}
	}
	return ending{claim: claim, r: r, out: out}
}

// unwanted reports whether the trial was stopped because the sweep wants no more results.
func unwanted(cause error) bool {
	return errors.Is(cause, errCancelled) || errors.Is(cause, errEnded)
}

// finished holds the files that a trained trial leaves beside its result.
type finished struct {
	model       []byte
	calib, test []float64
}

// train trains and evaluates the trial's configuration. A panic is recovered as an error of the configuration: one bad
// configuration must not fail the task, and with it the whole Batch job.
func (w *Worker) train(ctx context.Context, claim *sweep.Claim, m metric.Metric, p *pulse, s *saving) (r *sweep.Result,
	out *finished, err error) {
	of := w.plan.Trials[claim.Trial]
	r = &sweep.Result{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: claim.Trial, Claim: claim.Claim,
		Task: w.Task, Attempt: w.Attempt, Configuration: of.Configuration, Fold: of.Fold, Metrics: map[string]float64{}}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	r.Params = of.Params
	chosen, err := w.begin(ctx, claim, r, s)
	r.Rungs = w.passed
	if err != nil {
		return r, nil, err
	}
	q, err := w.training(ctx, claim.Trial, m, r.Params, r.From)
	if err != nil {
		return r, nil, err
	}
	q.Metrics, q.StandardError = w.metrics, w.plan.Spec.PicksByError()
	q.OnTree = func(g gbt.Progress) error {
		if err := p.tree(g); err != nil {
			return err
		}
		return w.climb(ctx, claim, g, s)
	}
	o := (*fit.Evaluated)(nil)
	if !of.Refit {
		err = w.compareBySample(ctx, claim, s, q, p)
	}
	if err == nil {
		defer w.lead(ctx, claim, &q)(&r.Usage)
		o, err = w.fit(ctx, s, q)
	}
	r.Rungs = w.passed
	if err != nil {
		return r, nil, err
	}

	if o.Calibrator != nil {
		if r.Calibrator, err = json.Marshal(o.Calibrator); err != nil {
			return r, nil, err
		}
	}
	w.record(r, o, chosen, q.Params.NumIterations, s.kept)
	r.Usage.TreesPerSecond = p.rate()
	if of.Fold > 0 { // a fold's model is discarded
		return r, &finished{}, nil
	}

	out, err = w.score(o.Model, q.Threads)
	return r, out, err
}

// record writes what the training made into the result. most is how many trees it could have had, kept says that its
// limit was what is kept for the final training, and chosen is nil for a trial that chose nothing.
func (w *Worker) record(r *sweep.Result, o *fit.Evaluated, chosen *sweep.Rated, most int, kept bool) {
	of := w.plan.Trials[r.Trial]
	r.Status, r.Score, r.Metrics = sweep.StatusDone, o.Score, o.Metrics
	r.BestIteration, r.Trees, r.TreesGrown = o.Best, o.Model.Iterations(), o.Grown
	if o.Stopped == gbt.StopLimit {
		r.AtLimit = true
		r.Reason = w.cut(o.Grown, most, kept)
		w.Log.Warn(r.Reason, "trial", r.Trial)
	}
	for _, t := range o.Model.Trees {
		r.Leaves += len(t.LeafValue)
	}
	if se := o.ScoreSE; !of.Refit && w.plan.Spec.PicksByError() && !math.IsNaN(se) && !math.IsInf(se, 0) {
		r.ScoreSE = &o.ScoreSE
	}
	if w.plan.Folds != nil || of.Refit {
		r.TrainRows = o.TrainRows
	}
	if chosen != nil { // the refit trained on every row, so none is left to evaluate it: it gets the mean of its folds
		r.Score, r.Metrics = *chosen.Mean, chosen.Metrics
	}
	if of.Refit && w.plan.Folds == nil {
		r.Refits = &chosen.Trials[0]
	}
	mem := usage.Self()
	r.Usage = sweep.Usage{TrainSeconds: o.Seconds, NsPerValue: o.NsPerValue,
		ResumedTrees: o.Resumed, PrivateBytes: mem.Private, SharedBytes: mem.Shared, PSSBytes: mem.PSS}
}

// begin finds out whether a claimed trial is to be trained and with which parameters, which it notes in r. For a refit
// it returns what was chosen.
func (w *Worker) begin(ctx context.Context, claim *sweep.Claim, r *sweep.Result, s *saving) (chosen *sweep.Rated,
	err error) {
	w.passed = nil
	if of := w.plan.Trials[claim.Trial]; of.Refit && w.plan.Folds == nil { // it ends no earlier than the trees it has
		r.Params, chosen, err = w.settleFold(ctx, claim)
		return chosen, err
	}
	waits := w.stand(ctx, claim, s.from)
	stopped := new(stoppedError)
	if waits != nil && !errors.As(waits, &stopped) {
		return nil, waits
	}

	if waits == nil && s.kept && s.from == nil && !time.Now().Before(s.limit) {
		waits = &untrainedError{w.plan.KeptBack()}
	}
	if w.plan.Folds != nil {
		r.Params, chosen, err = w.settleFold(ctx, claim)
	} else {
		r.Params, r.From, err = w.settle(ctx, claim)
	}
	return chosen, errors.Join(err, waits)
}

// climb is what a training does after each tree: at a rung it may have to wait. It then ends with the checkpoint of
// that tree, or with the next tree in a training that has none.
func (w *Worker) climb(ctx context.Context, claim *sweep.Claim, g gbt.Progress, s *saving) error {
	if s.pause > 0 {
		return &pausedError{s.pause}
	}
	var err error
	if !w.plan.Trials[claim.Trial].Refit {
		err = w.atRung(ctx, claim, g)
	}
	if paused := new(pausedError); errors.As(err, &paused) {
		s.pause = paused.step
		return nil
	}
	return err
}

// score predicts the calibration and test rows. The aggregator does not map the dataset; it calibrates on and verifies
// the model with these scores.
func (w *Worker) score(model *gbt.Model, threads int) (*finished, error) {
	out := &finished{}
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

// failure gives the status and reason of a trial without a model.
func (w *Worker) failure(cause, err error) (sweep.Status, string) {
	var stopped *stoppedError
	var untrained *untrainedError
	switch {
	case errors.As(err, &untrained):
		return sweep.StatusStopped, untrained.reason
	case errors.As(err, &stopped):
		return sweep.StatusStopped, fmt.Sprintf("%s: %s", w.plan.Spec.Search.Stop.Reached(stopped.step), stopped.reason)
	case errors.Is(err, gbt.ErrLimit):
		return sweep.StatusTimedOut, fmt.Sprintf("stopped at its limit of %s before it had a model",
			w.plan.Spec.Limits.Trial)
	case errors.Is(cause, errCancelled), errors.Is(cause, errEnded):
		return sweep.StatusCancelled, cause.Error()
	}

	return sweep.StatusFailed, err.Error()
}

// upload writes the trial's files, in parallel, into the folder of this claim.
func (w *Worker) upload(ctx context.Context, r *sweep.Result, out *finished) error {
	if r.Fold > 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)

	put := func(file string, data []byte, to *sweep.Object) {
		group.Go(func() error {
			o, err := w.trials.WriteFile(ctx, r.Trial, r.Claim, file, data)
			if err != nil {
				return fmt.Errorf("trial %d: %w", r.Trial, err)
			}
			*to = o
			return nil
		})
	}

	r.Model, r.Scores = &sweep.Object{}, &sweep.Scored{}
	put("model.txt", out.model, r.Model)
	put("calib.scores", sweep.EncodeScores(out.calib), &r.Scores.Calib)
	put("test.scores", sweep.EncodeScores(out.test), &r.Scores.Test)

	return group.Wait()
}

// finish writes a trial's outcome in the order that package protocol prescribes. A trained model is not thrown away
// because the machine is going: if ctx ends, the remaining steps still run, as far as deadlines.go gives them time.
func (w *Worker) finish(ctx context.Context, e ending) error {
	f := protocol.Finish{}
	switch {
	case e.claim != nil:
		f.Trial, f.Claim = e.claim.Trial, e.claim.Claim
	default:
		f.Trial, f.Claim = e.r.Trial, e.r.Claim
	}

	f, first := f.Begin(e.out != nil, e.why)
	do, err := protocol.Run(f, first, func(a protocol.Action) (protocol.Answer, error) { return w.leave(ctx, a, e) })
	if do.Do == protocol.Stop {
		return cmp.Or(err, e.err)
	}
	if e.err != nil {
		w.Log.Warn("given up", "trial", f.Trial, "reason", e.err.Error())
	}
	return nil
}

// leave carries out one action of a trial's end.
func (w *Worker) leave(ctx context.Context, a protocol.Action, e ending) (answer protocol.Answer, err error) {
	switch a.Do {
	case protocol.Upload:
		return answer, w.upload(w.after.work, e.r, e.out)

	case protocol.CreateResult:
		answer.Yes, err = w.trials.CreateResult(w.after.work, *e.r)
		switch {
		case err != nil:
			return answer, fmt.Errorf("write the result of trial %d: %w", a.Trial, err)
		case !answer.Yes:
			w.Log.Warn("another task had already ended the trial", "trial", a.Trial, "claim", a.Claim)
		default:
			w.measures.end(e.r.Status)
			w.remember(e.r)
			w.Log.Info("trial ended", "trial", a.Trial, "status", e.r.Status, "score", e.r.Score, "trees", e.r.Trees,
				"seconds", e.r.Usage.TrainSeconds)
		}

	case protocol.Publish:
		return answer, w.publish(w.after.work, e.r)

	case protocol.DropCheckpoints: // after the message, on which the aggregator waits
		w.dropCheckpoints(w.after.release, a.Trial)

	case protocol.MarkPaused:
		if err := w.trials.CreatePause(w.after.work, a.Trial, a.Claim, e.step); err != nil {
			return answer, fmt.Errorf("mark trial %d as paused: %w", a.Trial, err)
		}

	case protocol.Release:
		w.release(ctx, e.claim)
	}
	return answer, nil
}

// publish sends the result to the aggregator. A failed publish is only logged: the aggregator finds the result object
// anyway.
func (w *Worker) publish(ctx context.Context, r *sweep.Result) error {
	if w.Scores == nil {
		return nil
	}
	message, err := json.Marshal(sweep.ScoreMessage{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: r.Trial,
		Claim:   r.Claim,
		Attempt: r.Attempt, Status: r.Status, Score: r.Score})
	if err != nil {
		return err
	}

	number := strconv.Itoa(r.Trial)
	attrs := map[string]string{"sweep": string(w.Sweep), "trial": number, "traceparent": w.Sweep.TraceParent("trial",
		number)}
	if err := w.Scores.Publish(ctx, message, attrs); err != nil {
		w.Log.Warn("publish the score", "trial", r.Trial, "error", err.Error())
	}
	return nil
}

// leaveCurve writes the trial's learning curve. There is none if trees are not scored one by one. A failure is only
// logged.
func (w *Worker) leaveCurve(ctx context.Context, claim *sweep.Claim, p *pulse) {
	p.mu.Lock()
	c := p.curve
	p.mu.Unlock()
	if len(c.Scores) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, curvePatience)
	defer cancel()
	if _, err := w.trials.CreateCurve(ctx, c); err != nil {
		w.Log.Warn("write the learning curve", "trial", claim.Trial, "error", err.Error())
	}
}

// pulse keeps a claim alive while its trial trains, and stops the training when the sweep no longer wants it.
type pulse struct {
	stop context.CancelFunc
	done sync.WaitGroup

	trial    int
	measures *measures

	mu      sync.Mutex
	curve   sweep.Curve
	trees   int
	score   float64
	grown   int       // trees grown by this task, after its first
	began   time.Time // when this task's first tree was ready
	last    time.Time // when its latest tree was ready
	highest int64     // highest proportional set size sampled, in bytes
	sampled time.Time
}

// sampleEvery is how often the process's memory is sampled. It is rare because the kernel walks every mapped page for
// it.
const sampleEvery = 30 * time.Second

// peak samples the proportional set size and returns the highest so far.
func (p *pulse) peak() int64 {
	pss := usage.Self().PSS
	p.mu.Lock()
	defer p.mu.Unlock()
	p.highest, p.sampled = max(p.highest, pss), time.Now()
	return p.highest
}

// grew is the number of the task's last tree; 0 if it grew none.
func (p *pulse) grew() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trees
}

// rate is this task's trees per second after its first tree; the time before that is mostly setup.
func (p *pulse) rate() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if took := p.last.Sub(p.began).Seconds(); p.grown > 0 && took > 0 {
		return float64(p.grown) / took
	}
	return 0
}

func (w *Worker) startPulse(ctx context.Context, claim *sweep.Claim, abort context.CancelCauseFunc) *pulse {
	p := &pulse{score: math.NaN(), trial: claim.Trial, measures: w.measures, sampled: time.Now(),
		curve: sweep.Curve{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: claim.Trial, Claim: claim.Claim,
			Metric: w.treesBy()}}
	ctx, p.stop = context.WithCancel(ctx)
	p.done.Go(func() {
		for {
			if err := w.beat(ctx, claim, p, abort); err != nil && ctx.Err() == nil {
				w.Log.Warn("heartbeat", "trial", claim.Trial, "error", err.Error())
			}
			if pause(ctx, w.heartbeat()) != nil {
				return
			}
		}
	})

	return p
}

// beat writes the heartbeat and checks whether this task should continue training the trial.
func (w *Worker) beat(ctx context.Context, claim *sweep.Claim, p *pulse, abort context.CancelCauseFunc) error {
	h := sweep.Heartbeat{Format: sweep.FormatVersion, Nonce: w.Nonce, At: time.Now().UTC()}
	p.mu.Lock()
	due := time.Since(p.sampled) >= sampleEvery
	h.Trees = p.trees
	if score := p.score; !math.IsNaN(score) {
		h.Score = &score
	}
	p.mu.Unlock()
	if due {
		p.peak()
	}

	// A step that failed says nothing about the next one: a holder whose heartbeats do not arrive has the most need to
	// look for a successor.
	var over error
	s, first := protocol.Pulse{Trial: claim.Trial, Claim: claim.Claim}.Begin()
	do, failed := protocol.Run(s, first, func(a protocol.Action) (protocol.Answer, error) {
		return w.beatStep(ctx, a, h, &over)
	})

	if do.Do == protocol.Abort {
		abort(map[protocol.Why]error{protocol.Over: over, protocol.Superseded: errSuperseded,
			protocol.EndedElsewhere: errEndedElsewhere}[do.Why])
	}
	return failed
}

// beatStep carries out one action of a heartbeat, and sets over to why the sweep is over, if it is. A store's client
// retries for longer than a takeover takes, so the step has a limit of its own.
func (w *Worker) beatStep(ctx context.Context, a protocol.Action, h sweep.Heartbeat,
	over *error) (answer protocol.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.beatLimit())
	defer cancel()

	switch a.Do {
	case protocol.Beat:
		err = w.trials.Beat(ctx, a.Trial, a.Claim, h)
	case protocol.LookForEnd:
		*over, err = w.over(ctx)
		answer.Yes = *over != nil
	case protocol.LookForClaim:
		answer.Yes, err = w.trials.HasClaim(ctx, a.Trial, a.Claim)
	case protocol.LookForResult:
		answer.Yes, err = w.trials.HasResult(ctx, a.Trial)
	}
	return answer, err
}

// beatLimit is how long one step of a heartbeat may take. Even if all four steps hang, the next heartbeat is on its way
// long before the holder has been silent for the takeover time.
func (w *Worker) beatLimit() time.Duration {
	const least, share = time.Second, 9
	return max(least, w.heartbeat(), time.Duration(w.plan.Takeover)/share)
}

func (p *pulse) tree(g gbt.Progress) error {
	p.measures.tree(p.trial, g.Metric)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trees, p.score = g.Tree, g.Metric
	p.curve.Add(g.Tree, g.Metric)
	if p.last = time.Now(); p.began.IsZero() {
		p.began = p.last
		return nil
	}
	p.grown++
	return nil
}

func (p *pulse) end() {
	p.stop()
	p.done.Wait()
}
