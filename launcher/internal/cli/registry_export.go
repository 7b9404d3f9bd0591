package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/mlflow"
)

type exportFlags struct {
	mlflow   string
	register bool
	json     bool
}

// server reports whether the target is a tracking server. Servers that do not speak MLflow's REST interface are
// rejected.
func (f exportFlags) server() (bool, error) {
	scheme, _, remote := strings.Cut(f.mlflow, "://")
	switch {
	case remote && (scheme == "http" || scheme == "https"):
		return true, nil
	case remote || f.mlflow == "databricks":
		// The rest may hold a secret.
		return false, program.Usagef("--mlflow: %s is not supported; give a folder, or the http(s) address of a "+
			"tracking server", scheme)
	case f.register:
		return false, program.Usagef("--register is for a tracking server; %s is a folder", f.mlflow)
	}
	return false, program.CheckOutFolder("--mlflow", f.mlflow)
}

func registryExportCommand(w *World) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export MODEL[@VERSION|@ALIAS] --mlflow DIR|URL",
		Short: "Write a version as a run of MLflow",
		Long: `Adds a run to an MLflow tracking server, or to a folder that is MLflow's file store: parameters, metrics on valid and test, tags, the dataset,
and the model with all files of the version. mlflow.pyfunc.load_model takes raw rows and gives the calibrated predictions of "launcher predict",
through the Python package coppice (python/); mlflow.lightgbm.load_model gives LightGBM's Booster.

A server has to accept artifacts itself (mlflow server --serve-artifacts). Credentials are read as MLflow does, from MLFLOW_TRACKING_USERNAME and
MLFLOW_TRACKING_PASSWORD or MLFLOW_TRACKING_TOKEN, and sent over https only, except to this machine. Exporting a version to a server again changes
nothing, or completes what was interrupted; a folder that has it already is refused.`,
		Example: `  launcher registry export ctr --mlflow mlruns
  MLFLOW_TRACKING_TOKEN=... launcher registry export ctr@12 --mlflow https://mlflow.example.com --register`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, ref, err := splitRef(args[0])
			if err != nil {
				return err
			}
			if _, err := f.server(); err != nil {
				return err
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

	cmd.Flags().StringVar(&f.mlflow, "mlflow", "",
		"folder of the file store, or address of the tracking server (required)")
	cmd.Flags().BoolVar(&f.register, "register", false,
		"also make it a version of the server's registered model of the same name")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("mlflow")
	return cmd
}

func (w *World) export(ctx context.Context, c *cloud, v registry.Version, f exportFlags) error {
	q := mlflow.Request{Version: v, Files: map[string][]byte{}, Result: &sweep.Result{}, Program: w.Version}
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

	out, err := f.write(ctx, c, q)
	if err != nil {
		return err
	}
	if f.json {
		return w.printJSON(out)
	}
	existed := ""
	if out.Existed {
		existed = "already "
	}
	fmt.Fprintf(w.Out, "%s@%d is %srun %s of experiment %s (%s) in %s\n", v.Model, v.Number, existed, out.Run,
		out.Experiment, v.Model, f.mlflow)
	if out.Registered != "" {
		fmt.Fprintf(w.Out, "and version %s of its registered model %s\n", out.Registered, v.Model)
	}
	fmt.Fprintf(w.Out, "mlflow.pyfunc.load_model(%q)\n", out.Model)
	return nil
}

// write exports to a server or a folder.
func (f exportFlags) write(ctx context.Context, c *cloud, q mlflow.Request) (*mlflow.Exported, error) {
	remote, err := f.server()
	if err != nil {
		return nil, err
	}
	if remote {
		server, err := c.Tracking(f.mlflow)
		if err != nil {
			return nil, err
		}
		return mlflow.Send(ctx, server, q, f.register)
	}

	if err := os.MkdirAll(f.mlflow, 0o755); err != nil {
		return nil, err
	}
	q.Dir = f.mlflow
	return mlflow.Write(q)
}
