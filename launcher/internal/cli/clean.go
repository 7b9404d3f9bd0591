package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"coppice/internal/blob/folder"
	"coppice/internal/program"
	"coppice/launcher/internal/clean"
)

func cleanCommand(w *Setup) *cobra.Command {
	var q clean.Request
	var remove bool
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "List what is no longer needed in the buckets, or remove it",
		Long: `Lists dataset versions, sweeps and deleted versions, and what needs them. The versions that aliases
point at, and those last promoted (--promoted), need the datasets they were trained on and their trials; every
registered version needs the records of its sweep. Open sweeps and their datasets, the newest datasets and sweeps
(--keep), and everything younger than a week stay, too.

--yes removes what the list without it shows, but for deleted versions, and writes down what and why in cleaned/ of
the datasets bucket. Its first run, and one that keeps fewer than the run before, only lists and writes down; those at
least 12 hours later remove. In the cloud a schedule runs it, as the one account that may. --json has the URLs of the
files of deleted versions.`,
		Example: `  launcher clean
  launcher clean --yes
  launcher clean --json | jq -r '.[].urls[]?' | gcloud storage rm --read-paths-from-stdin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Nights < clean.LeastNights || q.Promoted < 0 {
				return program.Usagef("--keep %d --promoted %d: use %d nights or more, which a warm start reads, "+
					"and 0 moves or more", q.Nights, q.Promoted, clean.LeastNights)
			}
			return w.withCloud(cmd.Context(), func() error {
				q.Datasets, q.Sweeps, q.Registry, q.Now = w.datasets, w.sweeps, w.registry, w.Now()
				if remove {
					gone, err := clean.Remove(cmd.Context(), q)
					if err != nil {
						return fmt.Errorf("removed %d of what may go: %w", len(gone), err)
					}
					end := "removed %s\n"
					if len(gone) > 0 && !gone[0].Removed {
						end = "%s can be removed; nothing was removed: a run at least 12 hours from now removes it\n"
					}
					return w.print(gone, func() { w.screen().Removable(gone, end) })
				}
				items, err := clean.Look(cmd.Context(), q)
				if err != nil {
					return err
				}
				for _, i := range items { // objects of deleted versions, as gcloud takes them
					for n, object := range i.URLs {
						i.URLs[n] = folder.URL(w.env.RegistryBucket, object)
					}
				}
				const end = "%s can be removed; nothing was removed (--yes removes it)\n"
				return w.print(items, func() { w.screen().Removable(items, end) })
			})
		},
	}

	cmd.Flags().IntVar(&q.Nights, "keep", clean.Nights, "newest versions of a dataset and sweeps of a model to keep")
	cmd.Flags().IntVar(&q.Promoted, "promoted", clean.Promoted, "last moves of an alias that stay reproducible")
	cmd.Flags().BoolVar(&remove, "yes", false, "remove what can be removed")
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}
