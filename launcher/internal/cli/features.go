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
		Short: "Show what groups of columns are worth",
		Long: `Shows what each group of columns adds to the metric, from a sweep with search.features, most valuable
first: by how much all groups are better than all but it (drop_one), it alone is better than none (add_one), or the
selection got better with it (forward); for random subsets, from a linear regression of the score on the groups that
a set has. A worth is positive if the group helps, also where a lower metric is better. An interval that contains 0
means that the group may be of no use.`,
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
