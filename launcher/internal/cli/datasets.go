package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

func datasetsCommand(w *World) *cobra.Command {
	cmd := program.Group(&cobra.Command{
		Use:   "datasets",
		Short: "Manage staged datasets",
		Long: "A dataset is called NAME, one of its versions NAME@VERSION; NAME alone means the version staged " +
			"last.",
		Example: "  launcher datasets list\n  launcher datasets show clicks",
	})
	cmd.AddCommand(datasetsListCommand(w), datasetsShowCommand(w), datasetsAcceptCommand(w), datasetsPullCommand(w))
	return cmd
}

func datasetsListCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list [NAME]",
		Short:   "List the versions of a dataset, or of all",
		Example: "  launcher datasets list\n  launcher datasets list clicks --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
				if err := sweep.CheckName("dataset", name); err != nil {
					return err
				}
			}
			return w.with(cmd.Context(), func(c *cloud) error { return w.listDatasets(cmd.Context(), c, name, asJSON) })
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// datasetRow is one line of datasets list.
type datasetRow struct {
	Dataset string    `json:"dataset"`
	Version string    `json:"version"`
	Latest  bool      `json:"latest"`
	Rows    int       `json:"rows"`
	Bytes   int64     `json:"bytes"`
	Staged  time.Time `json:"staged,omitzero"` // unknown for versions that were staged before nights were compared
	State   string    `json:"state"`           // good, accepted, blocked, unknown or unreadable
}

func (w *World) listDatasets(ctx context.Context, c *cloud, name string, asJSON bool) error {
	versions, err := stager.List(ctx, c.datasets, name)
	if err != nil {
		return err
	}
	if name != "" && len(versions) == 0 {
		return stager.NotStaged(name)
	}

	out := []datasetRow{}
	for _, v := range versions {
		m := v.Manifest
		row := datasetRow{Dataset: m.Name, Version: m.Version, Latest: v.Latest, State: "unreadable"}
		if v.Damaged == nil {
			row.Bytes = m.Bytes()
			for _, s := range m.Splits {
				row.Rows += m.TableRows(s.Name)
			}
			row.State, row.Staged = c.nightState(ctx, m.Name, m.Version)
		}
		out = append(out, row)
	}

	if asJSON {
		return w.printJSON(out)
	}
	t := w.newTable("dataset", "version", "rows", "size", "staged", "night")
	for _, r := range out {
		staged, ref := "", r.Version
		if !r.Staged.IsZero() {
			staged = r.Staged.Format(time.DateTime)
		}
		if r.Latest {
			ref += " (latest)"
		}
		t.AppendRow(table.Row{r.Dataset, ref, humanize.Comma(int64(r.Rows)), humanize.IBytes(uint64(r.Bytes)), staged,
			r.State})
	}
	t.Render()
	return nil
}

// nightState is the state of a version's night in a word, and when it was staged.
func (c *cloud) nightState(ctx context.Context, name, version string) (string, time.Time) {
	r, err := stager.Destination{Store: c.datasets}.Night(ctx, name, version)
	if r == nil {
		return stateOf(r, err), time.Time{}
	}
	return stateOf(r, err), r.At
}

// States of a dataset version's night.
const (
	nightGood       = "good"
	nightAccepted   = "accepted"
	nightBlocked    = "blocked"
	nightUnknown    = "unknown" // it has no record
	nightUnreadable = "unreadable"
)

func stateOf(r *nights.Record, err error) string {
	switch {
	case err != nil:
		return nightUnreadable
	case r == nil:
		return nightUnknown
	case r.Blocked():
		return nightBlocked
	case nights.Blocked(r.Findings):
		return nightAccepted
	}
	return nightGood
}

func datasetsPullCommand(w *World) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "pull NAME[@VERSION]",
		Short: "Copy a dataset version out of the bucket",
		Long: "Copies a version into the folder OUT/NAME/VERSION, for `task train --dataset`. It appears " +
			"complete, with the right checksums, or not at all.",
		Example: "  launcher datasets pull clicks --out data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := program.CheckOutFolder("--out", out); err != nil {
				return err
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				m, err := stager.Resolve(cmd.Context(), c.datasets, args[0])
				if err != nil {
					return err
				}
				bar := w.stageBar(false)
				place, err := (&stager.Stager{Progress: bar.report}).Pull(cmd.Context(), c.datasets, m, out)
				bar.finish()
				if err != nil {
					return err
				}
				fmt.Fprintln(w.Out, place)
				return nil
			})
		},
	}

	cmd.Flags().StringVar(&out, "out", ".", "folder to copy into")
	return cmd
}
