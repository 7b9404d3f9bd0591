package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// latest, behind MODEL@ or DATASET@, is the newest version.
const latest = "@latest"

// complete lets shells complete arguments and --model, by the words of a command's Use line: SWEEP.yaml is a file,
// SWEEP, MODEL and NAME (of a dataset) are asked of the cloud.
func complete(w *Setup, cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		complete(w, child)
	}
	words := program.Arguments(cmd.Use)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if strings.HasSuffix(words[len(args)], ".yaml") || strings.HasSuffix(words[len(args)], ".yaml]") {
			return []string{"yaml"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return w.known(cmd.Context(), words[len(args)], begun), cobra.ShellCompDirectiveNoFileComp
	}
	if cmd.Flags().Lookup("model") != nil {
		_ = cmd.RegisterFlagCompletionFunc("model", // fails only if there is no such flag
			func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
				return w.known(cmd.Context(), "MODEL@", begun), cobra.ShellCompDirectiveNoFileComp
			})
	}
}

// A shell waits for names: so long, and with the aliases of so many models.
const (
	completesFor  = 3 * time.Second
	mostCompleted = 16
)

// known lists what a word of a Use line may be, of which the beginning is typed. What cannot be read is not offered: a
// shell has no place for errors. Versions, of which there is one a night, are neither read nor listed.
func (w *Setup) known(ctx context.Context, word, begun string) (names []string) {
	ctx, stop := context.WithTimeout(ctx, completesFor)
	defer stop()
	_ = w.with(ctx, func() error {
		if strings.Contains(word, "SWEEP") {
			ids, _ := sweepview.List(ctx, w.sweeps)
			for _, id := range ids {
				names = append(names, string(id))
			}
			names = append(names, sweepview.Latest)
		}
		if strings.Contains(word, "MODEL") {
			models, _ := w.registry.Names(ctx)
			names = append(names, models...)
			models = slices.DeleteFunc(models, func(m string) bool {
				return !strings.HasPrefix(m, begun) && !strings.HasPrefix(begun, m+"@")
			})
			// report has one page for all versions
			if strings.Contains(word, "DATASET|MODEL") || len(models) > mostCompleted {
				models = nil
			}
			for _, model := range models {
				aliases, _ := w.registry.Aliases(ctx, model)
				for _, a := range aliases {
					names = append(names, model+"@"+a.Name)
				}
				names = append(names, model+latest)
			}
		}
		if strings.Contains(word, "DATASET") || strings.HasPrefix(word, "NAME[@") || word == "[NAME]" {
			datasets, _ := stager.Names(ctx, w.datasets)
			names = append(names, datasets...)
		}
		return nil
	})
	return slices.Compact(names)
}
