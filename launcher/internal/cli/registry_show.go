package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/show"
)

func registryShowCommand(w *Setup) *cobra.Command {
	var file string
	var history, verify, all bool
	cmd := &cobra.Command{
		Use:   "show MODEL[@VERSION|@ALIAS]",
		Short: "Show a version, one of its files, or a model's history",
		Long: `Shows whether a version is live, since when, and what the gate said of it, then how good it is and what
it was made from; with --history instead who changed what of the model, when and why.

With --verify it reads everything about the model: it compares each version's files with their registered checksums,
follows each alias's history move by move (each holds the SHA-256 of the previous move and of the record of the version
that it made live), and checks that each alias is where its history ends. It prints the end of each history. Write that
SHA-256 down elsewhere: as long as --verify --json lists it among the moves, nothing up to it was changed, not even by
someone who rewrote the whole chain.`,
		Example: `  launcher registry show ctr
  launcher registry show ctr@3 --file model.txt > model.txt
  launcher registry show ctr --history
  launcher registry show ctr --verify`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			model, _, version := strings.Cut(args[0], "@")
			switch {
			case version && history:
				return program.Usagef("--history is that of the model: launcher registry show %s --history", model)
			case version && verify:
				return program.Usagef("--verify checks the whole model: launcher registry show %s --verify", model)
			case history && verify, file != "" && (history || verify):
				return program.Usagef("give one of --file, --history and --verify")
			case history:
				return w.withCloud(cmd.Context(), func() error { return showHistory(cmd.Context(), w, args[0]) })
			case verify:
				return w.withCloud(cmd.Context(), func() error { return verifyModel(cmd.Context(), w, args[0]) })
			}
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
				return showVersion(cmd.Context(), w, v, all)
			})
		},
	}

	w.jsonFlag(cmd, "print one JSON object, or with --history an array")
	cmd.Flags().StringVar(&file, "file", "", "print this file of the version, verified against its SHA-256")
	cmd.Flags().BoolVar(&all, "all", false, "also list its files, with their SHA-256")
	cmd.Flags().BoolVar(&history, "history", false, "show every registration and every move of the model's aliases")
	cmd.Flags().BoolVar(&verify, "verify", false, "check every file's checksum and every history along its chain")
	return cmd
}

// showHistory prints a model's history. Events that could be read are printed even if there is an error.
func showHistory(ctx context.Context, w *Setup, model string) error {
	events, err := w.registry.History(ctx, model)
	if err != nil && len(events) == 0 {
		return err
	}
	return errors.Join(w.print(events, func() { w.screen().History(events) }), err)
}

// verifyModel checks a model's files and histories, and prints what was checked. If something is wrong, the printed
// list says where, and the error what.
func verifyModel(ctx context.Context, w *Setup, model string) error {
	v, err := w.registry.Verify(ctx, model)
	if v == nil {
		return err
	}
	err = errors.Join(w.print(v, func() { w.screen().Verified(v) }), err)
	if err == nil {
		w.say("everything is unchanged\n")
	}
	return err
}

// showVersion prints a version: what is kept with it, its aliases, remarks and history, and what its sweep concluded,
// if that sweep still exists. all also lists its files.
func showVersion(ctx context.Context, w *Setup, v registry.Version, all bool) error {
	about := show.VersionDetails{Version: v}
	about.Metric, _ = chosenBy(ctx, w, v) // what cannot be read is left out
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
	// Damaged events are left out in silence, as long as others can be read: --history and --verify tell of them.
	if about.Events, err = w.registry.History(ctx, v.Model); err != nil && about.Events == nil {
		return err
	}
	if id := sweep.ID(v.Info.Labels["sweep"]); id != "" { // which may have been deleted since
		about.Conclusion, _ = sweepstore.New(w.sweeps, id).Conclusion(ctx)
	}
	w.screen().Version(about, w.Now(), all)
	return nil
}
