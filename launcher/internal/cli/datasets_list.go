package cli

import (
	"context"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/program/tables"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

func datasetsListCommand(w *Setup) *cobra.Command {
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
			return w.with(cmd.Context(), func() error { return listDatasets(cmd.Context(), w, name) })
		},
	}
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}

// listedDataset is one line of datasets list.
type listedDataset struct {
	Dataset string    `json:"dataset"`
	Version string    `json:"version"`
	Latest  bool      `json:"latest"`
	Rows    int       `json:"rows"`
	Bytes   int64     `json:"bytes"`
	Staged  time.Time `json:"staged,omitzero"` // unknown if the night's record cannot be read
	State   string    `json:"state"`           // good, accepted, blocked, unknown or unreadable
}

func listDatasets(ctx context.Context, w *Setup, name string) error {
	versions, err := stager.List(ctx, w.datasets, name)
	if err != nil {
		return err
	}
	if name != "" && len(versions) == 0 {
		return stager.NotStaged(name)
	}

	all := []listedDataset{}
	for _, v := range versions {
		m := v.Manifest
		l := listedDataset{Dataset: m.Name, Version: m.Version, Latest: v.Latest, State: sweepview.NightUnreadable}
		if v.Damaged == nil {
			l.Bytes = m.Bytes()
			for _, s := range m.Splits {
				l.Rows += m.TableRows(s.Name)
			}
			night := sweepview.NightOf(ctx, w.datasets, m.Name, m.Version)
			l.State, l.Staged = night.State, night.Staged
		}
		all = append(all, l)
	}

	return w.print(all, func() {
		t := w.screen().Table("dataset", "version", "rows", "size", "staged", "night").Least("size", "staged")
		for _, l := range all {
			staged, ref := "", l.Version
			if !l.Staged.IsZero() {
				staged = l.Staged.Format(time.DateTime)
			}
			if l.Latest {
				ref += " (latest)"
			}
			t.Row(l.Dataset, ref, humanize.Comma(int64(l.Rows)), humanize.IBytes(uint64(l.Bytes)), staged,
				tables.Standing(l.State))
		}
		t.Print()
	})
}
