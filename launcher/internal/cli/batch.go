package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
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

// inBatch submits a job, or attaches to one that does the same, and follows its reports in a folder of the datasets
// bucket until it has ended. If the launcher is interrupted, it cancels the job, provided it started it.
func inBatch(ctx context.Context, w *Setup, q cloudjob.Work,
	folder func(dataset, job string) string) (*cloudjob.JobOutcome, error) {
	j, err := cloudjob.Submit(ctx, w.Tasks, q)
	if err != nil {
		return nil, err
	}
	say := func(format string, args ...any) {
		if !w.asJSON {
			fmt.Fprintf(w.Err, format, args...)
		}
	}
	if j.Attached {
		say("job %s is already doing this; attached to it\n", j.ID)
	}

	bar := w.stageBar()
	follower := &cloudjob.Follower{Jobs: w.Tasks, Store: w.datasets, Every: taskEvery, Progress: bar.Report,
		State: func(state string) { bar.Finish(); say("job %s: %s\n", j.ID, state) },
		Line:  func(line string) { bar.Finish(); say("%s\n", line) }}
	o, err := follower.Wait(ctx, folder(q.Dataset, j.ID), j)
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

// jobTaskCommand is the command of a job that `launcher WHAT --batch` has submitted; doing names the work in logs. It
// is not for people.
func jobTaskCommand(w *Setup, kind cloudjob.JobKind, short, submitter, doing string,
	work func(context.Context, *cloudjob.Task, *stager.Stager) error) *cobra.Command {
	return &cobra.Command{
		Use:   string(kind) + "-task",
		Short: short + " as the task of a Batch job",
		Long: fmt.Sprintf("What `%s` runs in the cloud. All settings come from the environment, which it writes into "+
			"the job.", submitter),
		Example: "  " + submitter,
		Hidden:  true,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runJobTask(cmd.Context(), w, doing, work) },
	}
}

func runJobTask(ctx context.Context, w *Setup, doing string,
	work func(context.Context, *cloudjob.Task, *stager.Stager) error) (err error) {
	var env sweep.LauncherTaskEnv
	if err := w.Environment(ctx, &env, "this command is only for the Batch job that `launcher stage` or "+
		"`registry reproduce` submits with --batch"); err != nil {
		return err
	}
	b, err := w.Connect(ctx, Env{}) // without a project: only buckets
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	w.cloud = &cloud{Backends: b, datasets: b.Bucket(env.DatasetsBucket)}

	log := program.Logger(w.Out, program.LogOrigin{Program: "launcher", Version: w.Version,
		Project: env.Project}).With("job", env.Job, "attempt", env.Attempt)
	log.Info(doing+" started", "version", w.Version, "file", env.File)

	t := &cloudjob.Task{Env: env, Store: w.datasets, Build: w.Version, Now: w.Now, Every: taskEvery,
		Code: func(err error) int { return program.ExitCode(ctx, err) }}
	s := &stager.Stager{Scratch: env.Scratch, Bucket: w.bucket, Nightly: env.Nightly != ""}
	if env.Day != "" {
		if s.Day, err = time.Parse(time.DateOnly, env.Day); err != nil {
			return problem.Wrap(problem.Environment, err, "COPPICE_STAGE_DAY")
		}
	}
	if err := work(ctx, t, s); err != nil {
		log.Error(doing+" failed", "error", err.Error())
		return retried(err, t.Code(err))
	}
	log.Info(doing + " done")
	return nil
}

// retried marks an error that another attempt may not meet, so that Batch retries the task.
func retried(err error, code int) error {
	if code == sweep.ExitError || code == sweep.ExitInterrupt {
		return problem.As(problem.Transient, err)
	}
	return err
}
