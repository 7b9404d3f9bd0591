package cloudjob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"coppice/blob"
	"coppice/dataset"
	"coppice/dataset/ingest"
	"coppice/launcher/internal/backtest"
	"coppice/launcher/internal/stager"
	"coppice/sweep"
)

// NightLine is the line that people are shown of a night.
type NightLine func(n backtest.Night, metric string, took time.Duration) string

// Backtest is the task of a backtest's job. Its report lies in the datasets bucket when it ends well.
func (t *Task) Backtest(ctx context.Context, s *stager.Stager, line NightLine) error {
	table, err := dataset.ParseSpec(t.Env.File, []byte(t.Env.Spec))
	if err != nil {
		return err // as for staging
	}

	return t.run(ctx, sweep.DatasetBacktestRun(table.Name, t.Env.Job), func(r *reporter) (Outcome, error) {
		spec, err := backtest.ParseSpec(t.Env.BacktestFile, []byte(t.Env.Backtest))
		if err != nil {
			return Outcome{}, err
		}

		s.Progress = r.note
		in, err := s.Find(ctx, table)
		if err != nil {
			return Outcome{}, err
		}
		key := BacktestKey(in, t.Env.Backtest, t.Build)
		err = s.WithTable(ctx, in, func(scratch string, files []ingest.File) error {
			report, err := backtest.Run(ctx, backtest.Request{Spec: spec, Table: table, Files: files, Scratch: scratch,
				OnNight: func(n backtest.Night, took time.Duration) { r.say(line(n, spec.Metric, took)) }})
			if err != nil {
				return err
			}
			return t.keep(ctx, report, sweep.DatasetBacktest(table.Name, key))
		})
		if err != nil {
			return Outcome{}, err
		}
		return Outcome{Report: key}, nil
	})
}

// keep writes the report into a folder of the bucket, the JSON last: where it is, the page is, too.
func (t *Task) keep(ctx context.Context, r *backtest.Report, folder string) error {
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

// BacktestKey is what the report of a backtest is found by: the table, both files and the build, which may change a model. 32 hexadecimal
// digits.
func BacktestKey(table *stager.Input, spec, version string) string {
	all := sha256.New()
	fmt.Fprintf(all, "%s\n%s\n%d\n%s", table.Fingerprint, version, len(spec), spec)
	return hex.EncodeToString(all.Sum(nil)[:16])
}

// ReadBacktest is the report with the key of a backtest of a dataset; nil where there is none that can be read.
func ReadBacktest(ctx context.Context, store blob.Store, dataset, key string) (*backtest.Report, error) {
	text, _, err := blob.ReadAll(ctx, store, sweep.DatasetBacktest(dataset, key)+backtest.ReportFile, maxBacktest)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	r, err := backtest.Decode(text)
	if errors.As(err, new(*backtest.ReportError)) {
		return nil, nil // played again, it is written again
	}
	return r, err
}

// maxBacktest is more than a thousand nights under a hundred rules take.
const maxBacktest = 256 << 20
