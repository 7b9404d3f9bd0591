// Command gauge is the part of the benchmarks that only Go can do: it makes a table of any size in a stream, times the
// opening of a staged one, and scores rows with a model through Coppice and through leaves. bench/*.py call it and put
// its numbers beside those of the peers; each subcommand prints one JSON object.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/program"
)

func main() {
	ctx, stop := program.Interrupted()
	world := program.FromOS("dev")
	code := program.Execute(ctx, world, command(world.Out))
	stop()
	os.Exit(code)
}

// command is gauge with all its subcommands, which print to out.
func command(out io.Writer) *cobra.Command {
	cmd := &cobra.Command{Use: "gauge", Short: "What the benchmarks need from Go"}
	cmd.AddCommand(tableCommand(out), openCommand(out), predictCommand(out), versionsCommand(os.Stdin, out))
	return cmd
}

// opened is what `gauge open` prints: how long opening took, and how large the dataset is.
type opened struct {
	Milliseconds float64 `json:"open_ms"`
	Rows         int     `json:"rows"`
	Features     int     `json:"features"`
	Bytes        int64   `json:"dataset_bytes"` // of all its files
}

// openCommand is `gauge open`, which prints an opened to out.
func openCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "open DIR", Short: "Time the opening of a staged dataset, without reading its values",
		Args:    cobra.ExactArgs(1),
		Example: "  gauge open build/bench/scale/staged/scale/0123456789abcdef",
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := timeOpen(args[0])
			if err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(o)
		},
	}
}

// timeOpen opens the dataset in the folder dir, measures how long that alone takes, and closes it again. Its values are
// not read.
func timeOpen(dir string) (*opened, error) {
	start := time.Now()
	ds, err := dataset.Open(dir)
	took := time.Since(start)
	if err != nil {
		return nil, fmt.Errorf("open dataset %s: %w", dir, err)
	}
	defer ds.Close()
	o := &opened{Milliseconds: float64(took.Nanoseconds()) / 1e6, Features: len(ds.Manifest.Features),
		Bytes: ds.Manifest.Bytes()}
	for _, s := range ds.Splits {
		o.Rows += s.Rows
	}
	return o, nil
}
