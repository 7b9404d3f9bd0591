// Command launcher is Coppice's command line: stage datasets, run and watch sweeps, manage the registry, predict.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/launcher/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	cobra.EnableCommandSorting = false // --help lists commands in the order in which they are needed
	ctx, stop := program.Interrupted()
	world := program.FromOS(version)
	code := cli.Run(ctx, cli.Setup{World: world, Connect: connect, Callers: callers, Inspect: examine,
		PriceList: prices(world.Env)})
	stop()
	os.Exit(code)
}
