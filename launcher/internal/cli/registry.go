package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

func registryCommand(w *World) *cobra.Command {
	cmd := program.Group(&cobra.Command{
		Use:   "registry",
		Short: "Manage registered models",
		Long: "A model is called MODEL, its versions MODEL@3 or MODEL@champion; MODEL alone means the champion (or " +
			"the newest version if there is none).",
		Example: `  launcher registry list
  launcher registry show ctr
  launcher registry history ctr
  launcher registry rollback ctr --why "wrong labels on 20 November"`,
	})
	cmd.AddCommand(registryListCommand(w), registryShowCommand(w), registryPromoteCommand(w),
		registryRollbackCommand(w), registryHistoryCommand(w), registryVerifyCommand(w),
		registryTagCommand(w), registryNoteCommand(w), registryBadCommand(w), registryAliasCommand(w),
		registryDeleteCommand(w),
		registryCompareCommand(w), registryExplainCommand(w), registryReproduceCommand(w),
		registryPushCommand(w), registryPullCommand(w))
	return cmd
}

// splitRef splits MODEL[@REF].
func splitRef(arg string) (model, ref string, err error) {
	model, ref, pinned := strings.Cut(arg, "@")
	if err := sweep.CheckName("model", model); err != nil {
		return "", "", err
	}
	if pinned && ref == "" {
		return "", "", program.Usagef("%q: expected MODEL, MODEL@VERSION or MODEL@ALIAS", arg)
	}
	return model, ref, nil
}

// act says who moves an alias, and why.
func (w *World) act(why string) registry.Act {
	if why == "" {
		why = "by hand"
	}
	by := "launcher"
	if u, err := user.Current(); err == nil && u.Username != "" {
		by = u.Username
	}
	return registry.Act{By: by, Why: why, At: w.Now().UTC()}
}

func registryListCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list [MODEL]",
		Short:   "List models, or the versions of one, the newest night first",
		Example: "  launcher registry list\n  launcher registry list ctr --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.with(cmd.Context(), func(c *cloud) error {
				if len(args) == 0 {
					return w.listModels(cmd, c, asJSON)
				}
				return w.listVersions(cmd, c, args[0], asJSON)
			})
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

func (w *World) listModels(cmd *cobra.Command, c *cloud, asJSON bool) error {
	type model struct {
		Model    string `json:"model"`
		Versions int    `json:"versions"`
		Champion int    `json:"champion,omitempty"`
	}

	names, err := c.registry.Models(cmd.Context())
	if err != nil {
		return err
	}

	out := []model{}
	for _, name := range names {
		versions, err := c.registry.Versions(cmd.Context(), name)
		if err != nil {
			return err
		}
		champion, err := c.champion(cmd, name)
		if err != nil {
			return err
		}
		out = append(out, model{name, len(versions), champion})
	}

	if asJSON {
		return w.printJSON(out)
	}
	t := w.newTable("model", "versions", "champion")
	for _, m := range out {
		t.AppendRow(table.Row{m.Model, m.Versions, version(m.Champion)})
	}
	t.Render()
	return nil
}

