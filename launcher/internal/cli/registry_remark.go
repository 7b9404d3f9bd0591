package cli

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/registry"
)

// onVersion runs do for one version, given as MODEL@VERSION or MODEL@ALIAS.
func (w *World) onVersion(cmd *cobra.Command, arg string, do func(c *cloud, v registry.Version) error) error {
	model, ref, err := splitRef(arg)
	if err != nil {
		return err
	}
	if ref == "" {
		return program.Usagef("%q: say which version: %s@VERSION or %s@ALIAS", arg, model, model)
	}

	return w.with(cmd.Context(), func(c *cloud) error {
		v, err := c.registry.Get(cmd.Context(), model, ref)
		if err != nil {
			return err
		}
		return do(c, v)
	})
}

func registryTagCommand(w *World) *cobra.Command {
	var why string
	var remove []string
	cmd := &cobra.Command{
		Use:   "tag MODEL@VERSION [NAME=VALUE ...]",
		Short: "Set tags of a version, or remove some",
		Example: "  launcher registry tag ctr@3 team=ranking reviewed=yes\n  launcher registry tag ctr@3 --remove " +
			"reviewed",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set := map[string]string{}
			for _, pair := range args[1:] {
				name, value, _ := strings.Cut(pair, "=")
				set[name] = value
			}
			if len(set)+len(remove) == 0 {
				return program.Usagef("give at least one NAME=VALUE, or --remove NAME")
			}
			return w.onVersion(cmd, args[0], func(c *cloud, v registry.Version) error {
				m, err := c.registry.Tag(cmd.Context(), v.Model, v.Number, set, remove, w.act(why))
				if err != nil {
					return err
				}
				fmt.Fprintf(w.Out, "%s@%d: %s\n", v.Model, v.Number, tags(m))
				return nil
			})
		},
	}

	cmd.Flags().StringVar(&why, "why", "", "reason, for the history")
	cmd.Flags().StringSliceVar(&remove, "remove", nil, "names of tags to remove")
	return cmd
}

// tags formats the tags as NAME=VALUE.
func tags(m registry.Remarks) string {
	all := m.Tags()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, strings.TrimSuffix(name+"="+all[name], "="))
	}
	if len(parts) == 0 {
		return "no tags"
	}
	return strings.Join(parts, ", ")
}

func registryNoteCommand(w *World) *cobra.Command {
	return &cobra.Command{
		Use:     "note MODEL@VERSION TEXT",
		Short:   "Add a note to a version",
		Example: `  launcher registry note ctr@3 "trained on the day of the outage; its test rows are few"`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.onVersion(cmd, args[0], func(c *cloud, v registry.Version) error {
				m, err := c.registry.Note(cmd.Context(), v.Model, v.Number, w.act(args[1]))
				if err != nil {
					return err
				}
				fmt.Fprintf(w.Out, "%s@%d has %d notes\n", v.Model, v.Number, len(m.Notes()))
				return nil
			})
		},
	}
}

