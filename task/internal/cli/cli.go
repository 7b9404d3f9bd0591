// Package cli is the task's command line.
package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"coppice/blob"
	"coppice/gbt"
	"coppice/program"
	"coppice/sweep"
	"coppice/task/internal/fit"
	"coppice/task/internal/keep"
	"coppice/task/internal/worker"
)

// World is everything outside the process.
type World struct {
	program.World
	// Connect opens what a worker talks to.
	Connect func(context.Context, sweep.TaskEnv) (*Backends, error)
}

// Backends are the services of a worker. Close flushes what was published.
type Backends struct {
	Datasets, Sweeps blob.Store
	Scores           worker.Publisher
	Close            func() error
}

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, w World) int {
	root := &cobra.Command{Use: "task", Short: "Train candidates: one by hand, or a sweep's as a worker"}
	root.AddCommand(runCommand(&w), trainCommand(&w))
	return program.Execute(ctx, w.World, root, exitCode)
}

// exitCode knows the worker's errors. An interruption is transient, too: whoever started the task may start it again.
func exitCode(err error) (int, bool) {
	if errors.Is(err, fit.ErrNoRows) || errors.Is(err, fit.ErrScheme) {
		return sweep.ExitInput, true
	}
	var busy *keep.BusyError
	var other *gbt.MismatchError
	if errors.As(err, &busy) || errors.As(err, &other) {
		return sweep.ExitConflict, true
	}
	var transient *worker.TransientError
	return sweep.ExitTransient, errors.As(err, &transient)
}
