package cli

import (
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// boardWithCurves is the --json output of a leaderboard with curves.
type boardWithCurves struct {
	sweep.Board
	Curves map[int][]sweep.CurvePoint `json:"curves"` // by trial
}

func leaderboardCommand(w *Setup) *cobra.Command {
	var curves bool
	var top int
	cmd := &cobra.Command{
		Use:   "leaderboard SWEEP",
		Short: "Show a sweep's trials, best first",
		Long: `Shows a sweep's trials, best first; for a sweep with folds, its configurations by their mean over the
folds, with its standard error. With --curves it also shows the metric on valid after each tree, from the first tree
on the left to the last; all rows share one scale, on which up is better. Trials without early stopping have no
curve, because their trees are not scored.`,
		Example: "  launcher leaderboard nightly-ctr-1a2b3c4d --top 5 --curves",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if top < 0 {
				return program.Usagef("--top is %d: use 1 or more", top)
			}
			return w.look(cmd.Context(), args[0], func(s *sweepview.View, st sweepview.State) error {
				b := st.Board
				if top > 0 {
					b.Rows = b.Rows[:min(top, len(b.Rows))]
					b.Configurations = b.Configurations[:min(top, len(b.Configurations))]
				}
				if !curves {
					return w.print(b, func() { w.screen().Board(s.Plan, b, 0) })
				}

				numbers := make([]int, len(b.Rows))
				for i, row := range b.Rows {
					numbers[i] = row.Trial.Number
				}
				of, err := s.Curves(cmd.Context(), numbers)
				if err != nil {
					return err
				}
				return w.print(boardWithCurves{b, of}, func() { w.screen().Curves(s.Plan, b, of) })
			})
		},
	}

	w.jsonFlag(cmd, "print one JSON object")
	cmd.Flags().BoolVar(&curves, "curves", false, "with the trials' learning curves")
	cmd.Flags().IntVar(&top, "top", 0, "show only so many (default: all)")
	return cmd
}
