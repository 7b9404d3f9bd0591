package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"coppice/blob"
	"coppice/dataset"
	"coppice/launcher/internal/stager"
	"coppice/program"
)

type stageFlags struct {
	out, scratch string
	threads      int
	json         bool
	batch        batchFlags
}

func stageCommand(w *World) *cobra.Command {
	var f stageFlags
	cmd := &cobra.Command{
		Use:   "stage DATASET.yaml",
		Short: "Bin a table into a dataset version",
		Long: `Reads the table that DATASET.yaml describes (CSV or Parquet, local or gs://), bins it and stores it as a new version of
the dataset. The same input is recognised and not read again. A relative source: is relative to the folder of DATASET.yaml.`,
		Example: `  launcher stage clicks.yaml                      # into the datasets bucket
  launcher stage clicks.yaml --out data           # into the folder data/NAME/VERSION, without any cloud
  launcher stage clicks.yaml --json | jq .version
  launcher stage clicks.yaml --batch              # as a Batch job; source: gs://BUCKET/export/*.parquet`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.batch.check(cmd); err != nil {
				return err
			}
			return w.stage(cmd.Context(), args[0], f)
		},
	}

	f.batch.add(cmd)
	cmd.Flags().StringVar(&f.out, "out", "", "folder or gs://BUCKET to store into; the datasets bucket without")
	cmd.Flags().StringVar(&f.scratch, "scratch", "", "folder for temporary files; it must hold the source (if in a bucket) and the dataset")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads; all CPUs without. The dataset does not depend on them")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the manifest as JSON")
	return cmd
}

func (w *World) stage(ctx context.Context, file string, f stageFlags) error {
	if f.threads < 0 {
		return program.Usagef("--threads is %d", f.threads)
	}

	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	spec, err := dataset.ParseSpec(file, text)
	if err != nil {
		return err
	}

	if f.batch.on {
		return w.stageInBatch(ctx, file, text, spec, f)
	}
	if !stager.Remote(spec.Source) && !filepath.IsAbs(spec.Source) {
		spec.Source = filepath.Join(filepath.Dir(file), spec.Source)
	}

	bar := w.stageBar(f.json)
	s := &stager.Stager{Scratch: f.scratch, Threads: f.threads, Progress: bar.report}
	if f.out != "" && !stager.Remote(f.out) && !stager.Remote(spec.Source) { // no cloud at all
		return w.finishStage(ctx, s, spec, stager.Destination{Dir: f.out}, bar, f.json)
	}

	return w.with(ctx, func(c *cloud) error {
		s.Bucket = func(_ context.Context, name string) (blob.Store, error) { return c.Bucket(name), nil }
		dst, err := c.destination(f.out)
		if err != nil {
			return err
		}
		return w.finishStage(ctx, s, spec, dst, bar, f.json)
	})
}

// destination is what --out means.
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

func (w *World) finishStage(ctx context.Context, s *stager.Stager, spec *dataset.Spec, dst stager.Destination, bar *stageBar, asJSON bool) error {
	staged, err := s.Stage(ctx, spec, dst)
	bar.finish()
	if err != nil {
		return err
	}
	return w.staged(staged, asJSON)
}

// staged prints a dataset version at its place.
func (w *World) staged(staged *stager.Staged, asJSON bool) error {
	if asJSON {
		return w.printJSON(struct {
			Place   string `json:"place"`
			Existed bool   `json:"existed"`
			*dataset.Manifest
		}{staged.Place, staged.Existed, staged.Manifest})
	}
	w.showDataset(staged)
	return nil
}

// stageBar is a progress bar on a terminal, a line per step elsewhere, and nothing where the output is JSON.
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
		b.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(b.w.Err.Raw()), progressbar.OptionSetDescription(fmt.Sprintf("%-8s", step)),
			progressbar.OptionShowBytes(true), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(barThrottle))
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
