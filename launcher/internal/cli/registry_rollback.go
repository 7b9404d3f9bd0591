package cli

import (
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

func registryRollbackCommand(w *Setup) *cobra.Command {
	var why string
	var to int
	cmd := &cobra.Command{
		Use:   "rollback MODEL",
		Short: "Make the version before the champion, or an earlier one, the champion again",
		Example: `  launcher registry rollback ctr --why "CTR drops since this morning"
  launcher registry rollback ctr --to 12`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, model := cmd.Context(), args[0]
			if err := sweep.CheckName("model", model); err != nil {
				return err
			}
			if given := cmd.Flags().Changed("to"); given && to < 1 {
				return program.Usagef("--to is %d: versions count from 1", to)
			}
			return w.with(ctx, func() error {
				now, err := w.registry.Alias(ctx, model, registry.Champion)
				if err != nil {
					return err
				}
				if now.Version == to {
					w.printf("version %d is already the champion of %s\n", to, model)
					return nil
				}
				var a registry.Alias
				if expect := (registry.Expect{Version: now.Version}); to > 0 {
					a, err = w.registry.RollbackTo(ctx, model, registry.Champion, to, expect, w.act(why))
				} else {
					a, err = w.registry.Rollback(ctx, model, registry.Champion, expect, w.act(why))
				}
				return printMoved(w, a, now.Version, err)
			})
		},
	}
	cmd.Flags().IntVar(&to, "to", 0, "a version that was the champion before (default: the previous one)")
	cmd.Flags().StringVar(&why, "why", "", "reason, for the history")
	return cmd
}