func version(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// champion is the version that the alias points at, 0 if there is none.
func (c *cloud) champion(cmd *cobra.Command, model string) (int, error) {
	a, err := c.registry.Alias(cmd.Context(), model, registry.Champion)
	if problem.Of(err) == problem.NotFound {
		return 0, nil
	}
	return a.Version, err
}

func (w *World) listVersions(cmd *cobra.Command, c *cloud, model string, asJSON bool) error {
	if err := sweep.CheckName("model", model); err != nil {
		return err
	}

	versions, err := c.registry.Versions(cmd.Context(), model)
	if err != nil {
		return err
	}
	slices.Reverse(versions) // newest first
	aliases, err := c.registry.Aliases(cmd.Context(), model)
	if err != nil {
		return err
	}
	listed := make([]listedVersion, len(versions))
	for i, v := range versions {
		listed[i] = listedVersion{Version: v, Night: nightOf(v), Aliases: []string{}}
		for _, a := range aliases {
			if a.Version == v.Number {
				listed[i].Aliases = append(listed[i].Aliases, a.Name)
			}
		}
	}

	if asJSON {
		return w.printJSON(listed)
	}
	t := w.newTable("version", "alias", "night", "registered", "sweep", "dataset", "test")
	for _, v := range listed {
		t.AppendRow(table.Row{v.Number, strings.Join(v.Aliases, " "), v.Night, v.Info.At.Format(time.DateTime),
			v.Info.Labels["sweep"], v.Info.Labels["dataset"], metrics(v.Info.Metrics)})
	}
	t.Render()
	return nil
}

// listedVersion is a version with the aliases that point at it.
type listedVersion struct {
	registry.Version
	Night   string   `json:"night"` // its day, in UTC
	Aliases []string `json:"aliases"`
}

// nightOf is the day of a version: for a scheduled sweep that of its slot, which a late or repeated start does not
// change.
func nightOf(v registry.Version) string {
	const slot = "-20060102-1504"
	if id := v.Info.Labels["sweep"]; len(id) > len(slot) {
		if at, err := time.Parse(slot, id[len(id)-len(slot):]); err == nil {
			return at.Format(time.DateOnly)
		}
	}
	return v.Info.At.UTC().Format(time.DateOnly)
}

func registryShowCommand(w *World) *cobra.Command {
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "show MODEL[@VERSION|@ALIAS]",
		Short: "Show a version, or print one of its files",
		Example: `  launcher registry show ctr
  launcher registry show ctr@3 --file model.txt > model.txt`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, ref, err := splitRef(args[0])
			if err != nil {
				return err
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				v, err := c.registry.Get(cmd.Context(), model, ref)
				if err != nil {
					return err
				}

				if file != "" {
					data, err := c.registry.ReadFile(cmd.Context(), v, file)
					if err != nil {
						return err
					}
					return w.printFile(data)
				}

				if asJSON {
					return w.printJSON(v)
				}
				return w.showVersion(cmd, c, v)
			})
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&file, "file", "", "print this file of the version, verified against its SHA-256")
	return cmd
}

func (w *World) showVersion(cmd *cobra.Command, c *cloud, v registry.Version) error {
	champion, err := c.champion(cmd, v.Model)
	if err != nil {
		return err
	}

	name := fmt.Sprintf("%s@%d", v.Model, v.Number)
	if champion == v.Number {
		name += " (champion)"
	}
	rows := [][2]string{{"version", name},
		{"registered", fmt.Sprintf("%s by %s", v.Info.At.Format(time.DateTime), v.Info.By)},
		{"sweep", v.Info.Labels["sweep"] + ", trial " + v.Info.Labels["trial"]}, {"dataset", v.Info.Labels["dataset"]},
		{"because", v.Info.Why}}

	chosen, err := c.chosen(cmd, v)
	if err != nil {
		return err
	}
	if chosen != "" {
		rows = append(rows, [2]string{"parameters", chosen})
	}

	var report struct {
		Valid       map[string]float64 `json:"valid"`
		Calibration *sweep.Calibration `json:"calibration"`
		Verified    *sweep.Verified    `json:"verified"`
	}
	if err := c.readJSON(cmd, v, scorer.FileReport, &report); err != nil {
		return err
	}

	rows = append(rows, [2]string{"valid", metrics(report.Valid)}, [2]string{"test", metrics(v.Info.Metrics)})
	if k := report.Calibration; k != nil {
		rows = append(rows, [2]string{"calibration", k.Method}, [2]string{"test before", metrics(k.Before)},
			[2]string{"test after", metrics(k.After)})
	}
	if r := report.Verified; r != nil {
		rows = append(rows, [2]string{"verified", fmt.Sprintf("%s agrees on %d raw rows", r.Scorer, r.Rows)})
	}
	said, err := w.remarkRows(cmd, c, v)
	if err != nil {
		return err
	}
	rows = append(rows, said...)
	for _, f := range v.Files {
		rows = append(rows, [2]string{f.Name, fmt.Sprintf("%s  sha256 %s", humanize.IBytes(uint64(f.Bytes)), f.SHA256)})
	}

	w.pairs(rows...)
	return nil
}

