package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/program"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/draft"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/quote"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

type fitFlags struct {
	draft.Request
	minutes     float64
	specs, page string
	out, data   string
	where       string
	trialed     bool
}

// Where a fit runs.
const (
	whereLocal = "local"
	whereBatch = "batch"
)

// LocalFolder is where the local cloud keeps everything, unless COPPICE_LOCAL says otherwise.
const LocalFolder = "coppice-data"

func fitCommand(w *Setup) *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit TABLE... --label COLUMN",
		Short: "Train a model on a table, without writing a spec",
		Long: `Reads a table (CSV, JSONL or Parquet; files, globs or folders), decides what a dataset.yaml and a
sweep.yaml would say, and runs them: what the label means, by what the rows are split (a time, a key that rows
repeat, or at random), which ids are encoded, where the search begins. What was decided is printed, and saved by
--save-specs as the two files, with which launcher stage and launcher sweep train the same model.

Without a cloud in the environment it runs on a local one in the folder coppice-data (--data, or COPPICE_LOCAL),
which keeps datasets, sweeps and models. Later commands find it there: launcher predict, registry, console. Ctrl-C
ends the search; the same command goes on where it was. The exit code is 0 once a version is registered, whether
it became the champion or not.`,
		Example: `  launcher fit clicks.csv --label is_click
  launcher fit visits.parquet --label bought --time ts --minutes 20
  launcher fit exports/ --label churned --positive yes --drop row_id --save-specs specs
  launcher fit results.csv --label relevance --group query_id     # learns the order within each query
  launcher fit clicks.parquet --label click --where batch --name trial   # trains on Google Cloud
  launcher fit gs://ads/clicks/ --label click --where batch --name trial  # and stages there, too`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Sources = args
			f.trialed = cmd.Flags().Changed("trials")
			if err := f.check(); err != nil {
				return err
			}
			w.local = cmp.Or(f.data, w.namedFolder())
			if f.where == whereBatch {
				w.local = inCloud
			}
			return w.withCloud(cmd.Context(), func() error { return runFit(cmd.Context(), w, f) })
		},
	}

	fs := cmd.Flags()
	fs.StringVar(&f.Label, "label", "", "column to predict (required)")
	fs.StringVar(&f.Positive, "positive", "", "value of the label that means yes (default: 1, yes, true, or the rarer)")
	fs.StringVar(&f.Time, "time", "",
		"column of times: older rows train, newer ones judge (default: the only such column)")
	fs.StringVar(&f.Key, "key", "", "column whose rows stay on one side of the split, such as user_id")
	fs.StringVar(&f.Group, "group", "",
		"column whose rows are to be ordered by the label, such as query_id: learns a ranking")
	fs.StringVar(&f.Parts, "split", "", "column that says train, valid, calib or test of each row, or random")
	fs.StringArrayVar(&f.Drop, "drop", nil, "columns that are not features; repeatable, or with commas")
	fs.StringArrayVar(&f.Categorical, "categorical", nil,
		"columns of numbers that are names; repeatable, or with commas")
	fs.StringArrayVar(&f.Missing, "missing", nil, "another text that stands for a missing value; repeatable")
	fs.StringArrayVar(&f.Format, "format", nil, "how texts are read: COLUMN=number, decimal_comma, dmy or mdy")
	fs.StringVar((*string)(&f.DateFormat), "date-format", "", "dmy or mdy, for dates whose values do not tell")
	fs.BoolVar(&f.NoHeader, "no-header", false, "the first line of delimited text is data; columns are c0, c1 ...")
	fs.StringVar(&f.Name, "name", "", "name of dataset, sweep and model (default: after the first file)")
	fs.StringVar(&f.Objective, "objective", "", "how a number or an order is learnt: "+
		strings.Join(gbt.Objectives()[1:], ", ")+"; with a number, as in quantile@0.5")
	fs.StringVar(&f.Metric, "metric", "",
		"what is optimised (default: log_loss, rmse for numbers, ndcg@10 for orders, or the objective's)")
	fs.StringVar(&f.ParamsFile, "params", "",
		"file of parameters that every trial has: YAML, or LightGBM's if it ends in .conf")
	fs.Float64Var(&f.minutes, "minutes", 5, "how long to search, once staged; what is trained by then counts")
	fs.IntVar(&f.Trials, "trials", 0, "configurations to try (default: ten a minute)")
	fs.IntVar(&f.Seed, "seed", 0, "another seed draws other configurations, and splits at random by other draws")
	fs.StringVar(&f.Weight, "weight", "", "column of row weights, 0 or more")
	fs.StringVar(&f.out, "out", "", "folder to copy the registered version to")
	fs.StringVar(&f.specs, "save-specs", "", "folder to save dataset.yaml and sweep.yaml in")
	fs.StringVar(&f.page, "page", "", "file for the sweep's page (default: in the local cloud's folder)")
	fs.StringVar(&f.data, "data", "", "folder of the local cloud (default: "+LocalFolder+")")
	fs.StringVar(&f.where, "where", whereLocal, "local, or batch for Google Cloud")
	w.jsonFlag(cmd, "print JSON: an object per change, and the result as the last one")
	_ = cmd.MarkFlagRequired("label")
	return cmd
}

