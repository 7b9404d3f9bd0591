package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"coppice/launcher/internal/report"
	"coppice/launcher/internal/sweepview"
	"coppice/page"
	"coppice/program"
	"coppice/registry"
	"coppice/sweep"
)

func reportCommand(w *World) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report SWEEP|MODEL",
		Short: "Write a sweep or a model as a page",
		Long: `Writes one HTML file with everything that there is to see of a sweep: leaderboard, learning curves, parameters, machines, money and
the winner; or of a model: versions, what was live when, metrics and features. A name that no sweep has is a model's. The file needs nothing else: it can be mailed, archived and opened anywhere. The same objects give the same bytes.`,
		Example: "  launcher report nightly-ctr-1a2b3c4d --out sweep.html\n  launcher report ctr --out model.html",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return program.Usagef("say with --out where the page is to go; - is the standard output")
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				view, err := w.viewSweep(cmd.Context(), c, args[0])
				var none *sweepview.NotFoundError
				if errors.As(err, &none) && sweep.CheckName("model", args[0]) == nil {
					return w.reportModel(cmd.Context(), c, args[0], out, err)
				}
				if err != nil {
					return err
				}
				return w.save(out, view.Write)
			})
		},
	}

	cmd.Flags().StringVar(&out, "out", "", "file to write, whole or not at all; - is the standard output")
	return cmd
}

// reportModel writes a model's page; where there is no such model, there being no such sweep is the error.
func (w *World) reportModel(ctx context.Context, c *cloud, name, out string, noSweep error) error {
	view, err := report.Model(ctx, c.registry, name)
	var none *registry.NotFoundError
	if errors.As(err, &none) {
		return fmt.Errorf("%w; nor is there such a model: `launcher registry list`", noSweep)
	}
	if err != nil {
		return err
	}
	return w.save(out, view.Write)
}

// viewSweep reads a sweep as it stands.
func (w *World) viewSweep(ctx context.Context, c *cloud, id string) (*page.Sweep, error) {
	s, err := report.OpenSweep(ctx, c.sweeps, c.registry, sweep.ID(id))
	if err != nil {
		return nil, err
	}
	view, _, err := s.Look(ctx)
	return view, err
}

// save writes a file, whole or not at all, and says so.
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

// drawings are the charts that `launcher plot` knows, by the word for each.
var drawings = []struct{ word, chart, what string }{
	{"curves", "curves", "learning curves"},
	{"importance", "importance", "parameter importance"},
	{"objective", "objective-trials", "score by trial"},
	{"time", "objective-time", "score over time"},
	{"cost", "objective-cost", "score over money"},
	{"parallel", "parallel", "parameters together"},
	{"rank", "rank", "rank by the two most important parameters"},
	{"gantt", "gantt", "machines and slots"},
	{"memory", "memory", "memory by machine"},
	{"money", "money", "what was spent on what"},
	{"features", "features", "the winner's features"},
}

func plotCommand(w *World) *cobra.Command {
	var out string
	words := ""
	for _, d := range drawings {
		words += fmt.Sprintf("\n  %-11s %s", d.word, d.what)
	}
	cmd := &cobra.Command{
		Use:     "plot SWEEP PLOT",
		Short:   "Write one drawing of a sweep as SVG",
		Long:    "Writes one of the drawings of a sweep's page as an SVG file. PLOT is one of:\n" + words,
		Example: "  launcher plot nightly-ctr-1a2b3c4d curves --out curves.svg",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return program.Usagef("say with --out where the drawing is to go; - is the standard output")
			}
			id := ""
			for _, d := range drawings {
				if d.word == args[1] {
					id = d.chart
				}
			}
			if id == "" {
				return program.Usagef("there is no plot %q; one of:%s", args[1], words)
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				view, err := w.viewSweep(cmd.Context(), c, args[0])
				if err != nil {
					return err
				}
				for _, chart := range view.Charts() {
					if chart.ID == id && !chart.Empty() {
						return w.save(out, func(to io.Writer) error { return chart.WriteSVG(to, page.Style()) })
					}
				}
				return &nothingError{fmt.Errorf("sweep %s has nothing to draw as %s yet", args[0], args[1])}
			})
		},
	}

	cmd.Flags().StringVar(&out, "out", "", "file to write, whole or not at all; - is the standard output")
	return cmd
}

// nothingError is something that is not there yet.
type nothingError struct{ error }

func (e *nothingError) Unwrap() error { return e.error }

// IsNotFound says that what was asked for is not there.
func (*nothingError) IsNotFound() bool { return true }