// chosen lists the parameters of the version's trial that differ from their defaults; empty if unknown.
func (c *cloud) chosen(cmd *cobra.Command, v registry.Version) (string, error) {
	var result sweep.Result
	if err := c.readJSON(cmd, v, scorer.FileResult, &result); err != nil {
		return "", err
	}
	if result.Params == nil {
		return "", nil
	}

	usual := gbt.Defaults().Map()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(result.Params)), func(name string) bool {
		return fmt.Sprint(result.Params[name]) == fmt.Sprint(usual[name])
	})
	if len(names) == 0 {
		return "the defaults", nil
	}
	return settings(result.Params, names), nil
}

// readJSON reads a file of a version, and does nothing if the version has none.
func (c *cloud) readJSON(cmd *cobra.Command, v registry.Version, file string, into any) error {
	if _, ok := v.File(file); !ok {
		return nil
	}
	text, err := c.registry.ReadFile(cmd.Context(), v, file)
	if err != nil {
		return err
	}
	return decodeJSON(v, file, text, into)
}

func decodeJSON(v registry.Version, file string, text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s of %s@%d: %w", file, v.Model, v.Number, err)
	}
	return nil
}

func registryPromoteCommand(w *World) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:     "promote MODEL@VERSION",
		Short:   "Make a version the champion",
		Example: `  launcher registry promote ctr@3 --why "approved by the ranking team"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, ref, err := splitRef(args[0])
			if err != nil {
				return err
			}
			number, err := strconv.Atoi(ref)
			if err != nil {
				return program.Usagef("%q: expected MODEL@VERSION with a number", args[0])
			}

			return w.with(cmd.Context(), func(c *cloud) error {
				now, err := c.champion(cmd, model)
				if err != nil {
					return err
				}
				if now == number {
					fmt.Fprintf(w.Out, "version %d is already the champion of %s\n", number, model)
					return nil
				}
				a, err := c.registry.Promote(cmd.Context(), model, number, registry.Expect{Version: now}, w.act(why))
				return w.moved(a, now, err)
			})
		},
	}

	cmd.Flags().StringVar(&why, "why", "", "reason, for the history")
	return cmd
}

// moved reports the champion's new version.
func (w *World) moved(a registry.Alias, from int, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintf(w.Out, "%s of %s: version %s -> %d\n", a.Name, a.Model, version(from), a.Version)
	return nil
}

func registryRollbackCommand(w *World) *cobra.Command {
	var why string
	var to int
	cmd := &cobra.Command{
		Use:   "rollback MODEL",
		Short: "Make the version before the champion, or an earlier one, the champion again",
		Example: `  launcher registry rollback ctr --why "CTR drops since this morning"
  launcher registry rollback ctr --to 12`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sweep.CheckName("model", args[0]); err != nil {
				return err
			}
			if given := cmd.Flags().Changed("to"); given && to < 1 {
				return program.Usagef("--to is %d: versions count from 1", to)
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				now, err := c.registry.Alias(cmd.Context(), args[0], registry.Champion)
				if err != nil {
					return err
				}
				if now.Version == to {
					fmt.Fprintf(w.Out, "version %d is already the champion of %s\n", to, args[0])
					return nil
				}
				expect := registry.Expect{Version: now.Version}
				back := func() (registry.Alias, error) {
					return c.registry.Rollback(cmd.Context(), args[0], registry.Champion, expect, w.act(why))
				}
				if to > 0 {
					back = func() (registry.Alias, error) {
						return c.registry.RollbackTo(cmd.Context(), args[0], registry.Champion, to, expect, w.act(why))
					}
				}
				a, err := back()
				return w.moved(a, now.Version, err)
			})
		},
	}

	cmd.Flags().IntVar(&to, "to", 0, "a version that was the champion before (default: the previous one)")
	cmd.Flags().StringVar(&why, "why", "", "reason, for the history")
	return cmd
}
