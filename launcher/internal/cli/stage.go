package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/blob"
	"coppice/internal/blob/folder"
	"coppice/internal/dataset"
	"coppice/internal/nights"
	"coppice/internal/notify"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/stager"
)

type stageFlags struct {
	out     string
	threads int
	day     string // the newest of a source of days
	night   string // the day of the slot that is staged; empty for none
	dryRun  bool   // only say what would be read, and what BigQuery would cost
	batch   cloudjob.Flags
}

func stageCommand(w *Setup) *cobra.Command {
	var f stageFlags
	cmd := &cobra.Command{
		Use:   "stage DATASET.yaml",
		Short: "Bin a table into a dataset version",
		Long: `Reads the table that DATASET.yaml describes (CSV, JSONL or Parquet, local or gs://), bins it and
stores it as a new version of the dataset. The same input is recognised and not read again. A relative source: is
relative to the folder of DATASET.yaml.

The table is compared with those of earlier nights: columns, rows, times, values and labels. What is unusual is
printed. If a finding blocks, the exit code is 8, and nothing is trained on the dataset until launcher datasets
accept has accepted it, with a reason. $TMPDIR needs space for the source (if in a bucket) and the dataset.`,
		Example: `  launcher stage clicks.yaml                      # into the datasets bucket
  launcher stage clicks.yaml --out data           # into the folder data/NAME/VERSION, without any cloud
  launcher stage clicks.yaml --json | jq .version
  launcher stage clicks.yaml --batch              # as a Batch job; source: gs://BUCKET/export/*.parquet`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			if err := f.batch.Check(cmd); err != nil {
				return err
			}
			return runStage(cmd.Context(), w, args[0], f)
		},
	}

	f.batch.Add(cmd)
	cmd.Flags().StringVar(&f.out, "out", "", "folder or gs://BUCKET to store into (default: the datasets bucket)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs); the dataset does not depend on them")
	cmd.Flags().StringVar(&f.day, "day", "",
		"the newest day of a source with {date:2006-01-02}, such as 2026-11-20 (default: yesterday, in UTC)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false,
		"say what would be read, and what BigQuery would cost; read nothing")
	w.jsonFlag(cmd, "print the manifest and the findings as JSON")
	return cmd
}

// checkThreads checks a --threads for which 0 stands for all CPUs.
func checkThreads(threads int) error {
	if threads < 0 || threads > 1024 {
		return program.Usagef("--threads is %d: use 1 to 1024, or leave it out", threads)
	}
	return nil
}

// runStage stages the table that the file describes into a folder or a bucket, and prints the result. With --dry-run it
// only prints what would be read. It opens a cloud only if the source or the destination is there.
func runStage(ctx context.Context, w *Setup, file string, f stageFlags) error {
	if err := checkThreads(f.threads); err != nil {
		return err
	}
	t, err := stager.ReadTable(file)
	if err != nil {
		return err
	}
	if f.out != "" && !dataset.InBucket(f.out) {
		if err := program.CheckOutFolder("--out", f.out); err != nil {
			return err
		}
	}
	if t.Day, err = f.newestDay(w, t.Spec); err != nil {
		return err
	}

	// From local files into a local folder: without a cloud.
	if f.out != "" && !dataset.InBucket(f.out) && !t.Spec.Source.AnyRemote() {
		dst := stager.Destination{Dir: f.out}
		if f.dryRun {
			return estimate(ctx, w, &stager.Stager{Threads: f.threads, Now: w.Now, Day: t.Day}, t, dst)
		}
		staged, err := stageHere(ctx, w, t, dst, stager.Stager{Threads: f.threads})
		if err != nil {
			return err
		}
		return printStaged(ctx, w, staged, dst, f)
	}

	// A local cloud is made if its folder has none yet, which withCloud alone would refuse.
	if folder, _ := w.Env.Lookup("COPPICE_LOCAL"); folder != "" && w.namesNoCloud() {
		w.local = folder
	}
	return w.withCloud(ctx, func() error {
		dst, err := w.destination(f.out)
		if err != nil {
			return err
		}
		staged, err := stageTable(ctx, w, t, dst, f)
		if err != nil || f.dryRun {
			return err
		}
		return printStaged(ctx, w, staged, dst, f)
	})
}

// stageTable stages a table while the cloud is open: in this process or, with --batch, as a job, for which the source
// has to be in a bucket. With --dry-run it prints an estimate and returns nil.
func stageTable(ctx context.Context, w *Setup, t *stager.TableSpec, dst stager.Destination,
	f stageFlags) (*stager.Staged, error) {
	if f.batch.On && t.Spec.Source.AnyLocal() {
		return nil, program.Usagef("--batch needs a source in a bucket, but the source of %s is %.100s; copy it to a "+
			"bucket first: gcloud storage cp", t.File, t.Spec.Source)
	}
	s := stager.Stager{Threads: f.threads, Bucket: w.bucket, Exports: w.exports(), Night: f.night}
	if f.dryRun {
		s.Day = t.Day
		return nil, estimate(ctx, w, &s, t, dst)
	}
	if f.batch.On {
		return stageInBatch(ctx, w, s, t, dst, f.batch)
	}
	return stageHere(ctx, w, t, dst, s)
}

