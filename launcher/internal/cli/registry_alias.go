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

// requireWhy adds the flag --why to a command, whose value is the reason for the history, and rejects an empty one.
func requireWhy(cmd *cobra.Command, why *string) {
	cmd.Flags().StringVar(why, "why", "", "reason, for the history (required)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if strings.TrimSpace(*why) == "" {
			return program.Usagef("--why is missing: later readers of the history need the reason")
		}
		return nil
	}
}

// moveAlias points the model's alias at the version to, and prints that. It fails if somebody moves the alias at the
// same time. If the alias is there already, nothing changes, and a line says so.
func moveAlias(ctx context.Context, w *Setup, model, alias string, to int, why string) error {
	now, err := versionOfAlias(ctx, w, model, alias)
	if err != nil {
		return err
	}
	if now == to {
		w.printf("version %d is already the %s of %s\n", to, alias, model)
		return nil
	}
	a, err := w.registry.SetAlias(ctx, model, alias, to, registry.Expect{Version: now}, w.actFor(why))
	if err == nil {
		finishMove(ctx, w, a, now)
	}
	return err
}

func registryPromoteCommand(w *Setup) *cobra.Command {
	var alias, why string
	cmd := &cobra.Command{
		Use:   "promote MODEL@VERSION",
		Short: "Make a version the champion, or point an alias of your own at it",
		Example: `  launcher registry promote ctr@3 --why "approved by the ranking team"
  launcher registry promote ctr@12 --alias canary --why "5 % of the traffic from today"`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			ctx := cmd.Context()
			model, ref, err := sweep.SplitModelRef(args[0])
			if err != nil {
				return err
			}
			number, err := strconv.Atoi(ref)
			if err != nil || number < 1 { // 0 would stand for no version: an alias that does not exist is "at" it
				return program.Usagef("%q: expected MODEL@VERSION with a number from 1 on", args[0])
			}
			if _, err := strconv.Atoi(alias); err == nil {
				return program.Usagef("%q would be read as a version's number", alias)
			}
			return w.withCloud(ctx, func() error { return moveAlias(ctx, w, model, alias, number, why) })
		},
	}
	cmd.Flags().StringVar(&alias, "alias", registry.Champion,
		"point this alias at it, such as canary; predict --model MODEL@canary then uses it")
	requireWhy(cmd, &why)
	return cmd
}

func registryRollbackCommand(w *Setup) *cobra.Command {
	var alias, why string
	var to int
	cmd := &cobra.Command{
		Use:   "rollback MODEL",
		Short: "Move the champion, or another alias, back",
		Example: `  launcher registry rollback ctr --why "CTR drops since this morning"
  launcher registry rollback ctr --to 12 --why "the last good night"
  launcher registry rollback ctr --alias canary --to 0 --why "the trial is over"`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			ctx, model := cmd.Context(), args[0]
			given := cmd.Flags().Changed("to")
			if to < 0 || given && to == 0 && alias == registry.Champion {
				return program.Usagef("--to is %d: versions count from 1", to)
			}
			return w.withCloud(ctx, func() error {
				now, err := w.registry.Alias(ctx, model, alias)
				if err != nil {
					return err
				}
				var a registry.Alias
				switch expect := (registry.Expect{Version: now.Version}); {
				case now.Version == to:
					w.printf("version %d is already the %s of %s\n", to, alias, model)
					return nil
				case given && to == 0:
					a, err = w.registry.RemoveAlias(ctx, model, alias, expect, w.actFor(why))
				default: // without --to, to is 0: Rollback then takes the version before
					a, err = w.registry.Rollback(ctx, model, alias, to, expect, w.actFor(why))
				}
				if err == nil {
					finishMove(ctx, w, a, now.Version)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&alias, "alias", registry.Champion, "the alias to move back")
	cmd.Flags().IntVar(&to, "to", 0, "a version at which it was before (default: the last one); 0 removes the alias")
	requireWhy(cmd, &why)
	return cmd
}
