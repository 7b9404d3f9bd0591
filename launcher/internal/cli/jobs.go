package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
)

// provisioner returns what submits the jobs of a sweep until one has machines, and prints what it waits for and where
// it continues.
func provisioner(w *Setup, p *sweep.Plan) *provision.Provisioner {
	return &provision.Provisioner{Store: w.sweeps, Jobs: w.Jobs, Plan: p, Now: w.Now, Every: lookInterval(p),
		Waits: func(m *provision.Machines) { w.say("machines: %v\n", m) },
		Moved: func(n int, reason string) { // n, from 1, is the job that it continues with
			if w.asJSON {
				// An output that nobody reads any more is no reason to stop.
				_ = json.NewEncoder(w.Out).Encode(map[string]any{"sweep": p.Sweep, "moved": map[string]any{
					"job": p.JobName(n), "machine": provision.Describe(p, n), "reason": reason}})
				return
			}
			w.printf("no machines for %s: %s\ncontinuing with %s\n", provision.Describe(p, n-1), reason,
				provision.Describe(p, n))
		}}
}

// settle waits until the sweep's current job has machines, moving on to the plan's fallbacks if it gets none; the last
// job is not waited for. Without fallbacks it returns at once. If ctx ends before, the error says how to continue.
func settle(ctx context.Context, w *Setup, p *sweep.Plan, noWait bool) error {
	if len(p.Fallback) == 0 {
		return nil
	}
	machines := provisioner(w, p)
	if w.asJSON && noWait { // with these flags, only one object is printed, which names the job
		machines.Moved = nil
	}
	err := machines.Settle(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("%w; sweep %s is still waiting for the machines that it requested last: run the same "+
			"command again to try the next ones, or `launcher cancel %s`", program.ErrInterrupted, p.Sweep, p.Sweep)
	}
	return err
}

// cancelWaiting cancels those jobs of the sweeps ids that still wait for machines, if the sweep has ended. Sweeps older
// than 30 days are passed over: Batch starts no job after two days, while Slurm starts one whenever it can. So are
// sweeps of which it cannot be read whether they have ended, and those with a damaged plan; another error is only a
// warning.
func cancelWaiting(ctx context.Context, w *Setup, ids ...sweep.ID) {
	for _, id := range ids {
		s := sweepstore.New(w.sweeps, id)
		ended, err := s.HasEnding(ctx)
		if err != nil || !ended {
			continue
		}
		p, _, err := s.Plan(ctx)
		if err == nil && w.Now().Sub(p.Created) < 30*24*time.Hour {
			err = provision.CancelWaiting(ctx, w.sweeps, w.Jobs, p)
		}
		if err != nil && !problem.Is(err, problem.Damaged) {
			w.warn("sweep %s has ended, but: %v\n", id, err)
		}
	}
}

// job returns the status of a sweep's job; the zero value where only buckets are known (c.Jobs is nil).
func (c *cloud) job(ctx context.Context, p *sweep.Plan) (provision.SweepJob, error) {
	if c.Jobs == nil {
		return provision.SweepJob{}, nil
	}
	return provision.Look(ctx, c.sweeps, c.Jobs, p)
}

// cancelJobs cancels all jobs of a sweep that was marked as cancelled, and returns the status of the current one.
func cancelJobs(ctx context.Context, w *Setup, p *sweep.Plan) (provision.SweepJob, error) {
	job, err := provision.Cancel(ctx, w.sweeps, w.Jobs, p)
	if err != nil {
		return job, errors.Join(fmt.Errorf("sweep %s is marked as cancelled, its tasks will stop", p.Sweep), err)
	}
	return job, nil
}
