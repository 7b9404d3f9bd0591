package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/stager"
)

// stageInBatch stages a source in a bucket as a job, and follows it to its end.
func stageInBatch(ctx context.Context, w *Setup, s stager.Stager, t *stager.TableSpec, dst stager.Destination,
	f cloudjob.Flags) (*stager.Staged, error) {
	machine, err := f.MachineType()
	if err != nil {
		return nil, err
	}
	if err := stager.CheckLike(ctx, w.datasets, s.Like); err != nil {
		return nil, err
	}

	// An input that was staged before needs no machine.
	s.Day = t.Day
	in, err := s.Look(ctx, t.Spec, dst)
	if err != nil {
		return nil, err
	}
	if in.Staged != nil {
		return in.Staged, nil
	}

	// The disks hold the source and the dataset made from it.
	disks, err := f.Disks(machine, in.DiskNeed(t.Spec), stager.DiskFactor*in.Bytes)
	if err != nil {
		return nil, err
	}
	q := f.Request(machine, disks)
	q.Kind, q.Dataset, q.Fingerprint = cloudjob.Stage, t.Spec.Name, in.Fingerprint
	q.Env = sweep.LauncherTaskEnv{Project: w.env.Project, DatasetsBucket: w.env.DatasetsBucket, File: t.File,
		Spec: string(t.Text), Like: t.Spec.Encodings.Like, Day: dayOf(t.Spec, t.Day)}
	if s.Nightly {
		q.Env.Nightly = "true"
	}
	o, err := inBatch(ctx, w, q, sweep.DatasetStaging)
	if err != nil {
		return nil, err
	}

	m, err := stager.Manifest(ctx, w.datasets, t.Spec.Name, o.Version)
	if err != nil {
		return nil, err
	}
	night, err := dst.Night(ctx, m.Name, m.Version)
	return &stager.Staged{Manifest: m, Place: dst.Place(m), Existed: o.Existed, Night: night}, err
}

// dayOf is the newest day for a job's task, which may begin after midnight; empty if the source has no days.
func dayOf(spec *dataset.Spec, day time.Time) string {
	if !spec.Source.Dated() {
		return ""
	}
	return day.Format(time.DateOnly)
}

// stageTaskCommand is the command that the job runs. It is not for people.
func stageTaskCommand(w *Setup) *cobra.Command {
	return jobTaskCommand(w, cloudjob.Stage, "Stage a dataset", "launcher stage --batch", "staging",
		func(ctx context.Context, t *cloudjob.Task, s *stager.Stager) error {
			return t.Stage(ctx, s, stager.Destination{Store: t.Store, URL: "gs://" + t.Env.DatasetsBucket})
		})
}
