// Package command is the aggregator as a function, with its connections to the outside: for its own program, and for
// the one that carries all four.
package command

import (
	"coppice/aggregator/internal/cli"
	"coppice/internal/program"
)

// Run executes one command line and returns the exit code. version is what the linker set, or "dev".
func Run(version string, args []string) int {
	ctx, stop := program.Interrupted()
	defer stop()
	world := program.FromOS(version)
	world.Args = args
	return cli.Run(ctx, cli.Setup{World: world, Connect: connect, Callers: callers})
}
