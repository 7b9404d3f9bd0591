package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/nights"
	"coppice/launcher/internal/stager"
)

func datasetsShowCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME[@VERSION]",
		Short: "Show what staging found in a night's table",
		Long: `Shows what staging found when it compared the table with those of earlier nights, and whether the
dataset may be trained on.`,
		Example: `  launcher datasets show clicks
  launcher datasets show clicks@1a2b3c4d5e6f7a8b --json`,
	}
	w.jsonFlag(cmd, "print the night's record as JSON")
	return nightCommand(w, cmd, func(_ context.Context, _ stager.Destination, r *nights.Record) error {
		return w.print(r, func() { w.screen().Night(r) })
	})
}
