package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
)

// provisioner gets machines for a sweep, and reports which.
func provisioner(w *Setup, p *sweep.Plan) *provision.Provisioner {
	return &provision.Provisioner{Store: w.sweeps, Jobs: w.Jobs, Plan: p, Now: w.Now, Every: lookInterval(p),
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

// jobStatus returns the status of a sweep's job.
func jobStatus(ctx context.Context, w *Setup, p *sweep.Plan) (provision.JobStatus, error) {
	return provision.Look(ctx, w.sweeps, w.Jobs, p)
}

// jobName returns the name of the sweep's current job.
func jobName(ctx context.Context, w *Setup, p *sweep.Plan) (string, error) {
	course, err := provision.Course(ctx, w.sweeps, p)
	if err != nil {
		return "", err
	}
	return p.JobName(course.Current()), nil
}

// cancelJobs stops all jobs of a sweep.
func cancelJobs(ctx context.Context, w *Setup, p *sweep.Plan) (provision.JobStatus, error) {
	job, err := provision.Cancel(ctx, w.sweeps, w.Jobs, p)
	if err != nil {
		return job, errors.Join(fmt.Errorf("sweep %s is marked as cancelled, its tasks will stop", p.Sweep), err)
	}
	return job, nil
}
