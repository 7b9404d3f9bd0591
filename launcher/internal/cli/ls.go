package cli

import (
	"github.com/spf13/cobra"

	"coppice/launcher/internal/sweepview"
)

func lsCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List sweeps, the newest first",
		Example: "  launcher ls\n  launcher ls --json | jq '.[0].sweep'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.with(cmd.Context(), func() error {
				all, err := sweepview.Describe(cmd.Context(), w.sweeps)
				if err != nil {
					return err
				}
				return w.print(all, func() { w.screen().Sweeps(all) })
			})
		},
	}
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}
