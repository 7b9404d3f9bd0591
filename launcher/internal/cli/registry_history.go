package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

func registryHistoryCommand(w *World) *cobra.Command {
	var asJSON bool
	var at string
	cmd := &cobra.Command{
		Use:   "history MODEL",
		Short: "Show who registered and moved what, when and why, or what was live at a given time",
		Example: `  launcher registry history ctr
  launcher registry history ctr --at 2026-11-18T14:00`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sweep.CheckName("model", args[0]); err != nil {
				return err
			}
			moment, err := parseMoment(at)
			if err != nil {
				return err
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				events, err := c.registry.History(cmd.Context(), args[0])
				if err != nil && len(events) == 0 {
					return err
				}
				if at != "" {
					return errors.Join(w.printLive(args[0], events, moment, asJSON), err)
				}
				if asJSON {
					return errors.Join(w.printJSON(events), err)
				}

				t := w.newTable("when", "what", "version", "by", "why")
				for _, e := range events {
					to := version(e.To)
					if e.From > 0 {
						to = fmt.Sprintf("%d -> %s", e.From, version(e.To))
					}
					t.AppendRow(table.Row{e.At.Format(time.DateTime), strings.TrimSpace(string(e.Kind) + " " + e.Alias),
						to, e.By, firstLine(e.Why)})
				}
				t.Render()
				return err
			})
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().StringVar(&at, "at", "",
		"show what each alias pointed at then: 2026-11-18T14:00 (UTC), a day, or RFC 3339")
	return cmd
}

// moments are the accepted forms of a time; without a zone it is UTC.
var moments = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime,
	"2006-01-02 15:04"}

// parseMoment parses --at. A day alone means its end.
func parseMoment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range moments {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t.AddDate(0, 0, 1).Add(-time.Nanosecond), nil
	}
	return time.Time{}, program.Usagef("--at %q: give a time such as 2026-11-18T14:00 (UTC), "+
		"2026-11-18T14:00:00+01:00, or a day", text)
}

// printLive prints where each alias pointed at a time.
func (w *World) printLive(model string, events []registry.Event, at time.Time, asJSON bool) error {
	var aliases []string
	seen := map[string]bool{}
	for _, e := range events {
		if e.Alias != "" && !seen[e.Alias] {
			seen[e.Alias] = true
			aliases = append(aliases, e.Alias)
		}
	}

	live := []registry.Event{}
	for _, alias := range aliases {
		if e, ok := registry.Live(events, alias, at); ok {
			live = append(live, e)
		}
	}

	if asJSON {
		return w.printJSON(live)
	}
	if len(live) == 0 {
		fmt.Fprintf(w.Out, "%s: nothing was live at %s UTC\n", model, at.Format(time.DateTime))
		return nil
	}
	t := w.newTable("alias", "version", "since", "by", "why")
	for _, e := range live {
		t.AppendRow(table.Row{e.Alias, e.To, e.At.Format(time.DateTime), e.By, firstLine(e.Why)})
	}
	t.Render()
	return nil
}

// sums matches the values of --head.
var sums = regexp.MustCompile(`^[0-9a-f]{64}$`)

func registryVerifyCommand(w *World) *cobra.Command {
	var asJSON bool
	var head string
	cmd := &cobra.Command{
		Use:   "verify [MODEL]",
		Short: "Check every file's checksum and every history along its chain",
		Long: `Reads everything in the registry about a model, or about all models: compares each version's files with their registered checksums,
follows each history move by move (each holds the SHA-256 of the previous move and of the record of the version that it made live), and
checks that each alias is where its history ends. Prints the end of each history. Write that SHA-256 down elsewhere, and --head can
later check that it is still part of the history: then nothing up to it was changed, not even by someone who rewrote the whole chain.`,
		Example: `  launcher registry verify
  launcher registry verify ctr --head 8c1f...`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if head != "" && (len(args) == 0 || !sums.MatchString(head)) {
				return program.Usagef("--head %q: give the 64 digits that verify printed, and the model", head)
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				models := args
				if len(args) == 0 {
					var err error
					if models, err = c.registry.Models(cmd.Context()); err != nil {
						return err
					}
				}
				return w.verifyModels(cmd, c, models, head, asJSON)
			})
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().StringVar(&head, "head", "",
		"SHA-256 of a move that must be in the model's history, as verify printed it")
	return cmd
}

func (w *World) verifyModels(cmd *cobra.Command, c *cloud, models []string, head string, asJSON bool) error {
	verified := []*registry.Verified{}
	var errs []error
	for _, model := range models {
		v, err := c.registry.Verify(cmd.Context(), model)
		errs = append(errs, err)
		if v == nil {
			continue
		}
		verified = append(verified, v)
		if head != "" && !v.Has(head) {
			errs = append(errs, registry.Damaged("the history of "+model,
				errors.New("no move in it has the SHA-256 that --head gives; it was rewritten since that was "+
					"noted")))
		}
	}

	if asJSON {
		return errors.Join(append(errs, w.printJSON(verified))...)
	}
	t := w.newTable("model", "versions", "files", "alias", "points at", "moves", "head")
	for _, v := range verified {
		files := fmt.Sprintf("%d, %s", v.Files, humanize.IBytes(uint64(v.Bytes)))
		if len(v.Heads) == 0 {
			t.AppendRow(table.Row{v.Model, v.Versions, files, "-", "-", 0, ""})
		}
		for _, h := range v.Heads {
			t.AppendRow(table.Row{v.Model, v.Versions, files, h.Alias, version(h.Version), h.Sequence, h.SHA256})
		}
	}
	t.Render()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintln(w.Out, "everything is unchanged")
	return nil
}
