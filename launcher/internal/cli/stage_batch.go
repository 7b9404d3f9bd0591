package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/stager"
)

// stageInBatch stages a source in a bucket as a job, and follows it to its end.
func stageInBatch(ctx context.Context, w *Setup, file string, text []byte, spec *dataset.Spec, day time.Time,
	f stageFlags) error {
	if spec.Source.AnyLocal() {
		return program.Usagef("--batch needs a source in a bucket, but the source of %s is %.100s; copy it to a "+
			"bucket first: gcloud storage cp", file, spec.Source)
	}

	machine, err := f.batch.machineType()
	if err != nil {
		return err
	}

	return w.with(ctx, func() error {
		s := &stager.Stager{Bucket: w.bucket, Day: day}
		dst, err := w.destination("")
		if err != nil {
			return err
		}
		like, err := resolveLike(ctx, w, spec)
		if err == nil {
			err = checkLikeStaged(ctx, w, like)
		}
		if err != nil {
			return err
		}

		// An input that was staged before needs no machine.
		in, err := s.Look(ctx, spec, dst)
		if err != nil {
			return err
		}
		if in.Staged != nil {
			return printStaged(ctx, w, in.Staged, dst, f)
		}

		// The disks hold the source and the dataset made from it.
		disks, err := f.batch.disks(machine, in.DiskNeed(spec), stager.DiskFactor*in.Bytes)
		if err != nil {
			return err
		}
		q := f.batch.request(machine, disks)
		q.Kind, q.Dataset, q.Fingerprint = cloudjob.Stage, spec.Name, in.Fingerprint
		q.Env = sweep.LauncherTaskEnv{Project: w.env.Project, DatasetsBucket: w.env.DatasetsBucket, File: file,
			Spec: string(text), Like: spec.Encodings.Like, Day: dayOf(spec, day)}
		o, err := inBatch(ctx, w, q, sweep.DatasetStaging)
		if err != nil {
			return err
		}

		m, err := stager.Manifest(ctx, w.datasets, spec.Name, o.Version)
		if err != nil {
			return err
		}
		night, err := dst.Night(ctx, m.Name, m.Version)
		if err != nil {
			return err
		}
		return printStaged(ctx, w, &stager.Staged{Manifest: m, Place: dst.Place(m), Existed: o.Existed, Night: night},
			dst, f)
	})
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
