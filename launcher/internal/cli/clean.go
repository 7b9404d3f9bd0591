package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/blob/folder"
	"coppice/internal/program"
	"coppice/launcher/internal/clean"
)

type cleanFlags struct {
	urls bool
	days int
}

func cleanCommand(w *Setup) *cobra.Command {
	var f cleanFlags
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "List what can be removed from the buckets (deletes nothing)",
		Long: `Lists dataset versions, sweeps and deleted versions, and what needs them: a registered version needs
the dataset it was trained on, its trial and the sweep's records; open sweeps, the newest version of a dataset and
everything younger than --days stay, too. It deletes nothing, because none of these programs has the permission to.
--urls prints the objects that can be removed, for a command that has it.`,
		Example: `  launcher clean
  launcher clean --urls | gcloud storage rm --read-paths-from-stdin
  launcher clean --urls | xargs -d '\n' rm -r # where buckets are folders`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.days < 0 {
				return program.Usagef("--days is %d: use 0 or more", f.days)
			}
			return w.with(cmd.Context(), func() error { return runClean(cmd.Context(), w, f) })
		},
	}

	cmd.Flags().IntVar(&f.days, "days", 30, "keep what is younger")
	cmd.Flags().BoolVar(&f.urls, "urls", false, "print the URLs of the objects that can be removed, one per line")
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}

func runClean(ctx context.Context, w *Setup, f cleanFlags) error {
	items, err := clean.Look(ctx, clean.Request{Datasets: w.datasets, Sweeps: w.sweeps, Registry: w.registry,
		Now: w.Now(), Age: time.Duration(f.days) * 24 * time.Hour})
	if err != nil {
		return err
	}
	if f.urls && !w.asJSON {
		buckets := map[clean.Bucket]string{clean.Datasets: w.env.DatasetsBucket, clean.Sweeps: w.env.SweepsBucket,
			clean.Registry: w.env.RegistryBucket}
		for _, i := range items {
			if !i.MayGo() {
				continue
			}
			for _, o := range i.Objects {
				fmt.Fprintln(w.Out, folder.URL(buckets[i.Bucket], o))
			}
		}
		return nil
	}

	return w.print(items, func() { w.screen().Removable(items) })
}
