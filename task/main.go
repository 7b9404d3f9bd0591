// Command task trains trials. `task run` is the worker that every task of the Batch array runs; `task train` trains one
// model on a local dataset folder, without any cloud.
package main

import (
	"os"

	"coppice/internal/program"
	"coppice/task/internal/cli"
	"coppice/task/internal/notice"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := notice.Context()
	code := cli.Run(ctx, cli.Setup{World: program.FromOS(version), Connect: connect})
	stop()
	os.Exit(code)
}
