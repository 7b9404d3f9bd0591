package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/sweepview"
)

func watchCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch SWEEP",
		Short: "Watch a sweep until it has ended",
		Long: "Shows the sweep's progress until the aggregator has concluded it. Ctrl-C only stops watching; the " +
			"sweep continues.",
		Example: "  launcher watch nightly-ctr-1a2b3c4d",
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.with(cmd.Context(), func() error {
				id, err := sweepview.Find(cmd.Context(), w.sweeps, args[0])
				if err != nil {
					return err
				}
				return watchSweep(cmd.Context(), w, id)
			})
		},
	}

	w.jsonFlag(cmd, "print one JSON object per change")
	return cmd
}

// How often a watcher looks, and how long it waits for a conclusion after the job's end.
const (
	lookEvery = time.Second
	// for sweeps with a heartbeat every second, and while the winner is being chosen
	lookQuick = 300 * time.Millisecond
	// during that; a winner is chosen within seconds, unless no aggregator is running
	quickLooks  = 30
	jobEvery    = 10 // looks between two questions to Batch
	concludeFor = 3 * time.Minute
	missingFor  = 3 // questions to Batch: a job may not be visible right after its creation
)

// lookInterval is how often to look at a sweep.
func lookInterval(p *sweep.Plan) time.Duration {
	if time.Duration(p.Heartbeat) <= time.Second {
		return lookQuick
	}
	return lookEvery
}

// watchSweep shows a sweep until it has ended.
func watchSweep(ctx context.Context, w *Setup, id sweep.ID) error {
	p, st, err := watchUntilEnd(ctx, w, id)
	switch {
	case err == nil:
		return concluded(ctx, w, p, st)
	case ctx.Err() == nil:
		return err
	}
	return fmt.Errorf("%w; sweep %s continues: `launcher watch %s` or `launcher cancel %s`; if its local cloud has "+
		"ended, too, the same command resumes it", program.ErrInterrupted, id, id, id)
}

// watchUntilEnd shows a sweep until it has a conclusion, and returns its last state.
func watchUntilEnd(ctx context.Context, w *Setup, id sweep.ID) (p *sweep.Plan, st sweepview.State, err error) {
	s, err := sweepview.Open(ctx, w.sweeps, id)
	if err != nil {
		return nil, st, err
	}
	view := newView(w, s.Plan)
	defer view.close()
	var job provision.JobStatus
	var left patience
	quick := 0

	for look := 0; ; look++ {
		if st, err = s.Look(ctx); err != nil {
			return nil, st, err
		}

		// Batch is asked less often than the bucket.
		if look%jobEvery == 0 && st.Conclusion == nil {
			if job, err = jobStatus(ctx, w, s.Plan); err != nil {
				return nil, st, err
			}
			left.asked(job, w.Now())
		}

		view.show(ctx, s, st, s.Snapshot(st, job))
		if st.Conclusion != nil {
			return s.Plan, st, nil
		}

		if st.Cancelled && !st.Ending && job.Finished { // the aggregator will say so, too; nothing more will happen
			return nil, st, noWinner(&sweep.Conclusion{Sweep: id, Reason: "it was cancelled"}, "")
		}
		if !st.Halted.IsZero() && job.Finished {
			return nil, st, &provision.HaltedError{Sweep: id, Since: st.Halted}
		}
		if err := left.lost(id, st, job, w.Now()); err != nil {
			return nil, st, err
		}

		// When all trials have ended, the conclusion is near.
		next := lookInterval(s.Plan)
		if st.Board.Waiting == 0 && quick < quickLooks {
			next = lookQuick
			quick++
		}
		select {
		case <-ctx.Done():
			return nil, st, ctx.Err()
		case <-time.After(next):
		}
	}
}

// patience tracks how long a watched sweep has had no job that could continue it.
type patience struct {
	ended   time.Time // since when the job has been finished or missing; zero if it is neither
	missing int       // number of consecutive answers that there is no such job
}

// asked records one answer of Batch.
func (p *patience) asked(job provision.JobStatus, now time.Time) {
	if !job.Finished {
		*p = patience{}
		return
	}
	if p.ended.IsZero() {
		p.ended = now
	}
	if p.missing++; job.State != sweepview.JobMissing {
		p.missing = 0
	}
}

