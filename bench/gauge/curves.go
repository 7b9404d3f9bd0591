package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"coppice/internal/page/plot"
	"coppice/internal/program"
)

// curvesFlags say which searches are drawn, and where to.
type curvesFlags struct {
	svg           string
	batch, trials int
	methods       []string
}

func regretCurvesCommand() *cobra.Command {
	var f curvesFlags
	cmd := &cobra.Command{
		Use: "regret-curves FILE... --svg FILE",
		Short: "What regret and peers wrote as an SVG: mean normalised regret over trials, with a band of its " +
			"standard error", Args: cobra.MinimumNArgs(1),
		Example: "  gauge regret-curves build/bench/search.jsonl --batch 16 --svg docs/search-batches.svg",
		RunE: func(_ *cobra.Command, files []string) error {
			all, err := readAll(files)
			if err != nil {
				return err
			}
			chart, err := f.chart(all)
			if err != nil {
				return err
			}
			var svg bytes.Buffer
			if err := chart.WriteSVG(&svg, curveStyle); err != nil {
				return err
			}
			return renameio.WriteFile(f.svg, svg.Bytes(), 0o644)
		},
	}

	cmd.Flags().StringVar(&f.svg, "svg", "", "file to write (required)")
	cmd.Flags().IntVar(&f.batch, "batch", 1, "draw the searches with so many trials at once")
	cmd.Flags().IntVar(&f.trials, "trials", 50, "draw the searches of so many trials")
	cmd.Flags().StringArrayVar(&f.methods, "method", nil, "draw this way of searching; repeat for each (default: all)")
	_ = cmd.MarkFlagRequired("svg")
	return cmd
}

// lineClasses are one for each way of searching, in their order.
var lineClasses = []string{"l0", "l1", "l2", "l3", "l4", "l5", "l6"}

// curveStyle paints the chart in the colours of the pages, by day and by night.
const curveStyle = `svg{--ink:#1b1f24;--soft:#57606a;--line:#e6e9ed;--card:#fff;--a:#0072b2;--b:#d55e00;--c:#009e73;--d:#b5179e;--e:#6e7781;--f:#a86f00;--g:#444c56}` +
	`@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--soft:#9da7b3;--line:#262d36;--card:#151a21;--a:#5aaef0;--b:#ff8a4c;--c:#34c79b;--d:#e58be0;--e:#9aa4af;--f:#f2b632;--g:#e6edf3}}` +
	`svg{background:var(--card)}path{fill:none;stroke-width:2;stroke-linejoin:round}.g{stroke:var(--line);stroke-width:1}` +
	`text{font:11px system-ui,sans-serif;fill:var(--soft)}.a{fill:var(--ink);font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}` +
	`.l0{--x:var(--a)}.l1{--x:var(--b)}.l2{--x:var(--c)}.l3{--x:var(--d)}.l4{--x:var(--e)}.l5{--x:var(--f)}.l6{--x:var(--g)}` +
	`path[class^=l]{stroke:var(--x)}.band{fill:var(--x);opacity:.16}.name{fill:var(--x);font-weight:600}`

func (f *curvesFlags) chart(all []searched) (*plot.Chart, error) {
	of, err := yardsticks(all)
	if err != nil {
		return nil, err
	}

	// The regrets of every way after each trial: one for each task and seed.
	regrets := map[string][][]float64{}
	var methods []string
	for _, s := range all {
		if s.Batch != f.batch || s.Trials != f.trials || f.methods != nil && !slices.Contains(f.methods, s.Method) {
			continue
		}
		if !slices.Contains(methods, s.Method) {
			methods = append(methods, s.Method)
			regrets[s.Method] = make([][]float64, f.trials)
		}
		y := of[s.Task]
		for _, curve := range s.Curves {
			for i, found := range curve[:min(len(curve), f.trials)] {
				regrets[s.Method][i] = append(regrets[s.Method][i], (y.shared-found)/(y.shared-y.median))
			}
		}
	}
	if len(f.methods) > 0 { // lines have colours by this order
		slices.SortStableFunc(methods,
			func(a, b string) int { return cmp.Compare(slices.Index(f.methods, a), slices.Index(f.methods, b)) })
	}
	if len(methods) == 0 || len(methods) > len(lineClasses) {
		return nil, program.Usagef("the files hold %d ways of searching with %d trials, %d at once; use 1 to %d, "+
			"with --method, --trials and --batch",
			len(methods), f.trials, f.batch, len(lineClasses))
	}

	at := fmt.Sprintf("%d at once", f.batch)
	if f.batch == 1 {
		at = "one at a time"
	}
	l := plot.Lines{X: plot.Axis{Label: "trials, " + at, Low: 1, High: float64(f.trials), Whole: true},
		Y: plot.Axis{Label: "normalised regret", Log: true},
		Chart: plot.Chart{ID: fmt.Sprintf("regret-%d", f.batch), W: 760, H: 360,
			Title: "Normalised regret over trials, " + at,
			Summary: "Mean regret against the best found of each task, with a band of one standard error; lower is " +
				"better."}}
	var ends []string
	for i, method := range methods {
		line, ok := lineOf(regrets[method], lineClasses[i])
		if !ok {
			return nil, program.Usagef("the searches of %s have no curves: they are from an older run; run them again",
				method)
		}
		line.Name = method
		ends = append(ends, fmt.Sprintf("%s %.3f", method, line.Y[len(line.Y)-1]))
		l.Lines = append(l.Lines, line)
	}
	l.Summary += " After the last trial: " + strings.Join(ends, ", ") + "."
	return l.Draw(), nil
}

// lineOf is the mean over tasks and seeds after each trial. Below zero there is nothing to draw on a logarithmic axis.
func lineOf(regrets [][]float64, class string) (line plot.Line, ok bool) {
	line = plot.Line{Trial: plot.None, Class: class, Band: "band " + class, Peak: -1}
	for i, values := range regrets {
		if len(values) == 0 {
			return line, false
		}
		mean, deviation := stat.MeanStdDev(values, nil)
		off := 0.0
		if len(values) > 1 {
			off = stat.StdErr(deviation, float64(len(values)))
		}
		least := math.Max(mean/10, 1e-6)
		line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, max(mean, 1e-6))
		line.Low, line.High = append(line.Low, max(mean-off, least)), append(line.High, max(mean+off, least))
	}
	return line, true
}
