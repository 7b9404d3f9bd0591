// Package cli is the task's command line.
package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/task/internal/worker"
)

// Setup is everything outside the process.
type Setup struct {
	program.World
	// Connect opens a worker's backends.
	Connect func(context.Context, environment.TaskEnv) (*Backends, error)
}

// Backends are the services that a worker uses. Close flushes pending messages.
type Backends struct {
	Datasets, Sweeps blob.Store
	Scores           worker.Publisher
	Close            func() error
}

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, w Setup) int {
	root := &cobra.Command{Use: "task", Short: "Train candidates: one by hand, or a sweep's as a worker"}
	root.AddCommand(runCommand(&w), trainCommand(&w))
	return program.Execute(ctx, w.World, root)
}
