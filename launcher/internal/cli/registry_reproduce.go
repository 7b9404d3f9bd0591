package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/program/tables"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/reproduce"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
)

type reproduceFlags struct {
	dataset, scratch string
	threads          int
	batch            batchFlags
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
			if err := f.batch.check(cmd, "dataset", "scratch", "threads"); err != nil {
				return err
			}
			ctx := cmd.Context()
			return w.withVersion(ctx, args[0], func(v registry.Version) error {
				o, err := reproducible(ctx, w, v)
				if err != nil {
					return err
				}
				again := trainAgain
				if f.batch.on {
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
	f.batch.add(cmd, "train")
	return cmd
}

// reproducible reads a version, and rejects one that cannot be trained again.
func reproducible(ctx context.Context, w *Setup, v registry.Version) (origin, error) {
	o, err := readOrigin(ctx, w.registry, v)
	if err == nil && o.plan == nil {
		err = problem.New(problem.Input, "%s has no plan among its files, so it was not registered by a sweep",
			o.name())
	}
	return o, err
}

// trainAgain trains the version on this machine.
func trainAgain(ctx context.Context, w *Setup, o origin, f reproduceFlags) (*reproduce.Report, error) {
	q := reproduce.Recipe{Plan: o.plan, Files: map[string][]byte{}, Dir: f.dataset, Threads: f.threads}
	var result sweep.Result
	if err := readJSON(ctx, w, o.Version, scorer.FileResult, &result); err != nil {
		return nil, err
	}
	q.Trial, q.Params = result.Trial, result.Params
	if result.AtLimit {
		q.Trees = result.TreesGrown
	}
	if result.From != nil {
		q.Lineage = result.From.Lineage
	}
	if _, ok := o.File(scorer.FileMembers); ok {
		if err := readJSON(ctx, w, o.Version, scorer.FileMembers, &q.Members); err != nil {
			return nil, err
		}
	}
	for _, file := range []string{scorer.FileModel, scorer.FileFeatures, scorer.FileLevels, scorer.FileCalibrator} {
		if _, ok := o.File(file); !ok {
			continue
		}
		data, err := w.registry.ReadFile(ctx, o.Version, file)
		if err != nil {
			return nil, err
		}
		q.Files[file] = data
	}
	if err := readInputOf(ctx, w, o.plan, &q); err != nil {
		return nil, err
	}

	if q.Dir == "" {
		dir, err := fetchDataset(ctx, w, o.manifest, f.scratch)
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
	r, err := reproduce.Run(ctx, q)
	if err != nil {
		return nil, err
	}
	r.Build = w.Version
	return r, nil
}

// readInputOf reads the model that a version continues, and checks that it is the one named in the version's plan.
func readInputOf(ctx context.Context, w *Setup, p *sweep.Plan, q *reproduce.Recipe) error {
	in := p.Input
	if in == nil {
		return nil
	}

	v, err := w.registry.Get(ctx, in.Model, strconv.Itoa(in.Version))
	if err != nil {
		return fmt.Errorf("the model that it continues: %w", err)
	}
	for _, part := range []struct {
		file string
		want sweep.Object
		to   *[]byte
	}{{scorer.JudgedModel(v), in.Text, &q.Input}, {scorer.FileDataset, in.Dataset, &q.InputDataset}} {
		if *part.to, err = w.registry.ReadFile(ctx, v, part.file); err != nil {
			return err
		}
		if is := sweepstore.InputObject(p.Sweep, *part.to).SHA256; is != part.want.SHA256 {
			return problem.New(problem.Conflict,
				"version %d of model %s, which it continues, has another %s than in the "+
					"plan: %s instead of %s", in.Version, in.Model, part.file, is, part.want.SHA256)
		}
	}
	return nil
}

// fetchDataset copies a version's dataset into a folder of its own, which the caller removes.
func fetchDataset(ctx context.Context, w *Setup, m *dataset.Manifest, scratch string) (string, error) {
	staged, err := stager.Resolve(ctx, w.datasets, m.Name+"@"+m.Version)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(scratch, "coppice-reproduce-")
	if err != nil {
		return "", err
	}
	if err := stager.FetchTo(ctx, w.datasets, staged, dir); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// printReproduced prints the outcome.
func printReproduced(w *Setup, o origin, r *reproduce.Report) error {
	if err := w.print(r, func() {
		t := w.screen().Table("file", "registered", "", "").Wrap(4)
		for _, f := range r.Files {
			size, verdict := "-", tables.Standing("same bytes")
			if old, ok := o.File(f.Name); ok {
				size = humanize.IBytes(uint64(old.Bytes))
			}
			if !f.Same {
				verdict = "differs"
			}
			t.Row(f.Name, size, verdict, f.Differs)
		}
		t.Print()
	}); err != nil {
		return err
	}

	if r.Same() {
		w.say("%s trained again on %s, %d trees in %.1f s: the same bytes\n", o.name(), r.Dataset, r.Trees, r.Seconds)
		return nil
	}
	var parts []string
	for _, f := range r.Files {
		if !f.Same {
			parts = append(parts, f.Name+": "+f.Differs)
		}
	}
	builds := ""
	if o.plan.Coppice != r.Build {
		builds = fmt.Sprintf("; it was planned by build %s, and trained again by %s", o.plan.Coppice, r.Build)
	}
	return problem.New(problem.Conflict, "%s trained again on %s differs in %s%s", o.name(), r.Dataset,
		strings.Join(parts, "; "), builds)
}

// trainAgainInBatch has a job train the version, and follows it to its end.
func trainAgainInBatch(ctx context.Context, w *Setup, o origin, f reproduceFlags) (*reproduce.Report, error) {
	// before a machine costs anything
	if _, err := stager.Resolve(ctx, w.datasets, o.manifest.Name+"@"+o.manifest.Version); err != nil {
		return nil, err
	}
	machine, err := f.batch.machineType()
	if err != nil {
		return nil, err
	}
	var bytes int64
	for _, file := range o.manifest.Files {
		bytes += file.Bytes
	}
	disks, err := f.batch.disks(machine, bytes, bytes)
	if err != nil {
		return nil, err
	}

	q := f.batch.request(machine, disks)
	q.Kind, q.Dataset = cloudjob.Reproduce, o.manifest.Name
	if q.Fingerprint, err = cloudjob.VersionKey(o.Version, w.Version); err != nil {
		return nil, err
	}
	q.Env = sweep.LauncherTaskEnv{Project: w.env.Project, DatasetsBucket: w.env.DatasetsBucket,
		RegistryBucket: w.env.RegistryBucket, Reproduce: o.name(), Dataset: q.Dataset}
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
				model, ref, err := splitRef(t.Env.Reproduce)
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
				o, err := reproducible(ctx, w, v)
				if err != nil {
					return nil, err
				}
				say(fmt.Sprintf("training %s again on %s@%s", o.name(), o.manifest.Name, o.manifest.Version))
				return trainAgain(ctx, w, o, reproduceFlags{scratch: t.Env.Scratch})
			})
		})
}
