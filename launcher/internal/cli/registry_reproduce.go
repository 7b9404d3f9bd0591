package cli

import (
	"context"
	"os"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/registry"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/reproduce"
	"coppice/launcher/internal/show"
)

type reproduceFlags struct {
	dataset string
	threads int
}

func registryReproduceCommand(w *Setup) *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce MODEL[@VERSION|@ALIAS]",
		Short: "Train a version again and compare the bytes",
		Long: `Fetches the dataset that the version was trained on, trains its trial again with the parameters of its
plan, calibrates it again, and compares the files with the registered ones: the same bytes, or where they first
differ (exit code 5). Nothing is written to the registry. The number of threads does not matter; another build of
Coppice may grow other trees, and then the report names both builds.`,
		Example: `  launcher registry reproduce ctr@12
  launcher registry reproduce ctr --dataset build/data/clicks/0123456789ab`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			if err := checkThreads(f.threads); err != nil {
				return err
			}
			ctx := cmd.Context()
			return w.withVersion(ctx, args[0], func(v registry.Version) error {
				o, err := reproduce.Reproducible(ctx, w.registry, v)
				if err != nil {
					return err
				}
				r, err := trainAgain(ctx, w, o, f)
				if err != nil {
					return err
				}
				return printReproduced(w, o, r)
			})
		},
	}

	cmd.Flags().StringVar(&f.dataset, "dataset", "",
		"folder that already has the dataset version (default: fetch it into $TMPDIR)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs)")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

// trainAgain trains the version o on this machine and compares the files with the registered ones. The dataset is in
// the folder of --dataset, whose files are checked first, or else in a temporary copy of the bucket's, which is
// removed.
func trainAgain(ctx context.Context, w *Setup, o plan.Provenance, f reproduceFlags) (*reproduce.Report, error) {
	q, err := reproduce.Read(ctx, w.registry, o)
	if err != nil {
		return nil, err
	}
	q.Dir, q.Threads = f.dataset, f.threads
	if q.Dir == "" {
		dir, err := reproduce.Fetch(ctx, w.datasets, o.Manifest)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		q.Dir = dir
	} else if _, err := dataset.Check(ctx, q.Dir, nil); err != nil {
		return nil, err
	}

	if w.Terminal && !w.asJSON {
		line, trees := show.NewStatusLine(w.World), 0
		defer line.Clear()
		q.OnTree = func(gbt.Progress) error {
			trees++
			line.Show(english.Plural(trees, "tree", ""))
			return nil
		}
	}
	r, err := reproduce.Run(ctx, *q)
	if err != nil {
		return nil, err
	}
	r.Build = w.Version
	return r, nil
}

// printReproduced prints the outcome r of training the version o again. If the bytes differ, it returns an error of
// kind Conflict that says where.
func printReproduced(w *Setup, o plan.Provenance, r *reproduce.Report) error {
	if err := w.print(r, func() { w.screen().Reproduced(o.Version, r) }); err != nil {
		return err
	}
	if r.Same() {
		w.say("%s trained again on %s, %d trees in %.1f s: the same bytes\n", o.Called(), r.Dataset, r.Trees, r.Seconds)
		return nil
	}
	return r.Conflict(o)
}
