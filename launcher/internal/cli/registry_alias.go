package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
)

func registryAliasCommand(w *Setup) *cobra.Command {
	var why string
	var remove bool
	cmd := &cobra.Command{
		Use:   "alias MODEL@VERSION NAME",
		Short: "Point an alias of your own at a version, such as canary",
		Long: `Points an alias at a version; who, why and when are kept like those of the champion. predict --model
MODEL@NAME then uses it. The champion is moved by promote and rollback.`,
		Example: `  launcher registry alias ctr@12 canary --why "5 % of the traffic from today"
  launcher registry alias ctr@canary canary --remove`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, alias := cmd.Context(), args[1]
			if alias == registry.Champion {
				return program.Usagef("the champion is moved by `launcher registry promote` and `rollback`")
			}
			if _, err := strconv.Atoi(alias); err == nil {
				return program.Usagef("%q would be read as a version's number", alias)
			}
			return w.changeVersion(ctx, args[0], func(v registry.Version, _ string) error {
				if remove {
					if _, err := w.registry.RemoveAlias(ctx, v.Model, alias, registry.Expect{Version: v.Number},
						w.act(why)); err != nil {
						return err
					}
					w.printf("%s of %s is removed\n", alias, v.Model)
					return nil
				}
				now, err := aliased(ctx, w, v.Model, alias)
				if err != nil {
					return err
				}
				a, err := w.registry.SetAlias(ctx, v.Model, alias, v.Number, registry.Expect{Version: now}, w.act(why))
				return printMoved(w, a, now, err)
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "reason, for the history")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the alias")
	return cmd
}
