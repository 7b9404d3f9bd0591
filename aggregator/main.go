// Command aggregator ends sweeps: it receives a message for every trial that has ended and, when a sweep is over,
// picks, verifies, calibrates and registers the winner. `aggregator serve` is the Cloud Run service; `aggregator
// reconcile` looks once, for cron.
package main

import (
	"os"

	"coppice/aggregator/command"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(command.Run(version, os.Args[1:])) }