// coresOf returns how many cores the specs' machine has: as many as this one (here), but on Google Cloud at most 8,
// which a new account may have.
func coresOf(where string, here int) int {
	if where == whereBatch {
		return min(here, 8)
	}
	return here
}

// maxMinutes is a week.
const maxMinutes = 7 * 24 * 60

// check rejects flags that are out of range or do not go together, before a table is read. It also sets f.Limit, the
// time of the search, from --minutes, and f.Cores.
func (f *fitFlags) check() error {
	switch {
	case !(f.minutes > 0 && f.minutes <= maxMinutes):
		return program.Usagef("--minutes %v: use more than 0, up to %d", f.minutes, maxMinutes)
	case f.trialed && (f.Trials < 1 || f.Trials > 1000):
		return program.Usagef("--trials %d: use 1 to 1000", f.Trials)
	case f.where != whereLocal && f.where != whereBatch:
		return program.Usagef("--where %q: use local or batch", f.where)
	case slices.ContainsFunc(f.Sources, dataset.InBucket) && f.where == whereLocal:
		return program.Usagef("%s: a table in a bucket is trained on in its cloud, with --where batch --name NAME; or "+
			"copy it here", f.Sources[slices.IndexFunc(f.Sources, dataset.InBucket)])
	case f.Seed < 0:
		return program.Usagef("--seed %d: use 0 or more", f.Seed)
	case f.where == whereBatch && f.Name == "":
		return program.Usagef("--where batch needs --name: dataset and model go where those of the nights are")
	case f.where == whereBatch && f.data != "":
		return program.Usagef("--data is the local cloud's folder, and --where batch uses Google's")
	}
	if f.Name != "" {
		if err := sweep.CheckName("model", f.Name); err != nil {
			return program.Usagef("--name: %v", err)
		}
	}
	if err := checkNew(f.out); err != nil {
		return err
	}
	if f.page != "" {
		if err := program.CheckOutFile("--page", f.page); err != nil {
			return err
		}
	}
	if f.specs != "" {
		if err := program.CheckOutFolder("--save-specs", f.specs); err != nil {
			return err
		}
	}
	f.Limit = max(time.Second, time.Duration(math.Round(f.minutes*60))*time.Second)
	f.Cores = coresOf(f.where, runtime.NumCPU())
	return nil
}

// checkNew returns an error if the folder of --out exists, since it has to be new, or if that cannot be known. ""
// stands for a flag that was not given.
func checkNew(folder string) error {
	if folder == "" {
		return nil
	}
	switch _, err := os.Lstat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return program.Usagef("--out: %v", err)
	}
	return program.Usagef("--out %s exists: give a new folder", folder)
}

// checkLabel returns an error if the registered model of the name predicts another column than label: its versions
// would be compared with a champion that predicts something else. A model that does not exist, or cannot be read, is no
// error.
func checkLabel(ctx context.Context, w *Setup, name, label string) error {
	var trainedOn struct{ Label struct{ Column string } }
	v, err := w.registry.Get(ctx, name, "")
	if err == nil {
		err = w.registry.ReadJSON(ctx, v, scorer.FileDataset, &trainedOn)
	}
	if err == nil && trainedOn.Label.Column != label {
		return program.Usagef("the model %q predicts %s: give the model of %s another name (--name)", name,
			trainedOn.Label.Column, label)
	}
	return nil
}

