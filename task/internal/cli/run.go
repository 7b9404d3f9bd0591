package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/internal/telemetry"
	"coppice/task/internal/worker"
)

// runCommand returns the command run.
func runCommand(w *Setup) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Work on a sweep as one task of its array",
		Long: `Claims trials of a sweep that no other task holds, trains them and writes their results, until
none is left. All settings come from the environment, which the launcher writes into the job. A failed
trial is also a result; the exit code is 0 unless the task itself could not work (75: try again).`,
		Example: "  COPPICE_SWEEP=nightly-1 COPPICE_SCRATCH=/mnt/disks/ssd ... task run",
		RunE:    func(cmd *cobra.Command, _ []string) error { return w.run(cmd) },
	}
}

// run works on a sweep until no trial is left for this task. Once the task was told to stop, any error becomes a
// transient one, so that Batch runs the task again.
func (w *Setup) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	defer func() {
		if err != nil && ctx.Err() != nil { // with ctx ended, any error is a consequence of being told to stop
			err = worker.Transient(err)
		}
	}()

	var env environment.TaskEnv
	if err := w.Environment(ctx, &env, "workers are started by the job that `launcher sweep` submits"); err != nil {
		return err
	}

	backends, err := w.Connect(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backends.Close()) }()

	// The name that all tasks of this machine share.
	host, nonce := env.Host, uuid.NewString()
	if host == "" {
		if host, err = os.Hostname(); err != nil {
			host = "unknown"
		}
	}
	host = worker.MachineName(env.Scratch, host, nonce)
	log := program.Logger(w.Out, program.LogOrigin{Program: "task", Version: w.Version,
		Project: env.Project}).With("sweep", env.Sweep, "job", env.Job, "task", env.Task, "attempt", env.Attempt)
	defer func() {
		if err != nil {
			log.Error("task failed", "error", err.Error())
		}
	}()

	limit, _ := os.ReadFile("/sys/fs/cgroup/cpu.max") // of the container, where it has one
	log.Info("task started", "version", w.Version, "go", runtime.Version(), "host", host, "gomaxprocs",
		runtime.GOMAXPROCS(0), "cpu_max", strings.TrimSpace(string(limit)))
	measuring := telemetry.Start(ctx, telemetry.Options{Program: "task", Version: w.Version, Project: env.Project,
		Endpoint: env.OTLPEndpoint, Log: log, Instance: fmt.Sprintf("%s/%d", host, env.Task)})
	defer measuring.Close(ctx)

	task := &worker.Worker{
		Meter:    measuring.Meter(),
		Datasets: backends.Datasets, Sweeps: backends.Sweeps, Scores: backends.Scores, Log: log,
		Sweep: sweep.ID(env.Sweep), Job: env.Job, Task: env.Task, Attempt: env.Attempt, Scratch: env.Scratch,
		Listen: env.Listen, Host: host, Nonce: nonce, Version: w.Version, Available: worker.Memory,
	}
	return task.Run(ctx)
}
