package cli

import (
	"github.com/spf13/cobra"

	"coppice/launcher/internal/sweepview"
)

func statusCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status SWEEP",
		Short: "Show the state of a sweep",
		Example: `  launcher status nightly-ctr-1a2b3c4d
  launcher status nightly-ctr-1a2b3c4d --json | jq .seconds_left`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.look(cmd.Context(), args[0], func(s *sweepview.View, st sweepview.State) error {
				job, err := jobStatus(cmd.Context(), w, s.Plan)
				if err != nil {
					return err
				}
				snap := s.Snapshot(st, job)
				of := s.Plan.Dataset
				snap.Night = sweepview.NightOf(cmd.Context(), w.datasets, of.Name, of.Version)
				return w.print(snap, func() { w.screen().Status(s.Plan, st, snap) })
			})
		},
	}
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}
