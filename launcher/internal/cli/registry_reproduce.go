package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/reproduce"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
)

type reproduceFlags struct {
	dataset, scratch string
	threads          int
	batch            cloudjob.Flags
}

func registryReproduceCommand(w *Setup) *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce MODEL[@VERSION|@ALIAS]",
		Short: "Train a version again and compare the bytes",
		Long: `Fetches the dataset that the version was trained on, trains its trial again with the parameters of its
plan, calibrates it again, and compares the files with the registered ones: the same bytes, or where they first
differ (exit code 5). Nothing is written to the registry. The number of threads does not matter; another build of
Coppice may grow other trees, and then the report names both builds. With --batch all of this happens in a Batch job
of one task, next to the dataset.`,
		Example: `  launcher registry reproduce ctr@12
  launcher registry reproduce ctr --dataset build/data/clicks/0123456789ab
  launcher registry reproduce ctr@12 --batch --spot`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkThreads(f.threads); err != nil {
				return err
			}
			if err := f.batch.Check(cmd, "dataset", "scratch", "threads"); err != nil {
				return err
			}
			ctx := cmd.Context()
			return w.withVersion(ctx, args[0], func(v registry.Version) error {
				o, err := reproduce.Reproducible(ctx, w.registry, v)
				if err != nil {
					return err
				}
				again := trainAgain
				if f.batch.On {
					again = trainAgainInBatch
				}
				r, err := again(ctx, w, o, f)
				if err != nil {
					return err
				}
				return printReproduced(w, o, r)
			})
		},
	}

	cmd.Flags().StringVar(&f.dataset, "dataset", "", "folder that already has the dataset version (default: fetch it)")
	cmd.Flags().StringVar(&f.scratch, "scratch", "",
		"folder for the fetched dataset (default: the system's temporary folder)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs)")
	w.jsonFlag(cmd, "print one JSON object")
	f.batch.Add(cmd, "train")
	return cmd
}

// trainAgain trains the version on this machine.
func trainAgain(ctx context.Context, w *Setup, o plan.Provenance, f reproduceFlags) (*reproduce.Report, error) {
	q, err := reproduce.Read(ctx, w.registry, o)
	if err != nil {
		return nil, err
	}
	q.Dir, q.Threads = f.dataset, f.threads
	if q.Dir == "" {
		dir, err := reproduce.Fetch(ctx, w.datasets, o.Manifest, f.scratch)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		q.Dir = dir
	} else if _, err := dataset.Check(ctx, q.Dir, nil); err != nil {
		return nil, err
	}

	if w.Terminal && !w.asJSON {
		bar := show.NewBar(w.Err, -1, progressbar.OptionSetDescription("trees"), progressbar.OptionShowCount())
		defer func() { _ = bar.Finish() }()
		q.OnTree = func(gbt.Progress) error { return bar.Add(1) }
	}
	r, err := reproduce.Run(ctx, *q)
	if err != nil {
		return nil, err
	}
	r.Build = w.Version
	return r, nil
}

// printReproduced prints the outcome. The error says what differs.
func printReproduced(w *Setup, o plan.Provenance, r *reproduce.Report) error {
	if err := w.print(r, func() { w.screen().Reproduced(o.Version, r) }); err != nil {
		return err
	}
	if r.Same() {
		w.say("%s trained again on %s, %d trees in %.1f s: the same bytes\n", o.Name(), r.Dataset, r.Trees, r.Seconds)
		return nil
	}
	return r.Conflict(o)
}

// trainAgainInBatch has a job train the version, and follows it to its end.
func trainAgainInBatch(ctx context.Context, w *Setup, o plan.Provenance, f reproduceFlags) (*reproduce.Report, error) {
	// before a machine costs anything
	if _, err := stager.Resolve(ctx, w.datasets, o.Manifest.Name+"@"+o.Manifest.Version); err != nil {
		return nil, err
	}
	machine, err := f.batch.MachineType()
	if err != nil {
		return nil, err
	}
	var bytes int64
	for _, file := range o.Manifest.Files {
		bytes += file.Bytes
	}
	disks, err := f.batch.Disks(machine, bytes, bytes)
	if err != nil {
		return nil, err
	}

	q := f.batch.Request(machine, disks)
	q.Kind, q.Dataset = cloudjob.Reproduce, o.Manifest.Name
	if q.Fingerprint, err = cloudjob.VersionKey(o.Version, w.Version); err != nil {
		return nil, err
	}
	q.Env = sweep.LauncherTaskEnv{Project: w.env.Project, DatasetsBucket: w.env.DatasetsBucket,
		RegistryBucket: w.env.RegistryBucket, Reproduce: o.Name(), Dataset: q.Dataset}
	done, err := inBatch(ctx, w, q, sweep.DatasetReproduction)
	if err != nil {
		return nil, err
	}
	if done.Reproduced == nil {
		return nil, errors.New("the job succeeded, but left no report: is the launcher's image of another build?")
	}
	return done.Reproduced, nil
}

// reproduceTaskCommand is the command that the job runs. It is not for people.
func reproduceTaskCommand(w *Setup) *cobra.Command {
	return jobTaskCommand(w, cloudjob.Reproduce, "Train a version again", "launcher registry reproduce --batch",
		"training a version again", func(ctx context.Context, t *cloudjob.Task, s *stager.Stager) error {
			return t.Reproduce(ctx, func(say func(string)) (*reproduce.Report, error) {
				model, ref, err := sweep.SplitModelRef(t.Env.Reproduce)
				if err != nil {
					return nil, err
				}
				models, err := s.Bucket(ctx, t.Env.RegistryBucket)
				if err != nil {
					return nil, err
				}
				w.registry, w.asJSON = registry.New(models), true
				v, err := w.registry.Get(ctx, model, ref)
				if err != nil {
					return nil, err
				}
				o, err := reproduce.Reproducible(ctx, w.registry, v)
				if err != nil {
					return nil, err
				}
				say(fmt.Sprintf("training %s again on %s@%s", o.Name(), o.Manifest.Name, o.Manifest.Version))
				return trainAgain(ctx, w, o, reproduceFlags{scratch: t.Env.Scratch})
			})
		})
}
