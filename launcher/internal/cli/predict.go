package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
)

// predictFlags are also what the tasks of --batch are told, as JSON.
type predictFlags struct {
	Model, In, Out, Delimiter, Quote, Explain string
	Keep                                      []string
	Raw, Contributions, NoHeader              bool
	MaxUnseen                                 float64

	batch cloudjob.Flags
	tasks int
}

func predictCommand(w *Setup) *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:   "predict --model MODEL[@VERSION|@ALIAS] --in FILE --out FILE",
		Short: "Score a table with a registered model",
		Long: `Reads a CSV or Parquet table with the columns that the model was trained on (others are ignored) and
writes one calibrated probability per row, in the same order, into the column "prediction" (for regression, the
predicted value). For each column of ids it shows the share of values that are missing, unseen by the model or rare,
next to the shares in the dataset's held-out rows, and warns if a share is more than twice as large.

--model ./FOLDER is a version that fit --out or an estimator's save has written; no cloud is needed for it.
--contributions explains each row: for every feature, how much it adds to the raw score (its SHAP value). With
expected_score, which all rows begin with, they add up to raw_score. --explain top:3 names only the three features of
each row that add or take most, in reason_1 and reason_1_adds, reason_2 ...

Tables in a bucket (a name, a glob or a folder) are scored into one each below --out gs://BUCKET/PREFIX/, one after the
other, or with --batch by the tasks of a job in the cloud. What is there is not made again, whatever made it: after an
interruption, the same command goes on; another version or other flags need another PREFIX.
--max-unseen ends the run at the first table that has more.`,
		Example: `  launcher predict --model ctr --in today.parquet --out scored.parquet --keep user_id,ad_id
  launcher predict --model ctr@3 --in today.csv --out scored.csv --raw
  launcher predict --model ctr --in today.csv --out scored.csv --max-unseen 0.2   # writes nothing if ids have changed
  launcher predict --model ctr --in today.csv --out why.csv --keep ad_id --explain top:3
  launcher predict --model ctr@3 --in 'gs://clicks/day=26/*.parquet' --out gs://scored/day=26/
  launcher predict --model ctr@3 --in gs://clicks/year/ --out gs://DATASETS/ctr-3/ --batch --tasks 20 --spot`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.batch.Check(cmd); err != nil {
				return err
			}
			if f.tasks < 1 || f.tasks > 1000 || !f.batch.On && cmd.Flags().Changed("tasks") {
				return program.Usagef("--tasks is for --batch, and at most 1,000")
			}
			return runPredict(cmd.Context(), w, f)
		},
	}

	cmd.Flags().StringVar(&f.Model, "model", "", "registered model, or a saved version as ./FOLDER (required)")
	cmd.Flags().StringVar(&f.In, "in", "", "table to score: a file, a glob or a folder, also gs:// (required)")
	cmd.Flags().StringVar(&f.Out, "out", "", "file to write: .csv, .tsv or .parquet; or gs://BUCKET/PREFIX/ (required)")
	cmd.Flags().StringSliceVar(&f.Keep, "keep", nil, "columns of the table to repeat in the output")
	cmd.Flags().BoolVar(&f.Raw, "raw", false, "also write the raw score")
	cmd.Flags().BoolVar(&f.Contributions, "contributions", false,
		"also write what each feature adds to the raw score; a row takes up to a few milliseconds")
	cmd.Flags().StringVar(&f.Explain, "explain", "", "top:N also writes the N features that add or take most, per row")
	cmd.Flags().StringVar(&f.Delimiter, "delimiter", "", "delimiter of delimited text (default: by the file's name)")
	cmd.Flags().StringVar(&f.Quote, "quote", "",
		"none if a quote in delimited text is an ordinary character, like csv: {quote: none} for staging")
	cmd.Flags().BoolVar(&f.NoHeader, "no-header", false,
		"the first line of delimited text is data; columns are c0, c1 ...")
	cmd.Flags().Float64Var(&f.MaxUnseen, "max-unseen", 1,
		"fail, and write nothing, if in some column the share of unseen values exceeds the usual share by more than "+
			"this")
	f.batch.Add(cmd, "score the tables of a bucket")
	cmd.Flags().IntVar(&f.tasks, "tasks", 1, "tasks of --batch, each on a machine of its own, which share the tables")
	w.jsonFlag(cmd, "print a summary as JSON")
	for _, name := range []string{"model", "in", "out"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

func runPredict(ctx context.Context, w *Setup, f predictFlags) error {
	// Check the flags before fetching anything.
	if !(f.MaxUnseen >= 0 && f.MaxUnseen <= 1) {
		return program.Usagef("--max-unseen %v: give a share of the rows, from 0 to 1", f.MaxUnseen)
	}
	if f.Delimiter != "" && utf8.RuneCountInString(f.Delimiter) != 1 || strings.ContainsAny(f.Delimiter, "\"\r\n") {
		return program.Usagef("--delimiter %q: give one character, no quote or line break", f.Delimiter)
	}
	if _, err := predict.TopOf(f.Explain); err != nil {
		return err
	}
	if f.Quote != "" && f.Quote != dataset.QuoteNone {
		return program.Usagef("--quote %q: use %s, or leave it out", f.Quote, dataset.QuoteNone)
	}

	inBucket := dataset.InBucket(f.In)
	if inBucket != dataset.InBucket(f.Out) || inBucket && !strings.HasSuffix(f.Out, "/") {
		return program.Usagef("--in %s --out %s: tables in a bucket are scored into a bucket, --out "+
			"gs://BUCKET/PREFIX/, and local ones into a local file", f.In, f.Out)
	}
	if !inBucket {
		if err := program.CheckOutFile("--out", f.Out); err != nil {
			return err
		}
	}

	if f.batch.On && !inBucket {
		return program.Usagef("--batch is for tables in a bucket")
	}
	if _, number, _ := strings.Cut(f.Model, "@"); inBucket &&
		(number == "" || strings.Trim(number, "0123456789") != "") {
		return program.Usagef("--model %s: give MODEL@NUMBER for tables in a bucket, so that a run that goes on after "+
			"an interruption has the same version", f.Model)
	}
	if strings.ContainsAny(f.Model, `/\`) { // no model has such a name
		r, v, err := registry.Exported(ctx, f.Model)
		if err != nil {
			return fmt.Errorf("--model %s: %w", f.Model, err)
		}
		return predictWith(ctx, w, r, v, f)
	}
	return w.withVersion(ctx, f.Model, func(v registry.Version) error {
		if f.batch.On {
			return predictInBatch(ctx, w, v, f)
		}
		return predictWith(ctx, w, w.registry, v, f)
	})
}

// request is what is to be scored.
func (f *predictFlags) request(s *scorer.Scorer) (predict.Request, error) {
	header := !f.NoHeader
	top, err := predict.TopOf(f.Explain)
	return predict.Request{Scorer: s, In: f.In, Out: f.Out, Keep: f.Keep, Raw: f.Raw, Contributions: f.Contributions,
		Explain: top, MaxUnseen: f.MaxUnseen, CSV: dataset.CSVSpec{Delimiter: f.Delimiter, Header: &header,
			Quote: f.Quote}}, err
}

// predictWith scores the table with a version.
func predictWith(ctx context.Context, w *Setup, r *registry.Registry, v registry.Version, f predictFlags) error {
	s, err := scorer.OpenMapped(ctx, r, v, w.levelsCache())
	if err != nil {
		return err
	}
	defer s.Close()

	q, err := f.request(s)
	if err != nil {
		return err
	}
	var bar *progressbar.ProgressBar
	if w.Terminal && !w.asJSON {
		bar = show.NewBar(w.Err, -1, progressbar.OptionSetDescription("rows"), progressbar.OptionShowCount(),
			progressbar.OptionShowIts())
		q.Progress = func(rows int64) { _ = bar.Set64(rows) }
	}
	done, err := w.predict(ctx, q)
	if bar != nil {
		_ = bar.Finish()
	}
	if err != nil {
		return err
	}
	return w.print(map[string]any{"model": v.Model, "version": v.Number, "rows": done.Rows, "out": f.Out,
		"inputs": done.Inputs, "warnings": done.Warnings()}, func() {
		w.screen().Inputs(done)
		for _, text := range done.Warnings() {
			fmt.Fprintf(w.Err, "warning: %s\n", text)
		}
		w.printf("%s rows scored with %s@%d: %s\n", humanize.Comma(done.Rows), v.Model, v.Number, f.Out)
	})
}

// predict scores local files, or those of a bucket.
func (w *Setup) predict(ctx context.Context, q predict.Request) (*predict.Result, error) {
	if !dataset.InBucket(q.In) {
		return predict.Run(ctx, q)
	}
	if w.cloud == nil {
		return nil, program.Usagef("--in %s: name a registered model to score tables in a bucket", q.In)
	}
	b, err := w.tables(q)
	if err != nil {
		return nil, err
	}
	done, err := b.Run(ctx)
	if err == nil && !w.asJSON {
		w.printf("tables scored: %d; scored before: %d\n", b.Scored, b.WereScored)
	}
	return done, err
}

// tables are those of a bucket that a request names.
func (w *Setup) tables(q predict.Request) (*predict.Bucket, error) {
	from, pattern, err := stager.SplitURL(q.In)
	if err != nil {
		return nil, err
	}
	to, prefix, err := stager.SplitURL(q.Out)
	if err != nil {
		return nil, err
	}
	return &predict.Bucket{Request: q, From: w.Bucket(from), To: w.Bucket(to), Pattern: pattern, Prefix: prefix,
		Same: from == to}, nil
}

// levelsCache is the folder in which levels of models are cached between predictions: in the user's cache folder, or
// else in the system's folder for temporary files.
func (w *Setup) levelsCache() string {
	parent := os.TempDir()
	if home, ok := w.Env.Lookup("HOME"); ok && home != "" {
		parent = filepath.Join(home, ".cache")
	}
	if cache, ok := w.Env.Lookup("XDG_CACHE_HOME"); ok && cache != "" {
		parent = cache
	}
	return filepath.Join(parent, "coppice", "levels")
}
