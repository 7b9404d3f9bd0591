package cli

import (
	"context"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/launcher/internal/show"
)

func registryTagCommand(w *Setup) *cobra.Command {
	var why string
	var remove []string
	cmd := &cobra.Command{
		Use:   "tag MODEL@VERSION [NAME=VALUE ...]",
		Short: "Set tags of a version, or remove some",
		Example: `  launcher registry tag ctr@3 team=ranking reviewed=yes
  launcher registry tag ctr@3 --remove reviewed`,
		RunE: func(cmd *cobra.Command, args []string) error {
			set := map[string]string{}
			for _, pair := range args[1:] {
				name, value, _ := strings.Cut(pair, "=")
				set[name] = value
			}
			if len(set)+len(remove) == 0 {
				return program.Usagef("give at least one NAME=VALUE, or --remove NAME")
			}
			return w.changeVersion(cmd.Context(), args[0], func(v registry.Version, name string) error {
				m, err := w.registry.Tag(cmd.Context(), v.Model, v.Number, set, remove, w.act(why))
				if err != nil {
					return err
				}
				w.printf("%s: %s\n", name, show.Tags(m))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "reason, for the history")
	cmd.Flags().StringSliceVar(&remove, "remove", nil, "names of tags to remove")
	return cmd
}

func registryNoteCommand(w *Setup) *cobra.Command {
	return &cobra.Command{
		Use:     "note MODEL@VERSION TEXT",
		Short:   "Add a note to a version",
		Example: `  launcher registry note ctr@3 "trained on the day of the outage; its test rows are few"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.changeVersion(cmd.Context(), args[0], func(v registry.Version, name string) error {
				m, err := w.registry.Note(cmd.Context(), v.Model, v.Number, w.act(args[1]))
				if err != nil {
					return err
				}
				w.printf("%s: %s\n", name, english.Plural(len(m.Notes()), "note", ""))
				return nil
			})
		},
	}
}

func registryBadCommand(w *Setup) *cobra.Command {
	var why string
	var undo bool
	cmd := &cobra.Command{
		Use:   "bad MODEL@VERSION --why TEXT",
		Short: "Mark a version bad: never promoted, skipped by rollback",
		Example: `  launcher registry bad ctr@12 --why "labels of 18 November were shuffled"
  launcher registry bad ctr@12 --undo --why "they were not"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(why) == "" {
				return program.Usagef("--why is required: later readers of the mark know nothing else")
			}
			return w.changeVersion(cmd.Context(), args[0], func(v registry.Version, name string) error {
				if undo {
					_, err := w.registry.ClearBad(cmd.Context(), v.Model, v.Number, w.act(why))
					if err == nil {
						w.printf("%s is not marked bad\n", name)
					}
					return err
				}
				if _, err := w.registry.MarkBad(cmd.Context(), v.Model, v.Number, w.act(why)); err != nil {
					return err
				}
				w.printf("%s is marked bad\n", name)
				return warnLive(cmd.Context(), w, v)
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "reason (required)")
	cmd.Flags().BoolVar(&undo, "undo", false, "remove the mark")
	return cmd
}

// warnLive warns if an alias points at a version that is marked bad.
func warnLive(ctx context.Context, w *Setup, v registry.Version) error {
	aliases, err := w.registry.Aliases(ctx, v.Model)
	if err != nil {
		return err
	}
	for _, a := range aliases {
		switch {
		case a.Version != v.Number:
		case a.Name == registry.Champion:
			w.printf("it is still the champion; to go back to the one before: launcher registry rollback %s\n", v.Model)
		default:
			w.printf("%s still points at it; to move that: launcher registry alias %s@VERSION %s\n", a.Name, v.Model,
				a.Name)
		}
	}
	return nil
}
