// Command task trains candidates. As a worker (`task run`) it is what every task of the Batch array runs; by hand
// (`task train`) it trains one model on a dataset folder, without any cloud.
package main

import (
	"os"

	"coppice/program"
	"coppice/task/internal/cli"
	"coppice/task/internal/notice"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := notice.Context()
	code := cli.Run(ctx, cli.World{World: program.FromOS(version), Connect: connect})
	stop()
	os.Exit(code)
}