// lost is the reason to stop waiting, nil if there is none. A missing job, which was deleted or belonged to a local
// cloud that was restarted, is soon given up if trials wait for it, but not if the aggregator has everything it needs
// to conclude.
func (p *patience) lost(id sweep.ID, st sweepview.State, job provision.JobStatus, now time.Time) error {
	if p.missing >= missingFor && st.Board.Waiting > 0 && !st.Ending {
		return fmt.Errorf("sweep %s has trials left, but its job is gone (was the local cloud restarted?); `launcher "+
			"sweep SWEEP.yaml --id %s` with the same file continues it, and keeps the finished trials", id, id)
	}
	if p.ended.IsZero() || now.Sub(p.ended) <= concludeFor {
		return nil
	}
	what := "job " + job.State
	if job.Failure != "" {
		what += "; " + job.Failure
	}
	return fmt.Errorf("sweep %s: the Batch job has ended, but the sweep has no conclusion; is the aggregator running? "+
		"`aggregator reconcile` concludes it (%s)", id, what)
}

// view draws snapshots: a line for each trial that has ended, with its learning curve, on a terminal above a bar; an
// object per change as JSON.
type view struct {
	w    *Setup
	plan *sweep.Plan
	bar  *progressbar.ProgressBar
	seen map[int]bool // trials that have ended
	last string       // what was printed of the job, or as JSON
}

func newView(w *Setup, p *sweep.Plan) *view {
	v := &view{w: w, plan: p, seen: map[int]bool{}}
	for n := range p.Inherits() { // they ended in another sweep
		v.seen[n] = true
	}
	if w.Terminal && !w.asJSON {
		v.bar = show.NewBar(w.Err, int64(len(p.Own())), progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetPredictTime(false), progressbar.OptionFullWidth())
	}
	return v
}

func (v *view) show(ctx context.Context, s *sweepview.View, st sweepview.State, snap sweepview.Snapshot) {
	if v.w.asJSON {
		v.jsonLine(snap)
		return
	}

	var ended []sweep.Row
	var numbers []int
	for _, row := range st.Board.Rows {
		if row.Result != nil && !v.seen[row.Result.Trial] {
			ended, numbers = append(ended, row), append(numbers, row.Result.Trial)
		}
	}
	var curves map[int][]sweep.CurvePoint
	if len(ended) > 0 { // curves that cannot be read are no reason to stop watching
		curves, _ = s.Curves(ctx, numbers)
	}
	if v.bar == nil {
		v.lines(ended, curves, snap)
		return
	}
	if len(ended) > 0 {
		_ = v.bar.Clear() // nor is a bar that cannot be drawn
		v.lines(ended, curves, snap)
	}
	v.bar.Describe(program.Visible(v.summary(snap)))
	_ = v.bar.Set(snap.Ended())
}

func (v *view) jsonLine(s sweepview.Snapshot) {
	left := s.Left
	s.Left = 0 // a change of the estimate alone does not count
	key, err := json.Marshal(s)
	if err != nil || string(key) == v.last {
		return
	}
	v.last = string(key)
	s.Left = left
	_ = json.NewEncoder(v.w.Out).Encode(s)
}

// summary is the text before the bar.
func (v *view) summary(s sweepview.Snapshot) string {
	parts := append([]string{fmt.Sprintf("%d/%d done", s.Done, len(v.plan.Own())),
		fmt.Sprintf("%d running", s.Running)},
		sweepview.Counts("at their limit", s.AtLimit, "waiting for a task", s.Ready, "paused", s.Paused, "stopped",
			s.Stopped, "not trained", s.Untrained, "cancelled", s.Cancelled, "failed", s.Failed)...)
	switch {
	case s.Folds != nil && s.Folds.Best != nil:
		parts = append(parts, fmt.Sprintf("best %s %s (configuration %d)", v.plan.Spec.Metric,
			show.Estimate(s.Folds.Best), s.Folds.Best.Configuration))
	case s.Best != nil:
		parts = append(parts, fmt.Sprintf("best %s %s (#%d)", v.plan.Spec.Metric, show.Number(s.Best.Score),
			s.Best.Trial))
	}

	switch {
	case !s.Halted.IsZero() && s.Job.Finished:
		parts = append(parts, "paused")
	case !s.Halted.IsZero():
		parts = append(parts, "pausing: saving trials")
	case s.Left > 0:
		parts = append(parts, fmt.Sprintf("%s left", time.Duration(s.Left)*time.Second))
	case s.Done == 0 && s.Job.State != "RUNNING":
		parts = append(parts, strings.ToLower(s.Job.State))
	case s.Waiting == 0 && s.Conclusion == nil:
		parts = append(parts, "concluding")
	}
	return strings.Join(parts, " · ")
}

