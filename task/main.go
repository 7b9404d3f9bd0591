// Command task trains trials. `task run` is the worker that every task of the Batch array runs; `task train` trains one
// model on a local dataset folder, without any cloud.
package main

import (
	"os"

	"coppice/task/command"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(command.Run(version, os.Args[1:])) }
