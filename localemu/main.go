//go:build unix

// Command localemu is the cloud on one machine: Google Cloud Storage, Pub/Sub and Batch, with everything in them that
// Coppice expects, so that `localemu exec -- launcher sweep sweep.yaml` runs a whole sweep through the real client
// libraries on this machine alone. Each emulator's package comment lists what it does not imitate.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"coppice/localemu/internal/cli"
)

// version is stamped by the build (-ldflags "-X main.version=...").
var version = "dev"

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	os.Exit(cli.Run(context.Background(), cli.State{
		Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())), Signals: signals, Executable: executable, Version: version,
	}))
}