// runFit drafts the two specs for the table, stages it, plans and sweeps, and prints the result. What was decided is
// printed and checked before anything is staged. It writes the sweep's page, and what --save-specs and --out ask for.
// It is an error if no trial won.
func runFit(ctx context.Context, w *Setup, f fitFlags) error {
	// Decide what the specs say, and check that before the work of staging.
	d, err := makeDraft(ctx, w, f)
	if err != nil {
		return err
	}
	if err := checkLabel(ctx, w, d.Name, f.Label); err != nil {
		return err
	}
	if !w.asJSON {
		w.screen().Found(d.Found)
	}
	spec, err := sweep.ParseSpec("the sweep.yaml of --save-specs", d.Sweep, plan.Vocabulary())
	if err != nil {
		return err
	}

	// Stage and plan, which --minutes do not count, and sweep.
	began := w.Now()
	staged, err := stageDraft(ctx, w, d, f)
	if err != nil {
		return err
	}
	planned, err := planDraft(ctx, w, d, spec, staged.Manifest, f)
	if err != nil {
		return err
	}
	if took := w.Now().Sub(began); took > 10*time.Second {
		w.say("%-9s  took %s; the %s of --minutes begin now\n", "staging", took.Round(time.Second), f.Limit)
	}
	if err := d.Save(f.specs); err != nil {
		return err
	}
	p, st, err := sweepDraft(ctx, w, planned)
	if err != nil {
		return err
	}
	c := st.Conclusion
	if c.Outcome != sweep.OutcomeWinner {
		return endedWithout(c, st.Trouble, f.Limit)
	}

	// Gather what is said of the result, and write the page and the folder of --out.
	view, err := w.pages().Sweep(ctx, string(p.Sweep))
	if err != nil {
		return err
	}
	fitted := show.NewFit(d, p, st, view)
	// Two warnings, if they are due: the time was short, and the score is too good to be true.
	fitted.Hurry(spec.Trials, f.Limit, st.Board.Rows, st.Trouble)
	fitted.AskOfLeak(staged.Manifest.Encoding())
	fitted.Page = cmp.Or(f.page, pageIn(w, p.Sweep))
	if fitted.Page != "" {
		if _, err := writePage(fitted.Page, view); err != nil {
			return err
		}
	}
	addTable(fitted, staged.Manifest)
	if f.data != LocalFolder { // later commands find the usual folder, but have to be told of another
		fitted.Data = f.data
	}
	if f.out != "" {
		if err := exportFit(ctx, w, c, f.out); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		fitted.Folder = f.out
	}
	fitted.Without = fitted.WithoutFeatures()
	if w.asJSON { // one line, after those of the watched sweep
		return json.NewEncoder(w.Out).Encode(fitted)
	}
	w.screen().Fitted(fitted)
	return nil
}

// endedWithout returns the error that a fit has no winner, with what to do. trouble held a task up, or has ended it.
func endedWithout(c *sweep.Conclusion, trouble *sweep.Trouble, limit time.Duration) error {
	err := sweepview.NoWinner(c, "")
	switch {
	case trouble != nil:
		return fmt.Errorf("%w\nMend that, and fit again with another --seed: this sweep stays as it has ended", err)
	case c.Done+c.Failed == 0:
		return fmt.Errorf("%w\nNo trial ended within %s: give more --minutes", err, limit)
	}
	return err
}

// exportFit writes the version that a sweep has registered to the folder of --out.
func exportFit(ctx context.Context, w *Setup, c *sweep.Conclusion, folder string) error {
	v, err := w.registry.Get(ctx, c.Model, strconv.Itoa(c.Version))
	if err != nil {
		return err
	}
	return w.registry.Export(ctx, v, folder)
}

// addTable adds to a fit's result what staging warned of, and what it took each column of the table for.
func addTable(fitted *show.Fit, m *dataset.Manifest) {
	for _, line := range show.Told(m.About.Warnings, true) {
		fitted.Warnings = append(fitted.Warnings, strings.TrimPrefix(strings.TrimPrefix(line, "warning: "), "hint: "))
	}
	for _, c := range m.Features {
		if c.From == nil {
			fitted.Types = append(fitted.Types, show.Typed{Name: c.Name, Kind: c.Kind, Because: c.Why})
		}
	}
}

// mostLookedAt bounds the bytes of a table in a bucket that is copied here to be looked at.
const mostLookedAt = 16 << 30

// makeDraft looks at the table and returns the specs for it. A table in a bucket is copied into temporary files for
// that, which are gone when makeDraft returns; one of more than mostLookedAt bytes is an error.
func makeDraft(ctx context.Context, w *Setup, f fitFlags) (d *draft.Draft, err error) {
	if !slices.ContainsFunc(f.Sources, dataset.InBucket) {
		return draft.Make(ctx, f.Request)
	}
	bar := w.stageBar()
	defer bar.Finish()
	s := stager.Stager{Bucket: w.bucket, Progress: bar.Report}
	in, err := s.Find(ctx, &dataset.Spec{Source: dataset.SourceSpec{Files: f.Sources}}) // the rest is yet to be drafted
	if err != nil {
		return nil, err
	}
	if in.Bytes > mostLookedAt {
		return nil, program.Usagef("%s: fit copies a table here to look at it, and this one has %s; let it look at a "+
			"part, with --save-specs, and give the rest as source in dataset.yaml", f.Sources[0],
			humanize.IBytes(uint64(in.Bytes)))
	}
	err = s.WithTable(ctx, in, func(files []table.File) error {
		bar.Finish() // all is copied; looking at it shows no progress
		f.Files = files
		d, err = draft.Make(ctx, f.Request)
		return err
	})
	return d, err
}

