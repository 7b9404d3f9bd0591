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

// provisioner gets machines for a sweep, and reports which.
func provisioner(w *Setup, p *sweep.Plan) *provision.Provisioner {
	return &provision.Provisioner{Store: w.sweeps, Jobs: w.Jobs, Plan: p, Now: w.Now, Every: lookInterval(p),
		Waits: func(m *provision.Machines) { w.say("machines: %v\n", m) },
		Moved: func(n int, reason string) {
			if w.asJSON {
				_ = json.NewEncoder(w.Out).Encode(map[string]any{"sweep": p.Sweep, "moved": map[string]any{
					"job": p.JobName(n), "machine": provision.Describe(p, n), "reason": reason}})
				return
			}
			w.printf("no machines for %s: %s\ncontinuing with %s\n", provision.Describe(p, n-1), reason,
				provision.Describe(p, n))
		}}
}

// settle waits until a job of the sweep has machines, or is the last one.
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

// cancelWaiting cancels the jobs of ended sweeps that still wait for machines, as long as an engine may let them wait:
// Batch starts none after two days, Slurm whenever it can.
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

// job returns the status of a sweep's job, which has none where only buckets are known.
func (c *cloud) job(ctx context.Context, p *sweep.Plan) (provision.SweepJob, error) {
	if c.Jobs == nil {
		return provision.SweepJob{}, nil
	}
	return provision.Look(ctx, c.sweeps, c.Jobs, p)
}

// cancelJobs stops all jobs of a sweep.
func cancelJobs(ctx context.Context, w *Setup, p *sweep.Plan) (provision.SweepJob, error) {
	job, err := provision.Cancel(ctx, w.sweeps, w.Jobs, p)
	if err != nil {
		return job, errors.Join(fmt.Errorf("sweep %s is marked as cancelled, its tasks will stop", p.Sweep), err)
	}
	return job, nil
}