// stageHere stages a table in this process and shows the progress. s has the other settings; its time, day and progress
// are set here.
func stageHere(ctx context.Context, w *Setup, t *stager.TableSpec, dst stager.Destination,
	s stager.Stager) (*stager.Staged, error) {
	bar := w.stageBar()
	s.Now, s.Day, s.Progress = w.Now, t.Day, bar.Report
	staged, err := s.Stage(ctx, t.Spec, dst)
	bar.Finish()
	return staged, err
}

// estimate prints how many bytes staging would read, and what BigQuery asks for those that it reads. Nothing is read if
// the same input was staged before; then it prints where.
func estimate(ctx context.Context, w *Setup, s *stager.Stager, t *stager.TableSpec, dst stager.Destination) error {
	in, err := s.Look(ctx, t.Spec, dst)
	if err != nil {
		return err
	}
	e := struct {
		Bytes      int64   `json:"bytes"`
		QueryBytes int64   `json:"query_bytes,omitempty"` // of them, read by BigQuery
		USD        float64 `json:"usd"`                   // for them, on demand
		Staged     string  `json:"staged,omitempty"`      // the version that it was staged as
	}{Bytes: in.Bytes, QueryBytes: in.QueryBytes}
	says := humanize.IBytes(uint64(in.Bytes)) + " would be read"
	switch {
	case in.Staged != nil:
		e.Staged, says = in.Staged.Place, "nothing would be read: it is staged as "+in.Staged.Place
	case in.QueryBytes > 0:
		e.USD, says = w.priceOf(in.QueryBytes)
	}
	return w.print(e, func() { w.printf("%s\n", says) })
}

// priceOf returns what BigQuery asks for reading so many bytes, as a number and as a sentence.
func (c *cloud) priceOf(bytes int64) (usd float64, says string) {
	usd = float64(bytes) / (1 << 40) * c.USDPerTiB
	return usd, fmt.Sprintf("BigQuery would read %s: at most %.2f USD on demand", humanize.IBytes(uint64(bytes)), usd)
}

// exports is how rows of BigQuery become files: by way of the datasets bucket. It is nil where there is none.
func (c *cloud) exports() *stager.Exports {
	if c.Warehouse == nil {
		return nil
	}
	return &stager.Exports{Open: c.Warehouse, Store: c.datasets, Bucket: c.env.DatasetsBucket}
}

// newestDay returns the newest day of a source of days: --day, or yesterday in UTC. A --day for another source is an
// error.
func (f stageFlags) newestDay(w *Setup, spec *dataset.Spec) (time.Time, error) {
	if f.day == "" {
		return w.Now().UTC().AddDate(0, 0, -1), nil
	}
	day, err := time.Parse(time.DateOnly, f.day)
	if err != nil {
		return day, program.Usagef("--day is %.40q: use a day such as 2026-11-20", f.day)
	}
	if !spec.Source.Dated() {
		return day, program.Usagef("--day has no effect: the source has no {date:2006-01-02}")
	}
	return day, nil
}

// destination returns the destination that out (--out) names: a local folder, a bucket, or a folder in a bucket. If out
// is empty, it is the deployment's datasets bucket.
func (c *cloud) destination(out string) (stager.Destination, error) {
	switch {
	case out == "":
		return stager.Destination{Store: c.datasets, URL: folder.URL(c.env.DatasetsBucket, "")}, nil
	case !dataset.InBucket(out):
		return stager.Destination{Dir: out}, nil
	}

	bucket, prefix, err := stager.SplitURL(out)
	if err != nil {
		return stager.Destination{}, problem.As(problem.Usage, err)
	}
	store := c.Bucket(bucket)
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		if store, err = blob.Sub(store, prefix); err != nil {
			return stager.Destination{}, problem.As(problem.Usage, err)
		}
	}
	return stager.Destination{Store: store, URL: out}, nil
}

// printStaged prints a staged dataset version and what staging found. If a finding blocks it, printStaged returns an
// error and, for the datasets bucket that others train on, notifies people.
func printStaged(ctx context.Context, w *Setup, staged *stager.Staged, dst stager.Destination, f stageFlags) error {
	night := staged.Night
	var findings []nights.Finding
	if night != nil {
		findings = night.Findings
	}
	blocked := night != nil && night.Blocked()
	if err := w.print(struct {
		Place    string           `json:"place"`
		Existed  bool             `json:"existed"`
		Blocked  bool             `json:"blocked"`
		Findings []nights.Finding `json:"findings,omitempty"`
		*dataset.Manifest
	}{staged.Place, staged.Existed, blocked, findings, staged.Manifest}, func() {
		w.screen().Dataset(staged)
		w.screen().Findings(night, staged.Manifest)
	}); err != nil || !blocked {
		return err
	}

	if w.cloud != nil && dst.Store == w.datasets { // the dataset that others train on
		w.sendVerdict(ctx, notify.StagedMessage(night.Dataset+"@"+night.Version, nights.Reason(findings), w.Now()),
			sweepstore.ToldOfTable(w.datasets, night.Dataset, night.Version))
	}
	return stager.CheckNight(night, w.Now(), f.out)
}
