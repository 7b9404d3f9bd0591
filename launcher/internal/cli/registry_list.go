package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/registry"
	"coppice/launcher/internal/show"
)

func registryListCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [MODEL]",
		Short:   "List models, or the versions of one, the newest night first",
		Example: "  launcher registry list\n  launcher registry list ctr --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return w.with(cmd.Context(), func() error { return listModels(cmd.Context(), w) })
			}
			return w.with(cmd.Context(), func() error { return listVersions(cmd.Context(), w, args[0]) })
		},
	}
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}

func listModels(ctx context.Context, w *Setup) error {
	type model struct {
		Model    string `json:"model"`
		Versions int    `json:"versions"`
		Champion int    `json:"champion,omitempty"`
	}

	names, err := w.registry.Models(ctx)
	if err != nil {
		return err
	}
	all := []model{}
	for _, name := range names {
		versions, err := w.registry.Numbers(ctx, name)
		if err != nil {
			return err
		}
		champion, err := aliased(ctx, w, name, registry.Champion)
		if err != nil {
			return err
		}
		all = append(all, model{name, len(versions), champion})
	}
	return w.print(all, func() {
		t := w.screen().Table("model", "versions", "champion")
		for _, m := range all {
			t.Row(m.Model, m.Versions, version(m.Champion))
		}
		t.Print()
	})
}

// listedVersion is a version with the aliases that point at it.
type listedVersion struct {
	registry.Version
	Night   string   `json:"night"` // as nightOf
	Aliases []string `json:"aliases"`
}

func listVersions(ctx context.Context, w *Setup, model string) error {
	versions, err := w.registry.Versions(ctx, model)
	if err != nil {
		return err
	}
	slices.Reverse(versions) // newest first
	aliases, err := w.registry.Aliases(ctx, model)
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
	return w.print(listed, func() {
		t := w.screen().Table("version", "alias", "night", "registered", "sweep", "dataset", "test")
		for _, v := range listed {
			t.Row(v.Number, strings.Join(v.Aliases, " "), v.Night, v.Info.At.Format(time.DateTime),
				v.Info.Labels["sweep"], v.Info.Labels["dataset"], show.Metrics(v.Info.Metrics))
		}
		t.Print()
	})
}

// nightOf is the night of a version, which a late or repeated start does not change: the slot of a scheduled sweep, or
// a day at the end of another's id. It is empty if the id has neither: a version may be registered on any day.
func nightOf(v registry.Version) string {
	id := v.Info.Labels["sweep"]
	for _, end := range []string{"-20060102-1504", "-20060102"} {
		if at, err := time.Parse(end, id[max(0, len(id)-len(end)):]); err == nil {
			return at.Format(time.DateOnly)
		}
	}
	return ""
}
