package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"coppice/internal/machines"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/backtest"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
)

// dailyFactor is how much more disk a backtest may need than staging, per byte of the source: the table as one file per
// day, which may be compressed less well. A night is staged from some of them.
const dailyFactor = 4

// backtestInBatch submits a backtest on a table in a bucket, follows it to its end, and shows its report. The report of
// an earlier identical run is shown at once.
func backtestInBatch(ctx context.Context, w *Setup, b *backtest.Specs, f backtestFlags) error {
	if b.Table.Source.AnyLocal() {
		return program.Usagef("--batch needs a table in a bucket, but the source of %s is %.100q; copy it to a "+
			"bucket first: gcloud storage cp", b.TableFile, b.Table.Source)
	}
	if _, err := b.Spec.Column(b.Table); err != nil {
		return err
	}
	machine, err := f.batch.MachineType()
	if err != nil {
		return err
	}

	return w.with(ctx, func() error {
		day := w.Now().UTC().AddDate(0, 0, -1)
		in, err := (&stager.Stager{Bucket: w.bucket, Day: day}).Find(ctx, b.Table)
		if err != nil {
			return err
		}
		key := cloudjob.BacktestKey(in, string(b.Text), w.Version)
		r, err := cloudjob.ReadBacktest(ctx, w.datasets, b.Table.Name, key)
		if err != nil {
			return err
		}

		if r == nil {
			r, key, err = runInBatch(ctx, w, b, in, machine, key, dayOf(b.Table, day), f)
		} else if !w.asJSON {
			fmt.Fprintln(w.Err, "this backtest was run before; here is its report")
		}
		if err != nil {
			return err
		}
		if err := printBacktest(w, r, f); err != nil {
			return err
		}
		w.say("the report is in gs://%s/%s\n", w.env.DatasetsBucket, sweep.DatasetBacktest(b.Table.Name, key))
		return nil
	})
}

// runInBatch runs the backtest in a job, and returns its report with the key. The key differs from the given one if
// the table or the image has changed.
func runInBatch(ctx context.Context, w *Setup, b *backtest.Specs, in *stager.Located, machine machines.Type,
	key, day string, f backtestFlags) (*backtest.Results, string, error) {
	disks, err := f.batch.Disks(machine, in.DiskNeed(b.Table)+dailyFactor*in.Bytes,
		(stager.DiskFactor+dailyFactor)*in.Bytes)
	if err != nil {
		return nil, "", err
	}
	q := f.batch.Request(machine, disks)
	q.Kind, q.Dataset, q.Fingerprint = cloudjob.Backtest, b.Table.Name, key
	q.Env = sweep.LauncherTaskEnv{Project: w.env.Project, DatasetsBucket: w.env.DatasetsBucket, File: b.TableFile,
		Day:  day,
		Spec: string(b.TableText), BacktestFile: b.File, Backtest: string(b.Text)}
	o, err := inBatch(ctx, w, q, sweep.DatasetBacktestRun)
	if err != nil {
		return nil, "", err
	}

	r, err := cloudjob.ReadBacktest(ctx, w.datasets, b.Table.Name, o.Report)
	if err == nil && r == nil {
		err = fmt.Errorf("the job succeeded, but its report gs://%s/%s%s is missing or damaged: run the command again",
			w.env.DatasetsBucket, sweep.DatasetBacktest(b.Table.Name, o.Report), backtest.ReportFile)
	}
	return r, o.Report, err
}

// backtestTaskCommand is the command that the job runs. It is not for people.
func backtestTaskCommand(w *Setup) *cobra.Command {
	return jobTaskCommand(w, cloudjob.Backtest, "Run a backtest", "launcher backtest --batch", "backtest",
		func(ctx context.Context, t *cloudjob.Task, s *stager.Stager) error {
			return t.Backtest(ctx, s, show.NightLine)
		})
}
