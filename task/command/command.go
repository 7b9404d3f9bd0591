// Package command is the worker as a function, with its connections to the outside: for its own program, and for the
// one that carries all four.
package command

import (
	"coppice/internal/program"
	"coppice/task/internal/cli"
	"coppice/task/internal/notice"
)

// Run executes one command line and returns the exit code. version is what the linker set, or "dev".
func Run(version string, args []string) int {
	ctx, stop := notice.Context()
	defer stop()
	world := program.FromOS(version)
	world.Args = args
	return cli.Run(ctx, cli.Setup{World: world, Connect: connect})
}
