package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"coppice/dataset"
	"coppice/launcher/internal/mlflow"
	"coppice/program"
	"coppice/registry"
	"coppice/scorer"
	"coppice/sweep"
)

type exportFlags struct {
	mlflow string
	json   bool
}

func registryExportCommand(w *World) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export MODEL[@VERSION|@ALIAS] --mlflow DIR",
		Short: "Write a version as a run of an MLflow file store",
		Long: `Adds a run to a folder that MLflow uses as its tracking store: parameters, metrics on valid and test, tags, the dataset, and the model with
all files of the version. mlflow.pyfunc.load_model takes raw rows and gives the calibrated predictions of "launcher predict", through the Python
package coppice (python/); mlflow.lightgbm.load_model gives LightGBM's Booster. Tracking servers are not supported.`,
		Example: "  launcher registry export ctr --mlflow mlruns",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, ref, err := splitRef(args[0])
			if err != nil {
				return err
			}
			if scheme, _, remote := strings.Cut(f.mlflow, "://"); remote || f.mlflow == "databricks" {
				return program.Usagef("--mlflow %s: %s is not supported; give a folder, and import it from there", f.mlflow, scheme)
			}
			return w.with(cmd.Context(), func(c *cloud) error {
				v, err := c.registry.Get(cmd.Context(), model, ref)
				if err != nil {
					return err
				}
				return w.export(cmd.Context(), c, v, f)
			})
		},
	}
	cmd.Flags().StringVar(&f.mlflow, "mlflow", "", "folder of the file store (required)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("mlflow")
	return cmd
}

func (w *World) export(ctx context.Context, c *cloud, v registry.Version, f exportFlags) error {
	q := mlflow.Request{Dir: f.mlflow, Version: v, Files: map[string][]byte{}, Result: &sweep.Result{}, Program: w.Version}
	var err error
	for _, file := range v.Files {
		if q.Files[file.Name], err = c.registry.ReadFile(ctx, v, file.Name); err != nil {
			return err
		}
	}

	// A version not registered by a sweep has no trial.
	if text, ok := q.Files[scorer.FileResult]; ok {
		if err := decodeJSON(v, scorer.FileResult, text, q.Result); err != nil {
			return err
		}
	}
	if q.Manifest, err = dataset.DecodeManifest(q.Files[scorer.FileDataset]); err != nil {
		return fmt.Errorf("%s: %w", scorer.FileDataset, err)
	}
	s, err := scorer.OpenMapped(ctx, c.registry, v, w.levelsCache())
	if err != nil {
		return err
	}
	defer s.Close()
	q.Inputs = s.Columns() // including those that it is calibrated by

	if err := os.MkdirAll(f.mlflow, 0o755); err != nil {
		return err
	}
	out, err := mlflow.Write(q)
	if err != nil {
		return err
	}
	if f.json {
		return w.printJSON(out)
	}
	fmt.Fprintf(w.Out, "%s@%d is run %s of experiment %s (%s) in %s\nmlflow.pyfunc.load_model(%q)\n", v.Model, v.Number, out.Run, out.Experiment, v.Model, f.mlflow, out.Model)
	return nil
}
