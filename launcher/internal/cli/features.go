package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

func featuresCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "features SWEEP",
		Short: "Show what groups of columns are worth",
		Long: `Shows what each group of columns adds to the metric, from a sweep with search.features, most valuable first: by how much all groups are better
than all but it (drop_one), it alone is better than none (add_one), or the selection got better with it (forward); for random subsets, from a
linear regression of the score on the groups that a set has. A worth is positive if the group helps, also where a lower metric is better. An
interval that contains 0 means that the group may be of no use.`,
		Example: "  launcher features nightly-ctr-1a2b3c4d",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(_ *cloud, s *sweepview.Sweep, st sweepview.State) error {
				if s.Plan.Spec.Search.Features == nil {
					return &nothingError{fmt.Errorf("sweep %s does not compare groups of columns: its spec has no "+
						"search.features", s.Plan.Sweep)}
				}
				worths := search.NewWorths(s.Plan, st.Board)
				if asJSON {
					return w.printJSON(worths)
				}
				w.showWorths(worths)
				return nil
			})
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// worthsOverhead is the width of the other columns of a table of worths.
const worthsOverhead = 96

func (w *World) showWorths(v *search.Worths) {
	score := map[string]string{sweep.TryDropOne: "all but it", sweep.TryAddOne: "it alone",
		sweep.TryForward: "with it"}[v.Try]
	header := []any{"group", "worth", "95 %"}
	if score != "" {
		header = append(header, v.Metric+", "+score)
	}
	if v.Try == sweep.TryForward {
		header = append(header, "selected")
	}
	t := w.newTable(append(header, "columns")...)
	t.SetColumnConfigs([]table.ColumnConfig{{Number: len(header) + 1, WidthMax: w.textWidth(worthsOverhead),
		WidthMaxEnforcer: text.WrapSoft}})
	for _, g := range v.Groups {
		row := table.Row{g.Group, signed(g.Worth), "-"}
		if g.Low != nil {
			row[2] = signed(g.Low) + " to " + signed(g.High)
		}
		if score != "" {
			row = append(row, valueOf(g.Score))
		}
		if v.Try == sweep.TryForward {
			row = append(row, map[bool]string{true: fmt.Sprintf("step %d", g.Step)}[g.Step > 0])
		}
		t.AppendRow(append(row, strings.Join(g.Columns, ", ")))
	}
	t.Render()

	on := "valid"
	if v.Folds > 1 {
		on = fmt.Sprintf("mean of %d folds", v.Folds)
	}
	fmt.Fprintf(w.Out, "%s, %s: %s with all groups", v.Metric, on, valueOf(v.All))
	if v.None != nil {
		fmt.Fprintf(w.Out, ", %s with none", number(*v.None))
	}
	if v.Try == sweep.TryForward {
		fmt.Fprintf(w.Out, "; selected: %s", cmp.Or(strings.Join(v.Selected, ", "), "none"))
	}
	fmt.Fprintf(w.Out, "\n%s\n", v.How)
	if v.Missing > 0 {
		fmt.Fprintf(w.Out, "%d sets of columns have no score (yet)\n", v.Missing)
	}
}

// valueOf formats a number that may be missing.
func valueOf(x *float64) string {
	if x == nil {
		return "-"
	}
	return number(*x)
}

// signed formats a difference that may be missing.
func signed(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%+.3g", *x)
}

// differences says how a sweep's trials differ: in some parameters, or in the groups of columns that they have.
type differences struct {
	names    []string // of parameters
	features *sweep.Features
}

func differing(p *sweep.Plan) differences {
	return differences{varied(p.Trials), p.Spec.Search.Features}
}

// of describes complete parameters.
func (d differences) of(params sweep.Params) string {
	if d.features != nil {
		if kept, ok := d.features.Kept(params); ok {
			return d.features.Describe(kept)
		}
	}
	return settings(params, d.names)
}

// configuration describes a trial's parameters as far as they are known.
func (d differences) configuration(t sweep.Trial) string {
	if t.Open && t.Params == nil {
		return "decided when it is claimed"
	}
	return d.of(t.Shown())
}

// decidedParams describes the parameters that a decision was about.
func decidedParams(p *sweep.Plan, d *sweep.Decision) string {
	if p.Spec.Search.Features != nil {
		return differing(p).of(d.Params)
	}
	return settings(d.Own, slices.Sorted(maps.Keys(d.Own)))
}
