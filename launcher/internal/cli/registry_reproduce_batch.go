package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/reproduce"
	"coppice/launcher/internal/stager"
)

// reproduceInBatch has a job train the version, and follows it to its end.
func (w *World) reproduceInBatch(ctx context.Context, c *cloud, v compared, f reproduceFlags) (*reproduce.Report,
	error) {
	if err := v.grown(); err != nil {
		return nil, err
	}
	// before a machine costs anything
	if _, err := stager.Resolve(ctx, c.datasets, v.manifest.Name+"@"+v.manifest.Version); err != nil {
		return nil, err
	}
	machine, err := f.batch.machineType()
	if err != nil {
		return nil, err
	}
	var bytes int64
	for _, file := range v.manifest.Files {
		bytes += file.Bytes
	}
	disks, err := f.batch.disks(machine, bytes, bytes)
	if err != nil {
		return nil, err
	}

	q := f.batch.request(machine, disks)
	q.Kind, q.Dataset = cloudjob.Reproduce, v.manifest.Name
	if q.Fingerprint, err = cloudjob.VersionKey(v.Version, w.Version); err != nil {
		return nil, err
	}
	q.Env = sweep.LauncherTaskEnv{Project: c.env.Project, DatasetsBucket: c.env.DatasetsBucket,
		RegistryBucket: c.env.RegistryBucket, Reproduce: v.name(), Dataset: q.Dataset}
	o, err := w.inBatch(ctx, c, q, sweep.DatasetReproduction, f.json)
	if err != nil {
		return nil, err
	}
	if o.Reproduced == nil {
		return nil, fmt.Errorf("the job succeeded, but left no report: is the launcher's image of another build?")
	}
	return o.Reproduced, nil
}

// reproduceTaskCommand is the command that the job runs. It is not for people.
func reproduceTaskCommand(w *World) *cobra.Command {
	return &cobra.Command{
		Use:   "reproduce-task",
		Short: "Train a version again as the task of a Batch job",
		Long: "What `launcher registry reproduce --batch` runs in the cloud. All settings come from the " +
			"environment, which it writes into the job.",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.jobTask(cmd.Context(), "training a version again",
				func(t *cloudjob.Task, s *stager.Stager) error { return w.reproduceTask(cmd.Context(), t, s) })
		},
	}
}

func (w *World) reproduceTask(ctx context.Context, t *cloudjob.Task, s *stager.Stager) error {
	return t.Reproduce(ctx, func(say func(string)) (*reproduce.Report, error) {
		model, ref, err := splitRef(t.Env.Reproduce)
		if err != nil {
			return nil, err
		}
		models, err := s.Bucket(ctx, t.Env.RegistryBucket)
		if err != nil {
			return nil, err
		}

		c := &cloud{datasets: t.Store, registry: registry.New(models)}
		v, err := c.comparable(ctx, model, ref)
		if err != nil {
			return nil, err
		}
		say(fmt.Sprintf("training %s again on %s@%s", v.name(), v.manifest.Name, v.manifest.Version))
		return w.reproduceHere(ctx, c, v, reproduceFlags{scratch: t.Env.Scratch, json: true})
	})
}
