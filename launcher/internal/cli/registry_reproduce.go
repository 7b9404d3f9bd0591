package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/reproduce"
	"coppice/launcher/internal/stager"
)

type reproduceFlags struct {
	dataset, scratch string
	threads          int
	json             bool
	batch            batchFlags
}

func registryReproduceCommand(w *World) *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce MODEL[@VERSION|@ALIAS]",
		Short: "Train a version again and compare the bytes",
		Long: `Fetches the dataset that the version was trained on, trains its trial again with the parameters of its plan, calibrates it again, and
compares the files with the registered ones: the same bytes, or where they first differ (exit code 5). Nothing is written to the registry. The
number of threads does not matter; another build of Coppice may grow other trees, and then the report names both builds. With --batch all of
this happens in a Batch job of one task, next to the dataset.`,
		Example: "  launcher registry reproduce ctr@12\n  launcher registry reproduce ctr --dataset " +
			"build/data/clicks/0123456789ab\n  launcher registry reproduce ctr@12 --batch --spot",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkThreads(f.threads); err != nil {
				return err
			}
			model, ref, err := splitRef(args[0])
			if err != nil {
				return err
			}
			if err := f.batch.check(cmd, "dataset", "scratch", "threads"); err != nil {
				return err
			}

			return w.with(cmd.Context(), func(c *cloud) error {
				v, err := c.comparable(cmd.Context(), model, ref)
				if err != nil {
					return err
				}
				grow := w.reproduceHere
				if f.batch.on {
					grow = w.reproduceInBatch
				}
				r, err := grow(cmd.Context(), c, v, f)
				if err != nil {
					return err
				}
				return w.reproduced(v, r, f.json)
			})
		},
	}

	cmd.Flags().StringVar(&f.dataset, "dataset", "", "folder that already has the dataset version (default: fetch it)")
	cmd.Flags().StringVar(&f.scratch, "scratch", "",
		"folder for the fetched dataset (default: the system's temporary folder)")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads (default: all CPUs)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	f.batch.add(cmd, "train")
	return cmd
}

// differsError reports a version that was reproduced with different bytes.
type differsError struct{ msg string }

func (e *differsError) Error() string { return e.msg }

// IsConflict says that something else exists.
func (*differsError) IsConflict() bool { return true }

// grown rejects a version that cannot be trained again.
func (v compared) grown() error {
	if v.plan == nil {
		return &reproduce.Error{Msg: v.name() + " has no plan among its files, so it was not registered by a sweep"}
	}
	return nil
}

func (v compared) name() string { return fmt.Sprintf("%s@%d", v.Model, v.Number) }

// reproduceHere trains the version on this machine.
func (w *World) reproduceHere(ctx context.Context, c *cloud, v compared, f reproduceFlags) (*reproduce.Report, error) {
	if err := v.grown(); err != nil {
		return nil, err
	}
	q := reproduce.Request{Plan: v.plan, Files: map[string][]byte{}, Dir: f.dataset, Threads: f.threads}

	var result sweep.Result
	if err := c.readJSONFile(ctx, v.Version, scorer.FileResult, &result); err != nil {
		return nil, err
	}
	q.Trial, q.Params = result.Trial, result.Params
	if result.From != nil {
		q.Lineage = result.From.Lineage
	}
	for _, file := range []string{scorer.FileModel, scorer.FileFeatures, scorer.FileLevels, scorer.FileCalibrator} {
		if _, ok := v.File(file); !ok {
			continue
		}
		data, err := c.registry.ReadFile(ctx, v.Version, file)
		if err != nil {
			return nil, err
		}
		q.Files[file] = data
	}

	if err := c.inputOf(ctx, v.plan, &q); err != nil {
		return nil, err
	}

	if q.Dir == "" {
		dir, err := w.fetchDataset(ctx, c, v.manifest, f.scratch)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		q.Dir = dir
	} else if _, err := dataset.Check(ctx, q.Dir, nil); err != nil {
		return nil, err
	}

	if w.Terminal && !f.json {
		bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(w.Err.Raw()),
			progressbar.OptionSetDescription("trees"),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(barThrottle))
		defer func() { _ = bar.Finish() }()
		q.OnTree = func(gbt.Progress) error { return bar.Add(1) }
	}
	r, err := reproduce.Run(ctx, q)
	if err != nil {
		return nil, err
	}
	r.Build = w.Version
	return r, nil
}

