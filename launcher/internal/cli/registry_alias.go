package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
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
  launcher registry alias ctr@canary canary --remove --why "the trial is over"`,
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
				return point(ctx, w, v.Model, alias, v.Number, why)
			})
		},
	}
	requireWhy(cmd, &why)
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the alias")
	return cmd
}

// requireWhy adds --why, without which the history would not say why.
func requireWhy(cmd *cobra.Command, why *string) {
	cmd.Flags().StringVar(why, "why", "", "reason, for the history (required)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if strings.TrimSpace(*why) == "" {
			return program.Usagef("--why is missing: later readers of the history need the reason")
		}
		return nil
	}
}

// point moves an alias to a version, unless it is there.
func point(ctx context.Context, w *Setup, model, alias string, to int, why string) error {
	now, err := aliased(ctx, w, model, alias)
	if err != nil {
		return err
	}
	if now == to {
		w.printf("version %d is already the %s of %s\n", to, alias, model)
		return nil
	}
	a, err := w.registry.SetAlias(ctx, model, alias, to, registry.Expect{Version: now}, w.act(why))
	return printMoved(w, a, now, err)
}

func registryPromoteCommand(w *Setup) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:     "promote MODEL@VERSION",
		Short:   "Make a version the champion",
		Example: `  launcher registry promote ctr@3 --why "approved by the ranking team"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			model, ref, err := sweep.SplitModelRef(args[0])
			if err != nil {
				return err
			}
			number, err := strconv.Atoi(ref)
			if err != nil {
				return program.Usagef("%q: expected MODEL@VERSION with a number", args[0])
			}
			return w.with(ctx, func() error { return point(ctx, w, model, registry.Champion, number, why) })
		},
	}
	requireWhy(cmd, &why)
	return cmd
}

func registryRollbackCommand(w *Setup) *cobra.Command {
	var why string
	var to int
	cmd := &cobra.Command{
		Use:   "rollback MODEL",
		Short: "Make an earlier version the champion again",
		Example: `  launcher registry rollback ctr --why "CTR drops since this morning"
  launcher registry rollback ctr --to 12 --why "the last good night"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, model := cmd.Context(), args[0]
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
	requireWhy(cmd, &why)
	return cmd
}
