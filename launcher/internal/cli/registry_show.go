package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/show"
)

func registryShowCommand(w *Setup) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "show MODEL[@VERSION|@ALIAS]",
		Short: "Show a version, or print one of its files",
		Example: `  launcher registry show ctr
  launcher registry show ctr@3 --file model.txt > model.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.withVersion(cmd.Context(), args[0], func(v registry.Version) error {
				switch {
				case file != "":
					data, err := w.registry.ReadFile(cmd.Context(), v, file)
					if err != nil {
						return err
					}
					out := w.Out.Raw() // the file's bytes unchanged, unless they go to a terminal
					if w.Terminal {
						out = w.Out
					}
					_, err = out.Write(data)
					return err
				case w.asJSON:
					return w.printJSON(v)
				}
				return showVersion(cmd.Context(), w, v)
			})
		},
	}

	w.jsonFlag(cmd, "print one JSON object")
	cmd.Flags().StringVar(&file, "file", "", "print this file of the version, verified against its SHA-256")
	return cmd
}

func showVersion(ctx context.Context, w *Setup, v registry.Version) error {
	about := show.VersionDetails{Version: v}
	var err error
	if about.Aliases, err = w.registry.Aliases(ctx, v.Model); err != nil {
		return err
	}
	for file, into := range map[string]any{scorer.FileResult: &about.Result, scorer.FileReport: &about.Report} {
		if _, ok := v.File(file); !ok { // it was not registered by a sweep
			continue
		}
		if err := w.registry.ReadJSON(ctx, v, file, into); err != nil {
			return err
		}
	}
	if about.Remarks, err = w.registry.Remarks(ctx, v.Model, v.Number); err != nil {
		return err
	}
	w.screen().Version(about)
	return nil
}
