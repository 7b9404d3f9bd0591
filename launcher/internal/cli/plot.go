package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/program"
)

// drawings lists the charts of `launcher plot`, by name.
var drawings = []struct{ word, chart, what string }{
	{"curves", "curves", "learning curves"},
	{"importance", "importance", "parameter importance"},
	{"objective", "objective-trials", "score by trial"},
	{"time", "objective-time", "score over time"},
	{"cost", "objective-cost", "score over cost"},
	{"pareto", "pareto", "score by training time, with the trials on the Pareto front"},
	{"parallel", "parallel", "parameters together"},
	{"rank", "rank", "rank by the two most important parameters"},
	{"gantt", "gantt", "machines and slots"},
	{"memory", "memory", "memory by machine"},
	{"money", "money", "what was spent on what"},
	{"features", "features", "the winner's features"},
	{"reliability", "reliability", "the winner's predictions against the outcomes"},
	{"gain", "gain", "the winner's gain curve"},
	{"rivals", "rivals", "the winner against runner-up and champion"},
}

func plotCommand(w *Setup) *cobra.Command {
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
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			for _, d := range drawings {
				if d.word == args[1] {
					id = d.chart
				}
			}
			if id == "" {
				return program.Usagef("there is no plot %q; use one of:%s", args[1], words)
			}
			if err := checkOut("plot", out); err != nil {
				return err
			}
			return w.with(cmd.Context(), func() error {
				view, err := w.pages().Sweep(cmd.Context(), args[0])
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
				return problem.New(problem.NotFound, "sweep %s has no data for the plot %s yet%s", args[0], args[1],
					why)
			})
		},
	}

	cmd.Flags().StringVar(&out, "out", "", "file to write; - is the standard output")
	return cmd
}
