package cli

import (
	"bytes"
	"context"
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
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

func reportCommand(w *Setup) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report SWEEP|DATASET|MODEL|backtest.json",
		Short: "Write a sweep, a dataset, a model or a backtest as a page",
		Long: `Writes one HTML file about a sweep: leaderboard, learning curves, parameters, machines, cost and
the winner; about a dataset, NAME or NAME@VERSION: its nights, what staging found, drift, and what the table
holds; or about a model: versions, what was live when, metrics and features. A name is looked up among the
sweeps, then the datasets, then the models; dataset:NAME and model:NAME say which is meant. A file that ends in
.json is the result of launcher backtest.

The page is self-contained: it can be mailed, archived and opened anywhere. The same objects give the same bytes.`,
		Example: `  launcher report nightly-ctr-1a2b3c4d --out sweep.html
  launcher report clicks --out nights.html
  launcher report model:ctr --out model.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOut("page", out); err != nil {
				return err
			}
			if strings.HasSuffix(args[0], ".json") {
				view, err := viewBacktest(args[0])
				if err != nil {
					return err
				}
				return w.save(out, view.Write)
			}
			return w.with(cmd.Context(), func() error {
				view, err := findView(cmd.Context(), w, args[0])
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
func findView(ctx context.Context, w *Setup, name string) (written, error) {
	kinds := []struct {
		prefix string
		read   func(string) (written, error)
		fits   func(string) bool
	}{
		{"sweep:", func(id string) (written, error) { return viewSweep(ctx, w, id) },
			func(s string) bool { return sweep.CheckID(s) == nil }},
		{"dataset:", func(ref string) (written, error) {
			return report.NewDatasets(w.datasets, report.NewIndex(w.sweeps, w.datasets, w.registry)).Look(ctx, ref)
		}, func(s string) bool { _, _, err := sweep.SplitDatasetRef(s); return err == nil }},
		{"model:", func(name string) (written, error) { return report.Model(ctx, w.registry, name) },
			func(s string) bool { return sweep.CheckName("model", s) == nil }},
	}
	for _, k := range kinds {
		if rest, ok := strings.CutPrefix(name, k.prefix); ok {
			return k.read(rest)
		}
	}

	var first error
	for _, k := range kinds {
		if !k.fits(name) {
			continue
		}
		view, err := k.read(name)
		if err == nil {
			w.noteOthers(ctx, k.prefix, name)
		}
		if err == nil || !problem.Is(err, problem.NotFound) {
			return view, err
		}
		if first == nil {
			first = err
		}
	}
	if first == nil && name != sweepview.Latest && strings.Contains(name, "@") {
		return nil, program.Usagef("%.80q is neither a sweep nor a dataset's NAME@VERSION, and a model's page has "+
			"all its versions: give its name alone", name)
	}
	if first == nil {
		return viewSweep(ctx, w, name) // it reports what is wrong with the name
	}
	return nil, fmt.Errorf("%w; nor is there such a dataset or model: `launcher datasets list`, `launcher registry "+
		"list`", first)
}

// noteOthers says that a name, whose page is that of the first kind that has it, is also that of a later kind.
func (w *Setup) noteOthers(ctx context.Context, kind, name string) {
	_, dataset := stager.Resolve(ctx, w.datasets, name)
	if _, model := w.registry.Get(ctx, name, ""); kind == "sweep:" && dataset == nil {
		fmt.Fprintf(w.Err, "note: this is the page of %s%s; there is dataset:%s, too\n", kind, name, name)
	} else if kind != "model:" && model == nil {
		fmt.Fprintf(w.Err, "note: this is the page of %s%s; there is model:%s, too\n", kind, name, name)
	}
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

// viewSweep reads the current state of a sweep.
func viewSweep(ctx context.Context, w *Setup, arg string) (*page.Sweep, error) {
	id, err := sweepview.Find(ctx, w.sweeps, arg)
	if err != nil {
		return nil, err
	}
	s, err := report.OpenSweep(ctx, w.sweeps, w.registry, id)
	if err != nil {
		return nil, err
	}
	s.Online = w.online()
	view, _, err := s.Look(ctx)
	return view, err
}

// checkOut checks the --out of a page or a plot.
func checkOut(what, path string) error {
	switch path {
	case "":
		return program.Usagef("give the %s's file with --out; - is the standard output", what)
	case "-":
		return nil
	}
	return program.CheckOutFile("--out", path)
}

// save writes a file atomically, and says so.
func (w *Setup) save(path string, write func(io.Writer) error) error {
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
	w.printf("wrote %s, %d bytes\n", path, text.Len())
	return nil
}
