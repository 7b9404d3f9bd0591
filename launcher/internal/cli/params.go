package cli

import (
	"github.com/spf13/cobra"

	"coppice/internal/gbt"
	"coppice/internal/program"
)

func paramsCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "params [NAME...]",
		Short: "What LightGBM's parameters are here",
		Long: `Prints LightGBM's training parameters, or those named, under any alias: whether they are the same here,
how they differ, why they are refused, or where else it is said. docs/parameters.md is the same list.`,
		Example: `  launcher params
  launcher params subsample boosting`,
		RunE: func(_ *cobra.Command, names []string) error {
			all := gbt.Parameters()
			if len(names) > 0 {
				all = nil
			}
			for _, name := range names {
				p, err := gbt.FindParameter(name)
				if err != nil {
					return program.Usagef("%w", err)
				}
				all = append(all, p)
			}
			return w.print(all, func() { w.screen().Parameters(all) })
		},
	}
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}
