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
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if strings.HasSuffix(words[len(args)], ".yaml") || strings.HasSuffix(words[len(args)], ".yaml]") {
			return []string{"yaml"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return w.known(cmd.Context(), words[len(args)]), cobra.ShellCompDirectiveNoFileComp
	}
	if cmd.Flags().Lookup("model") != nil {
		_ = cmd.RegisterFlagCompletionFunc("model", // fails only if there is no such flag
			func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return w.known(cmd.Context(), "MODEL@"), cobra.ShellCompDirectiveNoFileComp
			})
	}
}

// completesFor is how long a shell waits for names.
const completesFor = 3 * time.Second

// known lists what a word of a Use line may be. What cannot be read is not offered: a shell has no place for errors.
func (w *Setup) known(ctx context.Context, word string) (names []string) {
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
		if strings.Contains(word, "MODEL") || word == "A" || word == "B" {
			models, _ := w.registry.Models(ctx)
			names = append(names, models...)
			if strings.Contains(word, "DATASET|MODEL") { // report has one page for all versions
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
			versions, _ := stager.List(ctx, w.datasets, "")
			for _, v := range versions {
				names = append(names, v.Manifest.Name)
			}
		}
		if word == "PLOT" {
			for _, d := range drawings {
				names = append(names, d.word)
			}
		}
		return nil
	})
	return slices.Compact(names)
}
