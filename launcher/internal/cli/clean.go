package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/launcher/internal/clean"
)

type cleanFlags struct {
	dryRun, urls, json bool
	days               int
}

func cleanCommand(w *World) *cobra.Command {
	var f cleanFlags
	cmd := &cobra.Command{
		Use:   "clean --dry-run",
		Short: "Show what can be removed from the buckets, and what keeps the rest",
		Long: `Lists dataset versions, sweeps and deleted versions with what keeps them: a registered version needs the dataset it was trained on, its trial and
the sweep's records; open sweeps, the newest version of a dataset and everything younger than --days stay, too. It removes nothing, because no program
here has the right to. --urls prints the objects that can be removed, for a command that has that right.`,
		Example: `  launcher clean --dry-run
  launcher clean --dry-run --urls | gcloud storage rm --read-paths-from-stdin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !f.dryRun {
				return program.Usagef("clean removes nothing itself; use --dry-run to see what can be removed")
			}
			if f.days < 0 {
				return program.Usagef("--days %d: give 0 or more", f.days)
			}
			return w.with(cmd.Context(), func(c *cloud) error { return w.clean(cmd.Context(), c, f) })
		},
	}

	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only show (required)")
	cmd.Flags().IntVar(&f.days, "days", 30, "keep what is younger")
	cmd.Flags().BoolVar(&f.urls, "urls", false, "print the URLs of the objects that can be removed, one per line")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON array")
	return cmd
}

// cleanOverhead is the width of all columns but the last.
const cleanOverhead = 70

func (w *World) clean(ctx context.Context, c *cloud, f cleanFlags) error {
	items, err := clean.Look(ctx, clean.Request{Datasets: c.datasets, Sweeps: c.sweeps, Registry: c.registry,
		Now: w.Now(), Age: time.Duration(f.days) * 24 * time.Hour})
	if err != nil {
		return err
	}
	if f.json {
		return w.printJSON(items)
	}
	if f.urls {
		buckets := map[clean.Bucket]string{clean.Datasets: c.env.DatasetsBucket, clean.Sweeps: c.env.SweepsBucket,
			clean.Registry: c.env.RegistryBucket}
		for _, i := range items {
			if !i.MayGo() {
				continue
			}
			for _, o := range i.Objects {
				fmt.Fprintf(w.Out, "gs://%s/%s\n", buckets[i.Bucket], o)
			}
		}
		return nil
	}

	var free int64
	t := w.newTable("", "name", "bytes", "newest", "may go", "held by")
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 6, WidthMax: w.textWidth(cleanOverhead),
		WidthMaxEnforcer: text.WrapSoft}})
	for _, i := range items {
		may, newest := "-", "-"
		if i.MayGo() {
			may = "yes"
			free += i.Bytes
		}
		if !i.Newest.IsZero() {
			newest = i.Newest.Format(time.DateOnly)
		}
		t.AppendRow(table.Row{i.Kind, i.Name, humanize.IBytes(uint64(i.Bytes)), newest, may,
			strings.Join(i.HeldBy, "; ")})
	}
	t.Render()
	fmt.Fprintf(w.Out, "%s can be removed; nothing was removed (--urls prints which objects)\n",
		humanize.IBytes(uint64(free)))
	return nil
}