func registryBadCommand(w *World) *cobra.Command {
	var why string
	var undo bool
	cmd := &cobra.Command{
		Use:   "bad MODEL@VERSION --why TEXT",
		Short: "Mark a version bad: no alias can be moved to it, and rollback skips it",
		Example: `  launcher registry bad ctr@12 --why "labels of 18 November were shuffled"
  launcher registry bad ctr@12 --undo --why "they were not"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(why) == "" {
				return program.Usagef("give --why; it is all that later readers of the mark will know")
			}
			return w.onVersion(cmd, args[0], func(c *cloud, v registry.Version) error {
				if undo {
					if _, err := c.registry.ClearBad(cmd.Context(), v.Model, v.Number, w.act(why)); err != nil {
						return err
					}
					fmt.Fprintf(w.Out, "%s@%d is not marked bad\n", v.Model, v.Number)
					return nil
				}

				if _, err := c.registry.MarkBad(cmd.Context(), v.Model, v.Number, w.act(why)); err != nil {
					return err
				}
				fmt.Fprintf(w.Out, "%s@%d is marked bad\n", v.Model, v.Number)
				return w.warnLive(cmd.Context(), c, v)
			})
		},
	}

	cmd.Flags().StringVar(&why, "why", "", "reason (required)")
	cmd.Flags().BoolVar(&undo, "undo", false, "remove the mark")
	return cmd
}

// warnLive warns if an alias points at a version that is marked bad.
func (w *World) warnLive(ctx context.Context, c *cloud, v registry.Version) error {
	aliases, err := c.registry.Aliases(ctx, v.Model)
	if err != nil {
		return err
	}

	for _, a := range aliases {
		switch {
		case a.Version != v.Number:
		case a.Name == registry.Champion:
			fmt.Fprintf(w.Out, "it is still the champion; to go back to the one before: launcher registry rollback "+
				"%s\n", v.Model)
		default:
			fmt.Fprintf(w.Out, "%s still points at it; to move that: launcher registry alias %s@VERSION %s\n", a.Name,
				v.Model, a.Name)
		}
	}

	return nil
}

func registryAliasCommand(w *World) *cobra.Command {
	var why string
	var remove bool
	cmd := &cobra.Command{
		Use:   "alias MODEL@VERSION NAME",
		Short: "Point an alias of your own at a version, such as canary",
		Long: `Points an alias at a version; who, why and when are kept like those of the champion. predict --model MODEL@NAME then uses it. The champion
is moved by promote and rollback.`,
		Example: `  launcher registry alias ctr@12 canary --why "5 % of the traffic from today"
  launcher registry alias ctr@canary canary --remove`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[1]
			if name == registry.Champion {
				return program.Usagef("the champion is moved by `launcher registry promote` and `rollback`")
			}
			if _, err := strconv.Atoi(name); err == nil {
				return program.Usagef("%q would be read as a version's number", name)
			}
			return w.onVersion(cmd, args[0], func(c *cloud, v registry.Version) error {
				if remove {
					if _, err := c.registry.RemoveAlias(cmd.Context(), v.Model, name,
						registry.Expect{Version: v.Number}, w.act(why)); err != nil {
						return err
					}
					fmt.Fprintf(w.Out, "%s of %s is removed\n", name, v.Model)
					return nil
				}

				now, err := c.registry.Alias(cmd.Context(), v.Model, name)
				if err != nil && problem.Of(err) != problem.NotFound {
					return err
				}
				a, err := c.registry.SetAlias(cmd.Context(), v.Model, name, v.Number,
					registry.Expect{Version: now.Version}, w.act(why))
				return w.moved(a, now.Version, err)
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "reason, for the history")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the alias")
	return cmd
}

func registryDeleteCommand(w *World) *cobra.Command {
	var why string
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete MODEL@VERSION --why TEXT",
		Short: "Delete a version for good, unless an alias points at it",
		Long: `Hides a version for good: it is no longer listed or found, and neither its number nor its sweep is used again. A version that an alias
points at is never deleted. The history records who, why and when. The files stay in the bucket until its owner removes them: launcher clean
--dry-run lists them. Asks first, unless --yes is given.`,
		Example: `  launcher registry delete ctr@4 --why "trained on data that had to go"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(why) == "" {
				return program.Usagef("give --why; it is all that remains of the version")
			}
			return w.onVersion(cmd, args[0], func(c *cloud, v registry.Version) error {
				name := fmt.Sprintf("%s@%d", v.Model, v.Number)
				if args[0] != name {
					return program.Usagef("%q: give the version's number, %s", args[0], name)
				}
				if !yes {
					if err := w.confirm(fmt.Sprintf("%s, registered %s by %s, will be gone for good.", name,
						v.Info.At.Format(time.DateTime), v.Info.By), name); err != nil {
						return err
					}
				}
				if err := c.registry.Delete(cmd.Context(), v.Model, v.Number, w.act(why)); err != nil {
					return err
				}
				fmt.Fprintf(w.Out, "%s is deleted\n", name)
				return nil
			})
		},
	}

	cmd.Flags().StringVar(&why, "why", "", "reason (required)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirm asks a person to type a name before something irreversible.
func (w *World) confirm(what, name string) error {
	if w.In == nil {
		return program.Usagef("cannot ask here; use --yes")
	}
	fmt.Fprintf(w.Out, "%s\nType %s to continue: ", what, name)
	line, _ := bufio.NewReader(w.In).ReadString('\n')
	if strings.TrimSpace(line) != name {
		return program.Usagef("that is not %s; nothing was changed", name)
	}
	return nil
}

// remarkRows returns the rows of `registry show` about remarks on a version.
func (w *World) remarkRows(cmd *cobra.Command, c *cloud, v registry.Version) ([][2]string, error) {
	m, err := c.registry.Remarks(cmd.Context(), v.Model, v.Number)
	if err != nil {
		return nil, err
	}
	aliases, err := c.registry.Aliases(cmd.Context(), v.Model)
	if err != nil {
		return nil, err
	}

	var rows [][2]string
	if bad, ok := m.Bad(); ok {
		rows = append(rows, [2]string{"bad", fmt.Sprintf("%s (%s, %s)", bad.Why, bad.By, bad.At.Format(time.DateTime))})
	}
	var names []string
	for _, a := range aliases {
		if a.Version == v.Number && a.Name != registry.Champion {
			names = append(names, a.Name)
		}
	}
	if len(names) > 0 {
		rows = append(rows, [2]string{"aliases", strings.Join(names, ", ")})
	}
	if len(m.Tags()) > 0 {
		rows = append(rows, [2]string{"tags", tags(m)})
	}
	for _, n := range m.Notes() {
		rows = append(rows, [2]string{"note", fmt.Sprintf("%s (%s, %s)", n.Why, n.By, n.At.Format(time.DateTime))})
	}
	return rows, nil
}
