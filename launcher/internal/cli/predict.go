package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
)

type predictFlags struct {
	model, in, out, delimiter, quote, explain string
	keep                                      []string
	raw, contributions, noHeader              bool
	maxUnseen                                 float64
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
other. What is there is not made again, whatever made it: after an interruption, the same command goes on; another
version or other flags need another PREFIX.
--max-unseen ends the run at the first table that has more.`,
		Example: `  launcher predict --model ctr --in today.parquet --out scored.parquet --keep user_id,campaign_id
  launcher predict --model ctr@3 --in today.csv --out scored.csv --raw
  launcher predict --model ctr --in today.csv --out scored.csv --max-unseen 0.2   # writes nothing if ids have changed
  launcher predict --model ctr --in today.csv --out why.csv --keep campaign_id --explain top:3
  launcher predict --model ctr@3 --in 'gs://clicks/day=26/*.parquet' --out gs://scored/day=26/`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPredict(cmd.Context(), w, f)
		},
	}

	cmd.Flags().StringVar(&f.model, "model", "", "registered model, or a saved version as ./FOLDER (required)")
	cmd.Flags().StringVar(&f.in, "in", "", "table to score: a file, a glob or a folder, also gs:// (required)")
	cmd.Flags().StringVar(&f.out, "out", "", "file to write: .csv, .tsv or .parquet; or gs://BUCKET/PREFIX/ (required)")
	cmd.Flags().StringSliceVar(&f.keep, "keep", nil, "columns of the table to repeat in the output")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "also write the raw score")
	cmd.Flags().BoolVar(&f.contributions, "contributions", false,
		"also write what each feature adds to the raw score; a row takes up to a few milliseconds")
	cmd.Flags().StringVar(&f.explain, "explain", "", "top:N also writes the N features that add or take most, per row")
	cmd.Flags().StringVar(&f.delimiter, "delimiter", "", "delimiter of delimited text (default: by the file's name)")
	cmd.Flags().StringVar(&f.quote, "quote", "",
		"none if a quote in delimited text is an ordinary character, like csv: {quote: none} for staging")
	cmd.Flags().BoolVar(&f.noHeader, "no-header", false,
		"the first line of delimited text is data; columns are c0, c1 ...")
	cmd.Flags().Float64Var(&f.maxUnseen, "max-unseen", 1,
		"fail, and write nothing, if in some column the share of unseen values exceeds the usual share by more than "+
			"this")
	w.jsonFlag(cmd, "print a summary as JSON")
	for _, name := range []string{"model", "in", "out"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

// runPredict checks the flags, finds the version, in a folder or the registry, and scores with it. For tables in a
// bucket the flag has to name the version by its number: an alias may move between two runs.
func runPredict(ctx context.Context, w *Setup, f predictFlags) error {
	// Check the flags before fetching anything.
	if !(f.maxUnseen >= 0 && f.maxUnseen <= 1) {
		return program.Usagef("--max-unseen %v: give a share of the rows, from 0 to 1", f.maxUnseen)
	}
	if f.delimiter != "" && utf8.RuneCountInString(f.delimiter) != 1 || strings.ContainsAny(f.delimiter, "\"\r\n") {
		return program.Usagef("--delimiter %q: give one character, no quote or line break", f.delimiter)
	}
	if _, err := predict.TopOf(f.explain); err != nil {
		return err
	}
	if f.quote != "" && f.quote != dataset.QuoteNone {
		return program.Usagef("--quote %q: use %s, or leave it out", f.quote, dataset.QuoteNone)
	}

	// In and out are both in buckets, or both here.
	inBucket := dataset.InBucket(f.in)
	if inBucket != dataset.InBucket(f.out) || inBucket && !strings.HasSuffix(f.out, "/") {
		return program.Usagef("--in %s --out %s: tables in a bucket are scored into a bucket, --out "+
			"gs://BUCKET/PREFIX/, and local ones into a local file", f.in, f.out)
	}
	if !inBucket {
		if err := program.CheckOutFile("--out", f.out); err != nil {
			return err
		}
	}

	_, ref, _ := strings.Cut(f.model, "@")
	numbered := ref != "" && strings.Trim(ref, "0123456789") == ""
	if inBucket && !numbered {
		return program.Usagef("--model %s: give MODEL@NUMBER for tables in a bucket, so that a run that goes on after "+
			"an interruption has the same version", f.model)
	}

	// Find the version: in a folder if the name is a path, which no model's is, else in the registry.
	if strings.ContainsAny(f.model, `/\`) {
		r, v, err := registry.Exported(ctx, f.model)
		if err != nil {
			return fmt.Errorf("--model %s: %w", f.model, err)
		}
		return predictWith(ctx, w, r, v, f)
	}
	return w.withVersion(ctx, f.model, func(v registry.Version) error {
		return predictWith(ctx, w, w.registry, v, f)
	})
}

// predictWith scores the table of --in with the version v of the registry r. It prints what the columns of ids are
// like, and warns of those with more missing or unseen values than is usual.
func predictWith(ctx context.Context, w *Setup, r *registry.Registry, v registry.Version, f predictFlags) error {
	s, err := scorer.OpenMapped(ctx, r, v, w.levelsCache())
	if err != nil {
		return err
	}
	defer s.Close()

	top, err := predict.TopOf(f.explain)
	if err != nil {
		return err
	}
	header := !f.noHeader
	q := predict.Request{Scorer: s, In: f.in, Out: f.out, Keep: f.keep, Raw: f.raw, Contributions: f.contributions,
		Explain: top, MaxUnseen: f.maxUnseen, CSV: dataset.CSVSpec{Delimiter: f.delimiter, Header: &header,
			Quote: f.quote}}
	line := show.NewStatusLine(w.World)
	if w.Terminal && !w.asJSON {
		q.Progress = func(rows int64) { line.Show(humanize.Comma(rows) + " rows") }
	}
	done, err := w.predict(ctx, q)
	line.Clear()
	if err != nil {
		return err
	}
	return w.print(map[string]any{"model": v.Model, "version": v.Number, "rows": done.Rows, "out": f.out,
		"inputs": done.Inputs, "warnings": done.Warnings()}, func() {
		w.screen().Inputs(done)
		for _, text := range done.Warnings() {
			w.warn("warning: %s\n", text)
		}
		w.printf("%s %s scored with %s: %s\n", humanize.Comma(done.Rows),
			english.PluralWord(int(done.Rows), "row", ""), v.Called(), f.out)
	})
}

// predict scores local files into one file, or those tables of a bucket that are not scored yet into one each. For the
// latter a cloud has to be open, which it is not for a model in a folder.
func (w *Setup) predict(ctx context.Context, q predict.Request) (*predict.Result, error) {
	if !dataset.InBucket(q.In) {
		return predict.Run(ctx, q)
	}
	if w.cloud == nil {
		return nil, program.Usagef("--in %s: name a registered model to score tables in a bucket", q.In)
	}
	from, pattern, err := stager.SplitURL(q.In)
	if err != nil {
		return nil, err
	}
	to, prefix, err := stager.SplitURL(q.Out)
	if err != nil {
		return nil, err
	}
	b := &predict.Bucket{Request: q, From: w.Bucket(from), To: w.Bucket(to), Pattern: pattern, Prefix: prefix,
		Same: from == to}
	done, err := b.Run(ctx)
	if err == nil && !w.asJSON {
		w.printf("tables scored: %d; scored before: %d\n", b.Scored, b.WereScored)
	}
	return done, err
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
