package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/stager"
)

const (
	// diskFactor is how much disk the work may need per byte of the source: the source itself, the dataset, which may
	// be larger than well compressed Parquet, and a reserve.
	diskFactor = 8
	// encodedFactor and copyFactor, multiplied by the number of orders of train's rows, are the same if statistics of
	// ids may be made: the dataset then has more columns, and temporary files hold 8 bytes per row and part of a key,
	// and the bins of statistics once more. This applies to a well compressed source with little but ids; uncompressed
	// text is textShare times as large.
	encodedFactor = 56
	copyFactor    = 28
	textShare     = 3
)

// diskNeed is how many bytes of disk staging a source of that size may need. Unless the spec says how often train
// repeats its rows, only small tables repeat them.
func diskNeed(spec *dataset.Spec, bytes int64) int64 {
	if spec.Encodings.Off {
		return diskFactor * bytes
	}
	factor := int64(encodedFactor + copyFactor*max(1, spec.Encodings.Order.Copies))
	if ext := filepath.Ext(spec.Source); ext == ".csv" || ext == ".tsv" {
		factor /= textShare
	}
	return factor * bytes
}

// stageInBatch stages a source in a bucket as a job, and follows it to its end.
func stageInBatch(ctx context.Context, w *Setup, file string, text []byte, spec *dataset.Spec, f stageFlags) error {
	if !stager.Remote(spec.Source) {
		return program.Usagef("--batch needs a source in a bucket, but the source of %s is %.100q; copy it to a "+
			"bucket first: gcloud storage cp", file, spec.Source)
	}

	machine, err := f.batch.machineType()
	if err != nil {
		return err
	}

	return w.with(ctx, func() error {
		s := &stager.Stager{Bucket: w.bucket}
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
		disks, err := f.batch.disks(machine, diskNeed(spec, in.Bytes), diskFactor*in.Bytes)
		if err != nil {
			return err
		}
		q := f.batch.request(machine, disks)
		q.Kind, q.Dataset, q.Fingerprint = cloudjob.Stage, spec.Name, in.Fingerprint
		q.Env = sweep.LauncherTaskEnv{Project: w.env.Project, DatasetsBucket: w.env.DatasetsBucket, File: file,
			Spec: string(text), Like: spec.Encodings.Like}
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

// stageTaskCommand is the command that the job runs. It is not for people.
func stageTaskCommand(w *Setup) *cobra.Command {
	return jobTaskCommand(w, cloudjob.Stage, "Stage a dataset", "launcher stage --batch", "staging",
		func(ctx context.Context, t *cloudjob.Task, s *stager.Stager) error {
			return t.Stage(ctx, s, stager.Destination{Store: t.Store, URL: "gs://" + t.Env.DatasetsBucket})
		})
}
