package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"coppice/internal/gbt"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
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
	name := fmt.Sprintf("%s@%d", v.Model, v.Number)
	aliases, err := w.registry.Aliases(ctx, v.Model)
	if err != nil {
		return err
	}
	var others []string
	for _, a := range aliases {
		switch {
		case a.Version != v.Number:
		case a.Name == registry.Champion:
			name += " (champion)"
		default:
			others = append(others, a.Name)
		}
	}

	var result sweep.Result
	var report struct {
		Valid       map[string]float64 `json:"valid"`
		Calibration *sweep.Calibration `json:"calibration"`
		Verified    *sweep.Verified    `json:"verified"`
	}
	for file, into := range map[string]any{scorer.FileResult: &result, scorer.FileReport: &report} {
		if _, ok := v.File(file); !ok { // it was not registered by a sweep
			continue
		}
		if err := w.registry.ReadJSON(ctx, v, file, into); err != nil {
			return err
		}
	}
	remarks, err := w.registry.Remarks(ctx, v.Model, v.Number)
	if err != nil {
		return err
	}

	rows := [][2]string{{"version", name},
		{"registered", fmt.Sprintf("%s by %s", v.Info.At.Format(time.DateTime), v.Info.By)},
		{"sweep", v.Info.Labels["sweep"]}, {"trial", v.Info.Labels["trial"]}, {"dataset", v.Info.Labels["dataset"]},
		{"because", v.Info.Why}, {"parameters", chosen(result.Params)}, {"valid", show.Metrics(report.Valid)},
		{"test", show.Metrics(v.Info.Metrics)}}
	if k := report.Calibration; k != nil {
		rows = append(rows, [2]string{"calibration", k.Method}, [2]string{"test before", show.Metrics(k.Before)},
			[2]string{"test after", show.Metrics(k.After)})
	}
	if r := report.Verified; r != nil {
		rows = append(rows, [2]string{"verified", fmt.Sprintf("%s agrees on %d raw rows", r.Scorer, r.Rows)})
	}

	remark := func(label string, a registry.Remark) {
		rows = append(rows, [2]string{label, fmt.Sprintf("%s (%s, %s)", a.Why, a.By, a.At.Format(time.DateTime))})
	}
	if bad, ok := remarks.Bad(); ok {
		remark("bad", bad)
	}
	rows = append(rows, [2]string{"aliases", strings.Join(others, ", ")})
	if len(remarks.Tags()) > 0 {
		rows = append(rows, [2]string{"tags", tags(remarks)})
	}
	for _, n := range remarks.Notes() {
		remark("note", n)
	}
	for _, f := range v.Files {
		rows = append(rows, [2]string{f.Name, fmt.Sprintf("%s, sha256 %.16s…", humanize.IBytes(uint64(f.Bytes)),
			f.SHA256)})
	}
	w.screen().Pairs(rows...)
	return nil
}

// chosen lists the parameters that differ from their defaults; empty if they are unknown.
func chosen(params sweep.Params) string {
	if params == nil {
		return ""
	}
	usual := gbt.Defaults().Map()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(params)), func(name string) bool {
		return fmt.Sprint(params[name]) == fmt.Sprint(usual[name])
	})
	if len(names) == 0 {
		return "the defaults"
	}
	return show.Settings(params, names)
}
