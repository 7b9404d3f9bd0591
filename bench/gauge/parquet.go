package main

import (
	"context"
	"encoding/json"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"coppice/internal/dataset/table"
)

// outcome is what came of reading a file, in the words of testdata/arrow, which reads them with others.
type outcome struct {
	File  string  `json:"file"`
	What  string  `json:"what"`
	Rows  int64   `json:"rows"`
	Cells int64   `json:"cells"` // values that are there
	CPU   float64 `json:"cpu_ms"`
	Error string  `json:"error,omitempty"`
}

func parquetCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "parquet FILE...", Short: "Read every value of Parquet files, and say what came of each",
		Args:    cobra.MinimumNArgs(1),
		Example: "  gauge parquet part-0.parquet",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, path := range args {
				before := cpuMilliseconds()
				o := readParquet(cmd.Context(), path)
				o.CPU = cpuMilliseconds() - before
				if err := json.NewEncoder(out).Encode(o); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func readParquet(ctx context.Context, path string) outcome {
	o := outcome{File: path, What: "ok"}
	err := countCells(ctx, path, &o)
	if err != nil {
		o.What, o.Error = "error", err.Error()
	}
	return o
}

func countCells(ctx context.Context, path string, o *outcome) error {
	t, err := table.Open([]table.File{{URI: path, Path: path}}, table.Options{Threads: 1})
	if err != nil {
		return err
	}
	var names []string
	for _, c := range t.Columns() {
		if c.Unreadable == "" {
			names = append(names, c.Name)
		}
	}

	return t.Read(ctx, names, 1<<16, func(b *table.Batch) error {
		o.Rows += int64(b.Rows)
		for i := range b.Columns {
			for r := range b.Rows {
				if !b.Columns[i].IsNull(r) {
					o.Cells++
				}
			}
		}
		return nil
	})
}

func cpuMilliseconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec)*1e3 + float64(u.Utime.Usec+u.Stime.Usec)/1e3
}
