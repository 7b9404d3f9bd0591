// Package cli is the launcher's command line: one file per command. Commands read, decide with the packages beside this
// one and print; they touch nothing outside the process except through World.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/notify"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/console"
	"coppice/launcher/internal/doctor"
	"coppice/launcher/internal/provision"
)

// World is everything outside the process.
type World struct {
	program.World
	// Connect opens the cloud, or its emulation.
	Connect func(context.Context, Env) (*Backends, error)
	// PriceList opens Google's price list.
	PriceList func(context.Context) (PriceList, error)
	// Callers authenticates the callers of a console that other machines can reach.
	Callers func(context.Context, sweep.CallersEnv) (console.Callers, error)
	// Inspect opens what the doctor examines.
	Inspect func(context.Context, Env) (Inspection, error)
}

// Env is the launcher's environment.
type Env struct {
	sweep.Deployment
	sweep.BatchEnv
}

// Backends are the services that the launcher uses.
type Backends struct {
	Bucket func(name string) blob.Store
	Jobs   Jobs
	Tasks  cloudjob.Jobs // jobs that run the launcher itself
	Plans  doctor.Jobs
	// Verdicts opens the channels for notifying people of a night's outcome; nil if there are none.
	Verdicts func(context.Context) (channels []notify.Channel, closeAll func(), err error)
	Close    func() error
}

// Jobs runs plans.
type Jobs interface {
	// Name is the full name of a sweep's job.
	Name(sweep.ID) string
	// Request is the job in the service's JSON format, for people.
	Request(*sweep.Plan) ([]byte, error)
	// Submit starts the plan's job; existed says that it was started before.
	Submit(context.Context, *sweep.Plan) (existed bool, err error)
	JobController
}

// JobController controls submitted jobs.
type JobController interface {
	Status(ctx context.Context, job string) (JobStatus, error)
	// Cancel stops the job and returns once it has stopped.
	Cancel(ctx context.Context, job string) (JobStatus, error)
}

// JobStatus is a job's status according to the service.
type JobStatus = provision.Status

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, w World) int {
	root := &cobra.Command{
		Use:   "launcher",
		Short: "Train fifty candidates on one copy of the data, and keep the best",
		Long: `Coppice stages a table as a binned dataset, trains many gradient-boosted candidates on one mapped copy of it per
machine, picks, verifies and calibrates the best, and registers it.

Exit codes: 0 done, 1 unexpected error, 2 wrong flag or argument, 3 unusable spec or data, 4 not found, 5 conflict with
what exists, 6 environment or credentials incomplete, 7 the sweep ended without a winner, 8 tonight's table is blocked,
9 the winner did not become the champion, 130 interrupted.`,
		Example: `  launcher stage dataset.yaml
  launcher plan sweep.yaml
  launcher sweep sweep.yaml --budget 12.50
  launcher registry show ctr
  launcher predict --model ctr --in today.parquet --out clicks.csv`,
	}

	root.AddCommand(stageCommand(&w), stageTaskCommand(&w), backtestTaskCommand(&w), reproduceTaskCommand(&w),
		datasetsCommand(&w), planCommand(&w), sweepCommand(&w), extendCommand(&w), watchCommand(&w), statusCommand(&w),
		cancelCommand(&w), pauseCommand(&w), resumeCommand(&w),
		leaderboardCommand(&w), billCommand(&w), lsCommand(&w), pricesCommand(&w), registryCommand(&w),
		predictCommand(&w), askCommand(&w), doctorCommand(&w))
	root.AddCommand(reportCommand(&w), plotCommand(&w), consoleCommand(&w))
	root.AddCommand(cleanCommand(&w), backtestCommand(&w), whyCommand(&w), featuresCommand(&w))
	return program.Execute(ctx, w.World, root)
}

// conflictError is an object that exists with other contents.
type conflictError struct{ error }

func (e *conflictError) Unwrap() error { return e.error }

// IsConflict says that something else exists already.
func (*conflictError) IsConflict() bool { return true }

const remedy = "run it inside `localemu exec --`, after `. DIR/env` of a `localemu up --data DIR`, or with what " +
	"`terraform output` prints"

// cloud is the launcher's connection to all services.
type cloud struct {
	*Backends
	env      Env
	datasets blob.Store
	sweeps   blob.Store
	registry *registry.Registry
}

// online reports whether jobs run on Google Cloud, not on an emulator.
func (c *cloud) online() bool { return c.env.BatchEndpoint == "" }

// with connects, calls use and closes.
func (w *World) with(ctx context.Context, use func(*cloud) error) (err error) {
	c := &cloud{}
	if err := w.Environment(ctx, &c.env, remedy); err != nil {
		return err
	}
	if c.Backends, err = w.Connect(ctx, c.env); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.datasets = c.Bucket(c.env.DatasetsBucket)
	c.sweeps = c.Bucket(c.env.SweepsBucket)
	c.registry = registry.New(c.Bucket(c.env.RegistryBucket))
	return use(c)
}

// log writes to the error output for a log collector, when the launcher runs as a Cloud Run job (COPPICE_LOG=json);
// people read what the commands print.
func (w *World) log(c *cloud) *slog.Logger {
	if !w.Structured() {
		return slog.New(slog.DiscardHandler)
	}
	return program.Logger(w.Err, program.Origin{Program: "launcher", Version: w.Version, Project: c.env.Project})
}

// printJSON writes v, indented, as the whole output of a command.
func (w *World) printJSON(v any) error {
	e := json.NewEncoder(w.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printFile writes a file's bytes unchanged to the output, unless that is a terminal.
func (w *World) printFile(data []byte) error {
	out := w.Out.Raw()
	if w.Terminal {
		out = w.Out
	}
	_, err := out.Write(data)
	return err
}

// raw is JSON to be printed unchanged.
func raw(text []byte) json.RawMessage { return json.RawMessage(text) }