// inputOf reads the model that a version continues, and checks that it is the one named in the version's plan.
func (c *cloud) inputOf(ctx context.Context, p *sweep.Plan, q *reproduce.Request) error {
	in := p.Input
	if in == nil {
		return nil
	}

	v, err := c.registry.Get(ctx, in.Model, strconv.Itoa(in.Version))
	if err != nil {
		return fmt.Errorf("the model that it continues: %w", err)
	}
	for _, part := range []struct {
		file string
		want sweep.Object
		to   *[]byte
	}{{scorer.FileModel, in.Text, &q.Input}, {scorer.FileDataset, in.Dataset, &q.InputDataset}} {
		if *part.to, err = c.registry.ReadFile(ctx, v, part.file); err != nil {
			return err
		}
		if is := sweepstore.InputObject(p.Sweep, *part.to).SHA256; is != part.want.SHA256 {
			return &differsError{fmt.Sprintf("version %d of model %s, which it continues, has another %s than in "+
				"the plan: %s instead of %s",
				in.Version, in.Model, part.file, is, part.want.SHA256)}
		}
	}
	return nil
}

// fetchDataset copies a version's dataset into a folder of its own, which the caller removes.
func (w *World) fetchDataset(ctx context.Context, c *cloud, m *dataset.Manifest, scratch string) (string, error) {
	there, err := stager.Resolve(ctx, c.datasets, m.Name+"@"+m.Version)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(scratch, "coppice-reproduce-")
	if err != nil {
		return "", err
	}

	if err := stager.FetchTo(ctx, c.datasets, there, dir); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// reproducedOverhead is the width of the other columns.
const reproducedOverhead = 45

// reproduced prints the outcome.
func (w *World) reproduced(v compared, r *reproduce.Report, asJSON bool) error {
	if asJSON {
		if err := w.printJSON(r); err != nil {
			return err
		}
	} else {
		t := w.newTable("file", "registered", "", "")
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 4, WidthMax: w.textWidth(reproducedOverhead),
			WidthMaxEnforcer: text.WrapSoft}})
		for _, f := range r.Files {
			size := "-"
			if old, ok := v.File(f.Name); ok {
				size = humanize.IBytes(uint64(old.Bytes))
			}
			verdict := "same bytes"
			if !f.Same {
				verdict = "differs"
			}
			t.AppendRow(table.Row{f.Name, size, verdict, f.Differs})
		}
		t.Render()
	}

	if !r.Same() {
		var parts []string
		for _, f := range r.Files {
			if !f.Same {
				parts = append(parts, f.Name+": "+f.Differs)
			}
		}
		msg := fmt.Sprintf("%s trained again on %s differs in %s", v.name(), r.Dataset, strings.Join(parts, "; "))
		if v.plan.Coppice != r.Build {
			msg += fmt.Sprintf("; it was planned by build %s, and trained again by %s", v.plan.Coppice, r.Build)
		}
		return &differsError{msg}
	}
	if !asJSON {
		fmt.Fprintf(w.Out, "%s trained again on %s, %d trees in %.1f s: the same bytes\n", v.name(), r.Dataset, r.Trees,
			r.Seconds)
	}
	return nil
}

// readJSONFile reads a file that the version must have.
func (c *cloud) readJSONFile(ctx context.Context, v registry.Version, file string, into any) error {
	data, err := c.registry.ReadFile(ctx, v, file)
	if err != nil {
		return err
	}
	return decodeJSON(v, file, data, into)
}
