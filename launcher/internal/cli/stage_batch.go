package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/blob/folder"
	"coppice/internal/dataset"
	"coppice/internal/engine"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/stager"
)

const (
	// taskEvery is how often a task reports its progress, and the launcher polls it.
	taskEvery = time.Second
	// taskGoodbye is how long the launcher waits for a job that it has cancelled.
	taskGoodbye = 2 * time.Minute
)

// stageInBatch stages the table t, whose source is in a bucket, as a Batch job with the flags f, and follows it to its
// end. An input that was staged before is found without a job. s says how to look at the source.
func stageInBatch(ctx context.Context, w *Setup, s stager.Stager, t *stager.TableSpec, dst stager.Destination,
	f cloudjob.Flags) (*stager.Staged, error) {
	machine, err := f.MachineType()
	if err != nil {
		return nil, err
	}

	// An input that was staged before needs no machine.
	s.Day = t.Day
	in, err := s.Look(ctx, t.Spec, dst)
	if err != nil {
		return nil, err
	}
	if in.Staged != nil {
		if staged, err := dst.Reuse(ctx, in.Staged); staged != nil || err != nil {
			return staged, err
		}
	}

	// The disks hold the source and the dataset made from it.
	disks, err := f.Disks(machine, in.DiskNeed(t.Spec), stager.DiskFactor*in.Bytes)
	if err != nil {
		return nil, err
	}
	q := f.Request(machine, disks)
	q.Dataset, q.Fingerprint = t.Spec.Name, in.Fingerprint
	q.Env = environment.LauncherTaskEnv{Project: w.env.Project, BigQueryEndpoint: w.env.BigQueryEndpoint,
		DatasetsBucket: w.env.DatasetsBucket, File: t.File,
		Spec: string(t.Text), Day: dayOf(t.Spec, t.Day), Nightly: s.Night}
	o, err := followJob(ctx, w, q)
	if err != nil {
		return nil, err
	}

	// Read what the job has written.
	m, err := stager.Manifest(ctx, w.datasets, t.Spec.Name, o.Version)
	if err != nil {
		return nil, err
	}
	night, err := dst.Night(ctx, m.Name, m.Version)
	return &stager.Staged{Manifest: m, Place: dst.Place(m), Existed: o.Existed, Night: night}, err
}

// dayOf returns the newest day for a job's task as YYYY-MM-DD; "" if the source has no days. The task is told, since it
// may begin after midnight.
func dayOf(spec *dataset.Spec, day time.Time) string {
	if !spec.Source.Dated() {
		return ""
	}
	return day.Format(time.DateOnly)
}

// followJob submits the job of q, or attaches to one that does the same, and follows its reports until it has ended. If
// ctx ends before, the job is cancelled if this launcher has started it; one that it has attached to continues. Either
// way the error then contains program.ErrInterrupted.
func followJob(ctx context.Context, w *Setup, q cloudjob.Work) (*cloudjob.JobOutcome, error) {
	j, err := cloudjob.Submit(ctx, w.Tasks, q)
	if err != nil {
		return nil, err
	}
	say := func(format string, args ...any) {
		if !w.asJSON {
			w.warn(format, args...)
		}
	}
	if j.Attached {
		say("job %s is already doing this; attached to it\n", j.ID)
	}

	// Follow it to its end.
	bar := w.stageBar()
	follower := &cloudjob.Follower{Jobs: w.Tasks, Store: w.datasets, Every: taskEvery, Progress: bar.Report,
		State: func(state engine.Phase) { bar.Finish(); say("job %s: %s\n", j.ID, state) }}
	o, err := follower.Wait(ctx, sweep.DatasetStaging(q.Dataset, j.ID), j)
	bar.Finish()
	if ctx.Err() == nil {
		return o, err
	}

	if j.Attached { // another launcher may be waiting for it, too
		return nil, fmt.Errorf("%w; job %s was already running and continues: run the same command to follow it "+
			"again, or `gcloud batch jobs cancel %s` to end it", program.ErrInterrupted, j.ID, j.Name)
	}

	// ctx has ended: cancel with a new context.
	say("cancelling job %s\n", j.ID)
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), taskGoodbye)
	defer stop()
	if _, err := w.Tasks.Cancel(last, j.Name); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; job %s may still be running", program.ErrInterrupted, j.Name), err)
	}
	return nil, fmt.Errorf("%w; job %s is cancelled", program.ErrInterrupted, j.ID)
}

// stageTaskCommand is the command that the job runs. It is not for people.
func stageTaskCommand(w *Setup) *cobra.Command {
	return &cobra.Command{
		Use:   "stage-task",
		Short: "Stage a dataset as the task of a Batch job",
		Long: "What `launcher stage --batch` runs in the cloud. All settings come from the environment, which it " +
			"writes into the job.",
		Example: "  launcher stage --batch",
		Hidden:  true,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runStageTask(cmd.Context(), w) },
	}
}

// runStageTask stages inside the Batch job: the settings come from the environment, and the task reports its progress
// and outcome to the datasets bucket. An error that another attempt may not meet has the kind Transient, whose exit
// code makes Batch run the task again.
func runStageTask(ctx context.Context, w *Setup) (err error) {
	var env environment.LauncherTaskEnv
	if err := w.Environment(ctx, &env, "this command is only for the Batch job that `launcher stage --batch` "+
		"submits"); err != nil {
		return err
	}
	b, err := w.Connect(ctx, Env{Deployment: environment.Deployment{Project: env.Project,
		DatasetsBucket: env.DatasetsBucket, BigQueryEndpoint: env.BigQueryEndpoint}}) // only buckets
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	w.cloud = &cloud{Backends: b, datasets: b.Bucket(env.DatasetsBucket)}
	w.env.DatasetsBucket = env.DatasetsBucket

	log := program.Logger(w.Out, program.LogOrigin{Program: "launcher", Version: w.Version,
		Project: env.Project}).With("job", env.Job, "attempt", env.Attempt)
	log.Info("staging started", "version", w.Version, "file", env.File)

	t := &cloudjob.Task{Env: env, Store: w.datasets, Now: w.Now, Every: taskEvery,
		Code: func(err error) int { return program.ExitCode(ctx, err) }}
	s := &stager.Stager{Scratch: env.Scratch, Bucket: w.bucket, Exports: w.exports(), Night: env.Nightly}
	if env.Day != "" {
		if s.Day, err = time.Parse(time.DateOnly, env.Day); err != nil {
			return problem.Wrap(problem.Environment, err, "COPPICE_STAGE_DAY")
		}
	}
	dst := stager.Destination{Store: t.Store, URL: folder.URL(env.DatasetsBucket, "")}
	if err := t.Stage(ctx, s, dst); err != nil {
		log.Error("staging failed", "error", err.Error())
		return markTransient(err, t.Code(err))
	}
	log.Info("staging done")
	return nil
}

// markTransient gives an error the kind Transient if its exit code says that it was unexpected or an interruption, so
// that Batch retries the task. Other errors, such as an unusable table, are returned as they are.
func markTransient(err error, code int) error {
	if code == sweep.ExitError || code == sweep.ExitInterrupt {
		return problem.As(problem.Transient, err)
	}
	return err
}
