package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/launcher/internal/backtest"
	"coppice/launcher/internal/report"
	"coppice/launcher/internal/sweepview"
)

func reportCommand(w *World) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report SWEEP|DATASET|MODEL|backtest.json",
		Short: "Write a sweep, a dataset, a model or a backtest as a page",
		Long: `Writes one HTML file about a sweep: leaderboard, learning curves, parameters, machines, cost and the winner; about a dataset, NAME or
NAME@VERSION: its nights, what staging found, drift, and what the table holds; or about a model: versions, what was live when, metrics and
features. A name is looked up among the sweeps, then the datasets, then the models; dataset:NAME and model:NAME say which is meant. A file
that ends in .json is the result of launcher backtest. The page is self-contained: it can be mailed, archived and opened anywhere. The same
objects give the same bytes.`,
		Example: "  launcher report nightly-ctr-1a2b3c4d --out sweep.html\n  launcher report clicks --out " +
			"nights.html\n  launcher report model:ctr --out model.html",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return program.Usagef("give the page's file with --out; - is the standard output")
			}
			if err := checkOut(out); err != nil {
				return err
			}
			if strings.HasSuffix(args[0], ".json") {
				view, err := viewBacktest(args[0])
				if err != nil {
					return err
				}
				return w.save(out, view.Write)
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				view, err := w.findView(cmd.Context(), c, args[0])
				if err != nil {
					return err
				}
				return w.save(out, view.Write)
			})
		},
	}

	cmd.Flags().StringVar(&out, "out", "", "file to write; - is the standard output")
	return cmd
}

// written is a view of any kind.
type written interface{ Write(io.Writer) error }

// findView reads the view that a name refers to. If there is none, the error is about the missing sweep.
func (w *World) findView(ctx context.Context, c *cloud, name string) (written, error) {
	kinds := []struct {
		prefix string
		read   func(context.Context, *cloud, string) (written, error)
		fits   func(string) bool
	}{
		{"sweep:", func(ctx context.Context, c *cloud, id string) (written, error) { return w.viewSweep(ctx, c, id) },
			func(s string) bool { return sweep.CheckID(s) == nil }},
		{"dataset:", viewDataset, func(s string) bool { _, _, err := sweep.SplitDatasetRef(s); return err == nil }},
		{"model:", viewModel, func(s string) bool { return sweep.CheckName("model", s) == nil }},
	}
	for _, k := range kinds {
		if rest, ok := strings.CutPrefix(name, k.prefix); ok {
			return k.read(ctx, c, rest)
		}
	}

	var first error
	for _, k := range kinds {
		if !k.fits(name) {
			continue
		}
		view, err := k.read(ctx, c, name)
		if err == nil || !isAbsent(err) {
			return view, err
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return w.viewSweep(ctx, c, name) // it reports what is wrong with the name
	}
	return nil, fmt.Errorf("%w; nor is there such a dataset or model: `launcher datasets list`, `launcher registry "+
		"list`", first)
}

// isAbsent reports whether an error means that there is no such thing.
func isAbsent(err error) bool {
	var noSweep *sweepview.NotFoundError
	return errors.As(err, &noSweep) || problem.Is(err, problem.NotFound)
}

// viewBacktest reads a backtest's report from a file.
func viewBacktest(file string) (written, error) {
	text, err := strictyaml.ReadUpTo(file, backtest.MaxReport)
	if err != nil {
		return nil, err
	}
	r, err := backtest.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r.View()
}

func viewDataset(ctx context.Context, c *cloud, ref string) (written, error) {
	return report.NewDatasets(c.datasets, report.NewIndex(c.sweeps, c.datasets, c.registry)).Look(ctx, ref)
}

func viewModel(ctx context.Context, c *cloud, name string) (written, error) {
	return report.Model(ctx, c.registry, name)
}

// viewSweep reads the current state of a sweep.
func (w *World) viewSweep(ctx context.Context, c *cloud, id string) (*page.Sweep, error) {
	s, err := report.OpenSweep(ctx, c.sweeps, c.registry, sweep.ID(id))
	if err != nil {
		return nil, err
	}
	s.Online = c.online()
	view, _, err := s.Look(ctx)
	return view, err
}

// checkOut checks a --out that may be the standard output.
func checkOut(path string) error {
	if path == "-" {
		return nil
	}
	return program.CheckOutFile("--out", path)
}

// save writes a file atomically, and says so.
func (w *World) save(path string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}

	if path == "-" {
		_, err := w.Out.Write(text.Bytes())
		return err
	}
	if err := renameio.WriteFile(path, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	fmt.Fprintf(w.Out, "wrote %s, %d bytes\n", path, text.Len())
	return nil
}

// drawings lists the charts of `launcher plot`, by name.
var drawings = []struct{ word, chart, what string }{
	{"curves", "curves", "learning curves"},
	{"importance", "importance", "parameter importance"},
	{"objective", "objective-trials", "score by trial"},
	{"time", "objective-time", "score over time"},
	{"cost", "objective-cost", "score over cost"},
	{"pareto", "pareto", "score by training time, with the trials that no other beats in both"},
	{"parallel", "parallel", "parameters together"},
	{"rank", "rank", "rank by the two most important parameters"},
	{"gantt", "gantt", "machines and slots"},
	{"memory", "memory", "memory by machine"},
	{"money", "money", "what was spent on what"},
	{"features", "features", "the winner's features"},
	{"worths", "worths", "what groups of columns are worth, after search.features"},
	{"reliability", "reliability", "the winner's predictions against the outcomes"},
	{"gain", "gain", "the winner's gain curve"},
	{"lift", "lift", "the winner's lift"},
	{"rivals", "rivals", "the winner against runner-up and champion"},
}

func plotCommand(w *World) *cobra.Command {
	var out string
	words := ""
	for _, d := range drawings {
		words += fmt.Sprintf("\n  %-11s %s", d.word, d.what)
	}
	cmd := &cobra.Command{
		Use:     "plot SWEEP PLOT",
		Short:   "Write one plot of a sweep as SVG",
		Long:    "Writes one of the plots of a sweep's page as an SVG file. PLOT is one of:\n" + words,
		Example: "  launcher plot nightly-ctr-1a2b3c4d curves --out curves.svg",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return program.Usagef("give the plot's file with --out; - is the standard output")
			}
			id := ""
			for _, d := range drawings {
				if d.word == args[1] {
					id = d.chart
				}
			}
			if id == "" {
				return program.Usagef("there is no plot %q; use one of:%s", args[1], words)
			}
			if err := checkOut(out); err != nil {
				return err
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				view, err := w.viewSweep(cmd.Context(), c, args[0])
				if err != nil {
					return err
				}
				why := ""
				for _, chart := range view.Charts() {
					if chart.ID == id && !chart.Empty() {
						return w.save(out, func(to io.Writer) error { return chart.WriteSVG(to, page.Style()) })
					}
					if chart.ID == id {
						why = ": " + chart.Summary
					}
				}
				return &nothingError{fmt.Errorf("sweep %s has no data for the plot %s yet%s", args[0], args[1], why)}
			})
		},
	}

	cmd.Flags().StringVar(&out, "out", "", "file to write; - is the standard output")
	return cmd
}

// nothingError reports something that does not exist yet.
type nothingError struct{ error }

func (e *nothingError) Unwrap() error { return e.error }

// IsNotFound says that it does not exist.
func (*nothingError) IsNotFound() bool { return true }