// lines prints the trials that have ended since the last look.
func (v *view) lines(ended []sweep.Row, curves map[int][]sweep.CurvePoint, s sweepview.Snapshot) {
	if v.bar == nil && v.last == "" && s.Job.State != "" { // empty if the sweep had ended at the first look
		v.w.printf("job %s\n", s.Job.State)
		v.last = s.Job.State
	}

	for _, row := range ended {
		r := row.Result
		v.seen[r.Trial] = true
		how := fmt.Sprintf("%s %s, %d trees, %.1f s", v.plan.Spec.Metric, show.Number(r.Score), r.Trees,
			r.Usage.TrainSeconds)
		if r.Status != sweep.StatusDone {
			how = fmt.Sprintf("%s: %s", r.State(), show.FirstLine(r.Reason))
		} else if r.AtLimit {
			how += ", " + r.Reason
		}
		if fold := show.FoldOf(row.Trial); fold != "" {
			how = fold + ": " + how
		}
		line := fmt.Sprintf("trial %3d  %s%s", r.Trial, how, show.Spark(curves[r.Trial], v.plan.Maximize))
		if v.bar == nil { // the bar has the summary
			line += "  |  " + v.summary(s)
		}
		v.w.printf("%s\n", line)
	}
}

func (v *view) close() {
	if v.bar != nil {
		_ = v.bar.Finish()
		v.bar = nil
	}
}

// concluded prints how a sweep ended.
func concluded(ctx context.Context, w *Setup, p *sweep.Plan, st sweepview.State) error {
	c := st.Conclusion
	w.log().Info("sweep ended", "sweep", p.Sweep, "outcome", c.Outcome, "model", c.Model, "version", c.Version)
	if c.Outcome != sweep.OutcomeWinner {
		job, err := jobStatus(ctx, w, p)
		return errors.Join(noWinner(c, job.Failure), err)
	}

	if !w.asJSON {
		w.screen().Board(p, st.Board, 10)
		w.screen().Winner(p, c)
	}
	if c.Verdict() == sweep.VerdictPromoted {
		return nil
	}
	return notPromoted(c)
}

// notPromoted is the error about a sweep whose winner did not become the champion.
func notPromoted(c *sweep.Conclusion) error {
	code, verdict := sweep.ExitNotPromoted, ""
	switch c.Verdict() {
	case sweep.VerdictBlocked:
		code, verdict = sweep.ExitBlocked, " (blocked)"
	case sweep.VerdictNotComparable:
		verdict = " (it cannot be compared)"
	}
	return &endedError{code, fmt.Sprintf("sweep %s: version %d of %s is registered and was not promoted%s: %s", c.Sweep,
		c.Version, c.Model, verdict, c.Why())}
}

// endedError is a sweep that has ended without a new champion. Schedulers read its exit code.
type endedError struct {
	code int
	text string
}

func (e *endedError) Error() string { return e.text }

// ExitStatus is the program's exit code for it.
func (e *endedError) ExitStatus() int { return e.code }

// noWinner is the error about a sweep that has ended without a winner. failure is that of its Batch job, if it failed.
func noWinner(c *sweep.Conclusion, failure string) error {
	text := fmt.Sprintf("sweep %s ended without a winner: %s", c.Sweep, c.Reason)
	if failure != "" {
		text += "\n" + failure + "\nThe last line of the task's log says why it failed: in Cloud Logging, or in the " +
			"folder logs/ of the local cloud's data."
	}
	return &endedError{sweep.ExitNoWinner, text}
}
