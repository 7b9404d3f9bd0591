package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/show"
)

func registryListCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [MODEL]",
		Short:   "List models, or the versions of one, the newest night first",
		Example: "  launcher registry list\n  launcher registry list ctr --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return w.withCloud(cmd.Context(), func() error { return listModels(cmd.Context(), w) })
			}
			return w.withCloud(cmd.Context(), func() error { return listVersions(cmd.Context(), w, args[0]) })
		},
	}
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}

// listModels prints all models, each with the metric of its champion, or of its newest version if there is no champion.
// A version that cannot be read leaves its columns empty.
func listModels(ctx context.Context, w *Setup) error {
	type model struct {
		Model    string `json:"model"`
		Versions int    `json:"versions"`
		Champion int    `json:"champion,omitempty"`

		Metrics    map[string]float64 `json:"metrics,omitempty"` // on test, of the champion, or else of the newest
		Metric     string             `json:"metric,omitempty"`  // that chose it
		SE         float64            `json:"score_se,omitempty"`
		Registered time.Time          `json:"registered,omitzero"`
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
		champion, err := versionOfAlias(ctx, w, name, registry.Champion)
		if err != nil {
			return err
		}
		m := model{Model: name, Versions: len(versions), Champion: champion}
		// "" is the champion, or else the newest. One that is damaged hides no other.
		if v, err := w.registry.Get(ctx, name, ""); err == nil {
			m.Metrics, m.Registered = v.Info.Metrics, v.Info.At
			m.Metric, m.SE = chosenBy(ctx, w, v)
		}
		all = append(all, m)
	}
	return w.print(all, func() {
		if len(all) == 0 {
			w.printf("no model yet: `launcher fit TABLE --label COLUMN` trains one\n")
			return
		}
		t := w.screen().Table("model", "versions", "champion", page.OwnScore, "age")
		for _, m := range all {
			age := ""
			if !m.Registered.IsZero() {
				age = show.Age(m.Registered, w.Now())
			}
			t.Row(m.Model, m.Versions, show.VersionOf(m.Champion), show.Score(m.Metrics, m.Metric, m.SE), age)
		}
		t.Print()
	})
}

// listVersions prints a model's versions, newest first. Their metrics and standard errors lie in files of their own, so
// these are read several at once. If some versions cannot be read, the others are printed before that error.
func listVersions(ctx context.Context, w *Setup, model string) error {
	versions, damaged := w.registry.Versions(ctx, model)
	if len(versions) == 0 {
		return damaged
	}
	slices.Reverse(versions) // newest first
	aliases, err := w.registry.Aliases(ctx, model)
	if err != nil {
		return err
	}

	listed := show.Listed(versions, aliases)
	var g errgroup.Group
	g.SetLimit(16)
	for i := range listed {
		g.Go(func() error {
			listed[i].Metric, listed[i].SE = chosenBy(ctx, w, listed[i].Version)
			return nil
		})
	}
	_ = g.Wait() // none fails
	err = w.print(listed, func() { w.screen().Versions(listed, w.Now()) })
	return cmp.Or(err, damaged)
}

// chosenBy returns the metric by which a version's sweep has chosen it, and its standard error on test. Both are in the
// version's report. Where that has no interval of the metric, its name is the plan's, and the error 0. What is missing
// or cannot be read is left empty.
func chosenBy(ctx context.Context, w *Setup, v registry.Version) (metric string, se float64) {
	var report struct{ Within sweep.Within }
	_ = w.registry.ReadJSON(ctx, v, scorer.FileReport, &report)
	if report.Within.Metric != "" {
		return report.Within.Metric, report.Within.ErrorOf(report.Within.Metric)
	}

	var plan struct{ Spec struct{ Metric string } }
	_ = w.registry.ReadJSON(ctx, v, scorer.FilePlan, &plan)
	return plan.Spec.Metric, 0
}
