package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/nights"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
	"coppice/launcher/internal/stager"
)

type stageFlags struct {
	out, scratch string
	threads      int
	json         bool
	accept       string // reason for accepting a blocked night
	batch        batchFlags
}

func stageCommand(w *World) *cobra.Command {
	var f stageFlags
	cmd := &cobra.Command{
		Use:   "stage DATASET.yaml",
		Short: "Bin a table into a dataset version",
		Long: `Reads the table that DATASET.yaml describes (CSV or Parquet, local or gs://), bins it and stores it as a new version of
the dataset. The same input is recognised and not read again. A relative source: is relative to the folder of DATASET.yaml.

The table is compared with those of earlier nights: columns, rows, times, values and labels. What is unusual is printed; a
finding that blocks ends with exit code 8, and nothing is trained on the dataset until --accept, or launcher datasets accept, gives a
reason why it may be.`,
		Example: `  launcher stage clicks.yaml                      # into the datasets bucket
  launcher stage clicks.yaml --out data           # into the folder data/NAME/VERSION, without any cloud
  launcher stage clicks.yaml --json | jq .version
  launcher stage clicks.yaml --accept "prices are in USD from today on"
  launcher stage clicks.yaml --batch              # as a Batch job; source: gs://BUCKET/export/*.parquet`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.batch.check(cmd, "out", "scratch", "threads"); err != nil {
				return err
			}
			return w.stage(cmd.Context(), args[0], f)
		},
	}

	f.batch.add(cmd, "stage")
	cmd.Flags().StringVar(&f.out, "out", "", "folder or gs://BUCKET to store into (default: the datasets bucket)")
	cmd.Flags().StringVar(&f.scratch, "scratch", "",
		"folder for temporary files; it needs space for the source (if in a bucket) and the dataset")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs); the dataset does not depend on them")
	cmd.Flags().StringVar(&f.accept, "accept", "", "accept the table even if it is blocked, for this reason")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the manifest and the findings as JSON")
	return cmd
}

// checkThreads checks a --threads for which 0 stands for all CPUs.
func checkThreads(threads int) error {
	if threads < 0 || threads > 1024 {
		return program.Usagef("--threads is %d: use 1 to 1024, or leave it out", threads)
	}
	return nil
}

func (w *World) stage(ctx context.Context, file string, f stageFlags) error {
	if err := checkThreads(f.threads); err != nil {
		return err
	}

	text, err := strictyaml.ReadFile(file)
	if err != nil {
		return err
	}
	spec, err := dataset.ParseSpec(file, text)
	if err != nil {
		return err
	}

	if f.out != "" && !stager.Remote(f.out) {
		if err := program.CheckOutFolder("--out", f.out); err != nil {
			return err
		}
	}
	if f.batch.on {
		return w.stageInBatch(ctx, file, text, spec, f)
	}
	if !stager.Remote(spec.Source) && !filepath.IsAbs(spec.Source) {
		spec.Source = filepath.Join(filepath.Dir(file), spec.Source)
	}

	bar := w.stageBar(f.json)
	s := &stager.Stager{Scratch: f.scratch, Threads: f.threads, Now: w.Now, Progress: bar.report}
	// no cloud is involved
	if f.out != "" && !stager.Remote(f.out) && !stager.Remote(spec.Source) && spec.Encodings.Like == "" {
		return w.finishStage(ctx, nil, s, spec, stager.Destination{Dir: f.out}, bar, f)
	}

	return w.with(ctx, func(c *cloud) error {
		s.Bucket = func(_ context.Context, name string) (blob.Store, error) { return c.Bucket(name), nil }
		dst, err := c.destination(f.out)
		if err != nil {
			return err
		}
		if s.Like, err = w.like(ctx, c, spec, f.json); err != nil {
			return err
		}
		return w.finishStage(ctx, c, s, spec, dst, bar, f)
	})
}

// destination returns the destination that --out names.
func (c *cloud) destination(out string) (stager.Destination, error) {
	switch {
	case out == "":
		return stager.Destination{Store: c.datasets, URL: "gs://" + c.env.DatasetsBucket}, nil
	case !stager.Remote(out):
		return stager.Destination{Dir: out}, nil
	}

	bucket, prefix, err := stager.SplitURL(out)
	if err != nil {
		return stager.Destination{}, &program.UsageError{Err: err}
	}

	store := c.Bucket(bucket)
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		if store, err = blob.Sub(store, prefix); err != nil {
			return stager.Destination{}, &program.UsageError{Err: err}
		}
	}
	return stager.Destination{Store: store, URL: out}, nil
}

func (w *World) finishStage(ctx context.Context, c *cloud, s *stager.Stager, spec *dataset.Spec, dst stager.Destination,
	bar *stageBar, f stageFlags) error {
	staged, err := s.Stage(ctx, spec, dst)
	bar.finish()
	if err != nil {
		return err
	}
	return w.staged(ctx, c, staged, dst, f)
}

// staged prints a staged dataset version, and returns a *stager.BlockedError if it must not be trained on. c is nil if
// there is no cloud.
func (w *World) staged(ctx context.Context, c *cloud, staged *stager.Staged, dst stager.Destination,
	f stageFlags) error {
	night := staged.Night
	if f.accept != "" && night != nil && night.Blocked() {
		act := w.act(f.accept)
		accepted, err := dst.Accept(ctx, night.Dataset, night.Version, nights.Acceptance{By: act.By, Why: act.Why,
			At: act.At})
		if err != nil {
			return err
		}
		night = accepted
	}

	if f.json {
		var findings []nights.Finding
		blocked := false
		if night != nil {
			findings, blocked = night.Findings, night.Blocked()
		}
		if err := w.printJSON(struct {
			Place    string           `json:"place"`
			Existed  bool             `json:"existed"`
			Blocked  bool             `json:"blocked"`
			Findings []nights.Finding `json:"findings,omitempty"`
			*dataset.Manifest
		}{staged.Place, staged.Existed, blocked, findings, staged.Manifest}); err != nil {
			return err
		}
	} else {
		w.showDataset(staged)
		w.showFindings(night)
	}

	if night == nil || !night.Blocked() {
		return nil
	}
	if c != nil && dst.Store == c.datasets { // the dataset that others train on
		w.tellStaged(ctx, c, night)
	}
	return stager.CheckNight(night, w.Now())
}

// stageBar is a progress bar on a terminal, one line per step elsewhere, and silent if the output is JSON.
type stageBar struct {
	w    *World
	mute bool
	step stager.Step
	bar  *progressbar.ProgressBar
}

func (w *World) stageBar(mute bool) *stageBar { return &stageBar{w: w, mute: mute} }

func (b *stageBar) report(step stager.Step, done, total int64) {
	if b.mute {
		return
	}

	if step != b.step {
		b.finish()
		b.step = step
		if !b.w.Terminal {
			fmt.Fprintf(b.w.Err, "%s ...\n", step)
			return
		}
		b.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(b.w.Err.Raw()),
			progressbar.OptionSetDescription(fmt.Sprintf("%-8s", step)),
			progressbar.OptionShowBytes(true), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(barThrottle))
	}

	if b.bar != nil {
		b.bar.ChangeMax64(total)
		_ = b.bar.Set64(done) // a bar that cannot be drawn is no reason to stop
	}
}

func (b *stageBar) finish() {
	if b.bar != nil {
		_ = b.bar.Finish()
		b.bar = nil
	}
}
