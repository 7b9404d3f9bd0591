package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/strictjson"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/stager"
)

// tableDisk is how much of a table's size its machine's disks hold: the table and, perhaps as CSV, what is made of it.
const tableDisk = 4

// predictInBatch has the tasks of a job score the tables of a bucket that are not scored yet.
func predictInBatch(ctx context.Context, w *Setup, v registry.Version, f predictFlags) error {
	q, err := f.request(nil)
	if err != nil {
		return err
	}
	b, err := w.tables(q)
	if err != nil {
		return err
	}
	all, left, err := b.Left(ctx)
	if err != nil {
		return err
	}
	before := b.WereScored
	if len(left) > 0 {
		if err := f.submit(ctx, w, v, all, left); err != nil {
			return err
		}
		if _, left, err = b.Left(ctx); err != nil {
			return err
		}
		if len(left) > 0 {
			return problem.New(problem.Conflict, "--in %s: the job has ended, and %d tables are not scored, such as "+
				"%s; run the same command again", f.In, len(left), left[0].Name)
		}
	}
	return w.print(map[string]any{"model": v.Model, "version": v.Number, "tables": b.WereScored - before,
		"before": before, "out": f.Out}, func() {
		w.printf("tables scored: %d; scored before: %d\n", b.WereScored-before, before)
	})
}

// submit runs the job for the tables that are left. It is named after all of them, so that the same command finds a job
// that has scored some and goes on.
func (f *predictFlags) submit(ctx context.Context, w *Setup, v registry.Version, all, left []blob.Attrs) error {
	told, err := json.Marshal(f)
	if err != nil {
		return err
	}
	what, largest := sha256.New(), int64(0)
	fmt.Fprintf(what, "%s\n%s\n", w.Version, told)
	for _, o := range all {
		fmt.Fprintf(what, "%q %d\n", o.Name, o.Generation)
	}
	for _, o := range left {
		largest = max(largest, o.Size)
	}
	machine, err := f.batch.MachineType()
	if err != nil {
		return err
	}
	disks, err := f.batch.Disks(machine, tableDisk*largest, tableDisk*largest)
	if err != nil {
		return err
	}
	q := f.batch.Request(machine, disks)
	q.Kind, q.Dataset, q.Tasks = cloudjob.Predict, v.Model, min(f.tasks, len(left))
	q.Fingerprint = hex.EncodeToString(what.Sum(nil)[:16])
	q.Env = sweep.LauncherTaskEnv{Project: w.env.Project, DatasetsBucket: w.env.DatasetsBucket,
		RegistryBucket: w.env.RegistryBucket, Dataset: v.Model, Predict: string(told)}
	_, err = inBatch(ctx, w, q, sweep.Prediction)
	return err
}

// predictTaskCommand is the command that the job runs. It is not for people.
func predictTaskCommand(w *Setup) *cobra.Command {
	return jobTaskCommand(w, cloudjob.Predict, "Score the tables of a bucket", "launcher predict --batch",
		"scoring tables", func(ctx context.Context, t *cloudjob.Task, _ *stager.Stager) error {
			return t.Predict(ctx, func() (*cloudjob.Predicted, error) {
				var f predictFlags
				if err := strictjson.DecodeKnown([]byte(t.Env.Predict), &f); err != nil {
					return nil, fmt.Errorf("COPPICE_PREDICT: %w", err)
				}
				model, ref, err := sweep.SplitModelRef(f.Model)
				if err != nil {
					return nil, err
				}
				r := registry.New(w.Bucket(t.Env.RegistryBucket))
				v, err := r.Get(ctx, model, ref)
				if err != nil {
					return nil, err
				}
				dir := filepath.Join(t.Env.Scratch, fmt.Sprintf("predict-%d", t.Env.Index))
				// An attempt that was killed on this machine has left its tables.
				if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
					return nil, err
				}
				defer os.RemoveAll(dir)
				s, err := scorer.OpenMapped(ctx, r, v, dir)
				if err != nil {
					return nil, err
				}
				defer s.Close()

				q, err := f.request(s)
				if err != nil {
					return nil, err
				}
				b, err := w.tables(q)
				if err != nil {
					return nil, err
				}
				b.Dir, b.Task = dir, t.Env.Index
				done, err := b.Run(ctx)
				if err != nil {
					return nil, err
				}
				return &cloudjob.Predicted{Tables: b.Scored, Rows: done.Rows}, nil
			})
		})
}
