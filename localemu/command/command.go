// Package command is the local cloud as a function: for its own program, and for the one that carries all four.
package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"coppice/localemu/internal/cli"
)

// Run executes one command line and returns the exit code. version is what the linker set, or "dev".
func Run(version string, args []string) int { return run(version, args, false) }

// RunAll is Run for an executable that is all four programs of Coppice: which one it is depends on the name in its
// first argument (argv[0]).
func RunAll(version string, args []string) int { return run(version, args, true) }

// run executes one command line. all says that this executable is the other three programs, too. Signals do not end it:
// cli.Run gets them over a channel, since a command under exec has to end before the local cloud does.
func run(version string, args []string, all bool) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	return cli.Run(context.Background(), cli.State{
		Args: args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())), Signals: signals, Executable: executable,
		All: all, Called: os.Args[0], Version: version,
	})
}
