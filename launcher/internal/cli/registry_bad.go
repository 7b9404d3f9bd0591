package cli

import (
	"context"

	"github.com/spf13/cobra"

	"coppice/internal/registry"
)

func registryBadCommand(w *Setup) *cobra.Command {
	var why string
	var undo bool
	cmd := &cobra.Command{
		Use:   "bad MODEL@VERSION --why TEXT",
		Short: "Mark a version bad: never promoted, skipped by rollback",
		Example: `  launcher registry bad ctr@12 --why "labels of 18 November were shuffled"
  launcher registry bad ctr@12 --undo --why "they were not"`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			return w.changeVersion(cmd.Context(), args[0], func(v registry.Version) error {
				if undo {
					err := w.registry.ClearBad(cmd.Context(), v.Model, v.Number, w.actFor(why))
					if err == nil {
						w.printf("%s is not marked bad\n", v.Called())
					}
					return err
				}
				if err := w.registry.MarkBad(cmd.Context(), v.Model, v.Number, w.actFor(why)); err != nil {
					return err
				}
				w.printf("%s is marked bad\n", v.Called())
				return warnLive(cmd.Context(), w, v)
			})
		},
	}
	requireWhy(cmd, &why)
	cmd.Flags().BoolVar(&undo, "undo", false, "remove the mark")
	return cmd
}

// warnLive prints, for each alias that points at the version v, that it still does, and how to move it. v was just
// marked bad.
func warnLive(ctx context.Context, w *Setup, v registry.Version) error {
	aliases, err := w.registry.Aliases(ctx, v.Model)
	if err != nil {
		return err
	}
	for _, a := range aliases {
		switch {
		case a.Version != v.Number: // it is at another version
		case a.Name == registry.Champion && len(a.Past) > 0: // the first champion has nothing to go back to
			w.printf("it is still the champion; to go back to the one before: launcher registry rollback %s\n", v.Model)
		default:
			w.printf("%s still points at it; to move that: launcher registry promote %s@VERSION --alias %s\n", a.Name,
				v.Model, a.Name)
		}
	}
	return nil
}
