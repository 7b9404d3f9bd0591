package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
)

func registryPromoteCommand(w *Setup) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:     "promote MODEL@VERSION",
		Short:   "Make a version the champion",
		Example: `  launcher registry promote ctr@3 --why "approved by the ranking team"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			model, ref, err := splitRef(args[0])
			if err != nil {
				return err
			}
			number, err := strconv.Atoi(ref)
			if err != nil {
				return program.Usagef("%q: expected MODEL@VERSION with a number", args[0])
			}
			return w.with(ctx, func() error {
				now, err := aliased(ctx, w, model, registry.Champion)
				if err != nil {
					return err
				}
				if now == number {
					w.printf("version %d is already the champion of %s\n", number, model)
					return nil
				}
				a, err := w.registry.Promote(ctx, model, number, registry.Expect{Version: now}, w.act(why))
				return printMoved(w, a, now, err)
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "reason, for the history")
	return cmd
}
