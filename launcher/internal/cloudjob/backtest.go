package cloudjob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/backtest"
	"coppice/launcher/internal/stager"
)

// NightLine formats a night for people.
type NightLine func(n page.BacktestNight, metric string, took time.Duration) string

// Backtest is the task of a backtest's job. It writes the report to the datasets bucket.
func (t *Task) Backtest(ctx context.Context, s *stager.Stager, line NightLine) error {
	staged, err := dataset.ParseSpec(t.Env.File, []byte(t.Env.Spec))
	if err != nil {
		return err // as for staging
	}

	return t.run(ctx, sweep.DatasetBacktestRun(staged.Name, t.Env.Job), func(r *reporter) (JobOutcome, error) {
		spec, err := backtest.ParseSpec(t.Env.BacktestFile, []byte(t.Env.Backtest))
		if err != nil {
			return JobOutcome{}, err
		}

		s.Progress = r.note
		in, err := s.Find(ctx, staged)
		if err != nil {
			return JobOutcome{}, err
		}
		key := BacktestKey(in, t.Env.Backtest, t.Build)
		err = s.WithTable(ctx, in, func(scratch string, files []table.File) error {
			b := &backtest.Runner{Spec: spec, Table: staged, Files: files, Scratch: scratch,
				OnNight: func(n page.BacktestNight, took time.Duration) { r.say(line(n, spec.Metric, took)) }}
			report, err := b.Run(ctx)
			if err != nil {
				return err
			}
			return t.keep(ctx, report, sweep.DatasetBacktest(staged.Name, key))
		})
		if err != nil {
			return JobOutcome{}, err
		}
		return JobOutcome{Report: key}, nil
	})
}

// keep writes the report into a folder of the bucket, the JSON last: its existence implies that of the page.
func (t *Task) keep(ctx context.Context, r *backtest.Results, folder string) error {
	text, page, err := r.Files()
	if err != nil {
		return err
	}
	if _, err := t.Store.Put(ctx, folder+backtest.PageFile, blob.Any, bytes.NewReader(page)); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if _, err := t.Store.Put(ctx, folder+backtest.ReportFile, blob.Any, bytes.NewReader(text)); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// BacktestKey identifies the report of a backtest by table, both files and build, which may change a model. It has 32
// hexadecimal digits.
func BacktestKey(table *stager.Located, spec, version string) string {
	all := sha256.New()
	fmt.Fprintf(all, "%s\n%s\n%d\n%s", table.Fingerprint, version, len(spec), spec)
	return hex.EncodeToString(all.Sum(nil)[:16])
}

// ReadBacktest returns the report of a dataset's backtest by key; nil if there is none that can be read.
func ReadBacktest(ctx context.Context, store blob.Store, dataset, key string) (*backtest.Results, error) {
	text, _, err := blob.ReadAll(ctx, store, sweep.DatasetBacktest(dataset, key)+backtest.ReportFile, maxBacktest)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	r, err := backtest.Decode(text)
	if problem.Is(err, problem.Damaged) {
		return nil, nil // the backtest is run and written again
	}
	return r, err
}

// maxBacktest is more than the size of a thousand nights under a hundred rules.
const maxBacktest = 256 << 20
