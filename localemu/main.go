// Command localemu is the cloud on one machine: Google Cloud Storage, Pub/Sub and Batch, with everything in them that
// Coppice expects, so that `localemu exec -- launcher sweep sweep.yaml` runs a whole sweep through the real client
// libraries on this machine alone. Each emulator's package comment lists what it does not imitate.
package main

import (
	"os"

	"coppice/localemu/command"
)

// version is stamped by the build (-ldflags "-X main.version=...").
var version = "dev"

func main() { os.Exit(command.Run(version, os.Args[1:])) }
