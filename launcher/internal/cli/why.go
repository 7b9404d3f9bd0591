package cli

import (
	"github.com/spf13/cobra"

	"coppice/launcher/internal/sweepview"
)

func whyCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why SWEEP TRIAL",
		Short: "Say why a trial was tried, and why it was stopped",
		Long: `Shows in numbers where a trial's configuration comes from, and why. For a trial whose configuration
was chosen when a task took it, it shows what was known of the others at that moment, and whether that gives the
same choice again. If the sweep stops trials, it shows how the trial compared at each rung.`,
		Example: "  launcher why nightly-ctr-1a2b3c4d 17",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(s *sweepview.View, st sweepview.State) error {
				n, err := trialNumber(s.Plan, args[1])
				if err != nil {
					return err
				}
				y, err := s.Why(cmd.Context(), st, n)
				if err != nil {
					return err
				}
				return w.print(y, func() { w.screen().Why(s.Plan, y) })
			})
		},
	}
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}
