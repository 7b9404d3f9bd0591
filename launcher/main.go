// Command launcher is Coppice's command line: stage datasets, run and watch sweeps, manage the registry, predict.
package main

import (
	"os"

	"coppice/launcher/command"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(command.Run(version, os.Args[1:])) }
