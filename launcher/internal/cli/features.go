package cli

import (
	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/launcher/internal/sweepview"
)

func featuresCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "features SWEEP",
		Short: "Show how much each group of columns contributes",
		Long: `Shows how much each group of columns improves the metric in a sweep with search.features, most valuable
first. A worth is positive if the group helps, also where a lower metric is better; an interval that contains 0
means that it may be of no use.

A worth is the gain of all groups over all but this one (drop_one), of this one over none (add_one), of adding it to
the selection (forward), or its coefficient in a linear regression of the scores (subsets).`,
		Example: "  launcher features nightly-ctr-1a2b3c4d",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(s *sweepview.View, st sweepview.State) error {
				if s.Plan.Spec.Search.Features == nil {
					return problem.New(problem.NotFound,
						"sweep %s does not compare groups of columns: its spec has no "+
							"search.features", s.Plan.Sweep)
				}
				worths := search.NewWorths(s.Plan, st.Board)
				return w.print(worths, func() { w.screen().Worths(worths) })
			})
		},
	}
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}
