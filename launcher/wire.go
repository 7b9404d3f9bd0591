package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"coppice/blob"
	"coppice/cloud/batch"
	"coppice/cloud/gcs"
	"coppice/launcher/internal/cli"
	"coppice/sweep"
)

// connect opens what the launcher talks to: buckets by name, and Batch.
func connect(ctx context.Context, env cli.Env) (*cli.Backends, error) {
	storage, err := gcs.New(ctx)
	if err != nil {
		return nil, err
	}
	b := &cli.Backends{Bucket: func(name string) blob.Store { return storage.Bucket(name) }, Close: storage.Close}
	if env.Project == "" { // only buckets are wanted
		return b, nil
	}
	client, err := batch.New(ctx, batch.Options{Project: env.Project, Location: env.Location, Endpoint: env.BatchEndpoint})
	if err != nil {
		return nil, errors.Join(err, storage.Close())
	}
	b.Jobs = &jobs{client: client, env: env}
	b.Close = func() error { return errors.Join(client.Close(), storage.Close()) }
	return b, nil
}

// exitCode knows the errors of the Batch adapter.
func exitCode(err error) (int, bool) {
	var rule *batch.RuleError
	if errors.As(err, &rule) {
		return sweep.ExitInput, true
	}
	var conflict *batch.ConflictError
	return sweep.ExitConflict, errors.As(err, &conflict)
}

// jobs submits a plan as a Batch job.
type jobs struct {
	client *batch.Client
	env    cli.Env
}

// mountPath is where the local SSD of a VM is mounted; all its tasks see the same folder.
const mountPath = "/mnt/disks/coppice"

// retries of one task: what Batch allows at most. Spot machines are taken away, and a trial is given up only after
// sweep.MaxClaims deaths.
const retries = 10

// describe says what Batch has to know about a plan. Only what is in the plan and the environment goes in, so the same
// plan makes the same job.
func (j *jobs) describe(p *sweep.Plan) batch.Job {
	z, m := p.Sizing, p.Spec.Machine
	task := sweep.TaskEnv{Project: j.env.Project, DatasetsBucket: j.env.DatasetsBucket, SweepsBucket: j.env.SweepsBucket,
		ScoresTopic: j.env.ScoresTopic, Sweep: string(p.Sweep), Scratch: mountPath, OTLPEndpoint: j.env.OTLPEndpoint}
	job := batch.Job{
		ID:       string(p.Sweep),
		Labels:   map[string]string{batch.PlanLabel: p.Fingerprint()[:batch.PlanLabelDigits], "coppice-sweep": string(p.Sweep), "coppice-model": p.Spec.Model},
		Location: j.env.Location, Image: j.env.TaskImage, Args: []string{"run"}, Env: task.Variables(),
		Tasks: z.Tasks, Parallelism: z.Tasks, TasksPerVM: z.TasksPerVM,
		MachineType: z.MachineType, Spot: *m.Spot, LocalSSDs: m.LocalSSD, MountPath: mountPath,
		CPUMilli: int64(1000 * z.VCPUs / z.TasksPerVM), MemoryMiB: (z.MemoryBytes - z.ReserveBytes) / int64(z.TasksPerVM) >> 20,
		MaxRetries: retries, RetryExitCodes: sweep.RetryableExitCodes(), MaxRunDuration: time.Duration(p.Spec.Limits.Sweep),
		ServiceAccount: j.env.ServiceAccount, Network: j.env.Network, Subnetwork: j.env.Subnetwork, NoExternalIP: j.env.Subnetwork != "",
	}
	if j.env.Zones != "" {
		job.Zones = slices.DeleteFunc(strings.Split(j.env.Zones, ","), func(z string) bool { return z == "" })
	}
	return job
}

func (j *jobs) Name(id sweep.ID) string { return j.client.Name(string(id)) }

func (j *jobs) Request(p *sweep.Plan) ([]byte, error) { return j.describe(p).JSON() }

func (j *jobs) Submit(ctx context.Context, p *sweep.Plan) (existed bool, err error) {
	_, existed, err = j.client.Submit(ctx, j.describe(p))
	return existed, err
}

func (j *jobs) Status(ctx context.Context, job string) (cli.JobStatus, error) {
	s, err := j.client.Get(ctx, job)
	if errors.Is(err, batch.ErrNotExist) {
		return cli.JobStatus{State: "not there", Finished: true}, nil
	}
	if err != nil {
		return cli.JobStatus{}, err
	}
	return cli.JobStatus{State: string(s.State), Finished: s.State.Finished(), Tasks: s.Counts, Failure: s.FailureReason()}, nil
}

func (j *jobs) Cancel(ctx context.Context, job string) (cli.JobStatus, error) {
	s, err := j.client.Cancel(ctx, job)
	if errors.Is(err, batch.ErrNotExist) {
		return cli.JobStatus{State: "not there", Finished: true}, nil
	}
	return cli.JobStatus{State: string(s.State), Finished: s.State.Finished(), Tasks: s.Counts}, err
}