// stageDraft stages the table: here or, if it is in a bucket, as a Batch job. It prints what is unusual in comparison
// with an earlier table of the name. If that blocks the table, a fit in the local cloud accepts it, since somebody is
// watching. In Google's cloud, where scheduled nights run, it is an error until a person accepts it.
func stageDraft(ctx context.Context, w *Setup, d *draft.Draft, f fitFlags) (*stager.Staged, error) {
	spec, err := dataset.ParseSpec("the dataset.yaml of --save-specs", d.Dataset)
	if err != nil {
		return nil, err
	}
	t := &stager.TableSpec{File: "dataset.yaml", Text: d.Dataset, Spec: spec, Day: w.Now().UTC().AddDate(0, 0, -1)}
	dst, err := w.destination("")
	if err != nil {
		return nil, err
	}
	var how stageFlags
	how.batch.On, how.batch.Machine = !spec.Source.AnyLocal(), cloudjob.DefaultMachine
	staged, err := stageTable(ctx, w, t, dst, how)
	if err != nil {
		return nil, err
	}
	if !w.asJSON {
		w.screen().Notable(staged)
		w.screen().Findings(staged.Night, staged.Manifest)
	}
	if f.where == whereBatch {
		return staged, stager.CheckNight(staged.Night, w.Now(), "")
	}
	if staged.Night != nil && staged.Night.Blocked() {
		_, err = acceptNight(ctx, w, dst, staged.Night, "launcher fit: started by hand", false)
	}
	return staged, err
}

// forTraining is the share of --minutes that the trials are expected to take, by a quote that lets every tree grow; the
// rest is for the final training.
const forTraining = 0.8

// planDraft plans the draft's sweep on the dataset m, with its quote. Unless --trials says how many, it has no more
// trials than --minutes are expected to allow, at least one; if that is fewer than the draft has, it says so.
func planDraft(ctx context.Context, w *Setup, d *draft.Draft, spec *sweep.Spec, m *dataset.Manifest, f fitFlags) (
	*plan.Planned, error) {
	prices, err := w.readPrices()
	if err != nil {
		return nil, err
	}
	here := quote.Assumed()
	here.Startup, here.Preemptions = 0, 0 // this machine runs already, and stays
	planned := func(spec *sweep.Spec) (*plan.Planned, error) {
		p, err := planOn(ctx, w, spec, m, "")
		if err != nil {
			return nil, err
		}
		// The limit is meant to end the search, so that a quote beyond it is no reason to refuse.
		return p, (&quote.Estimator{Plan: p, Manifest: m, Prices: prices, Region: w.env.Location,
			Assumptions: here}).Price()
	}

	// Plan the draft's trials. If these are expected to take too long, plan fewer, in proportion.
	p, err := planned(spec)
	if err != nil || f.trialed {
		return p, err
	}
	expected := time.Duration(p.Quote.Hours.Expected * float64(time.Hour))
	allowed := max(1, int(float64(spec.Trials)*forTraining*float64(f.Limit)/float64(max(expected, 1))))
	if allowed >= spec.Trials {
		return p, nil
	}
	w.say("%-9s  %d, as many as %s are expected to allow\n", "trials", allowed, f.Limit)
	if spec, err = d.WithTrials(allowed); err != nil {
		return nil, err
	}
	return planned(spec)
}

// sweepDraft starts the sweep, or attaches to it, and shows it until its end. It returns its plan and last state.
func sweepDraft(ctx context.Context, w *Setup, p *plan.Planned) (*sweep.Plan, sweepview.State, error) {
	if _, err := launchSweep(ctx, w, p, false); err != nil {
		return nil, sweepview.State{}, err
	}
	sp, st, err := watchUntilEnd(ctx, w, p.Sweep)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w; the same command goes on with sweep %s", program.ErrInterrupted, p.Sweep)
	}
	return sp, st, err
}

// pageIn is where the local cloud's folder has the page of a sweep; empty on another cloud.
func pageIn(w *Setup, id sweep.ID) string {
	if folder := w.localFolder(); folder != "" && w.emulated() {
		return filepath.Join(folder, "pages", string(id)+".html")
	}
	return ""
}
