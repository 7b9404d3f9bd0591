// Package command is the launcher as a function, with its connections to the outside: for its own program, and for the
// one that carries all four.
package command

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/launcher/internal/cli"
)

// Run executes one command line and returns the exit code. version is what the linker set, or "dev".
func Run(version string, args []string) int {
	return run("launcher", version, args, false)
}

// RunAll is Run for a program that contains the three others, too.
func RunAll(version string, args []string) int {
	return run("launcher", version, args, true)
}

// run executes one command line of a program called name, which contains all four programs if all is set, and returns
// the exit code. Messages name its commands as the caller has typed them, so that they can be copied.
func run(name, version string, args []string, all bool) int {
	cobra.EnableCommandSorting = false // --help lists commands in the order in which they are needed
	ctx, stop := program.Interrupted()
	defer stop()
	world := program.FromOS(version)
	world.Args = args
	if filepath.Base(called(&world)) == "coppice" { // a link to the launcher
		name = "coppice"
	}
	if as := typed(called(&world), name); as != "launcher" {
		rename(&world, as)
	}
	return cli.Run(ctx, cli.Setup{World: world, Name: name, Connect: connect, Callers: callers, Inspect: examine,
		Local: func(folder string, args []string) error { return runInLocalCloud(folder, args, all, called(&world)) }})
}
