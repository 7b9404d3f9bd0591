package cli

import (
	"context"
	"errors"
	"io/fs"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/launcher/internal/doctor"
	"coppice/launcher/internal/plan"
	"coppice/terraform"

	setup "coppice/internal/cloud"
)

func doctorCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [SWEEP.yaml]",
		Short: "Check the deployment, and say how to fix what is wrong",
		Long: `Checks credentials, enabled services, the permissions of each account (terraform/iam.yaml), buckets,
topics, subscriptions and images and, given a sweep, its dataset, its machine types and the quotas that it needs. It
only reads. Each finding is ok, a warning, a problem or not checked, and comes with the command that fixes it. As
the launcher's account it sees only that account's own permissions; with the login of a project owner it sees all of
them.

The exit code is 6 if there is a problem, and 0 otherwise. In the local cloud, what does not exist there is not
checked.`,
		Example: `  launcher doctor
  launcher doctor sweep.yaml
  launcher doctor sweep.yaml --json
  localemu exec -- launcher doctor sweep.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var file string
			if len(args) > 0 {
				file = args[0]
			}
			return runDoctor(cmd.Context(), w, file)
		},
	}

	w.jsonFlag(cmd, "print JSON")
	return cmd
}

func runDoctor(ctx context.Context, w *Setup, file string) error {
	r, err := examine(ctx, w, file)
	if err != nil {
		return err
	}

	if err := w.print(r, func() { w.screen().Checks(r) }); err != nil {
		return err
	}

	problems, fixed := r.Counts[doctor.Problem], 0
	for _, f := range r.Findings {
		if f.Verdict == doctor.Problem && f.Fix != "" {
			fixed++
		}
	}
	switch {
	case problems == 0:
		return nil
	case fixed < problems:
		return problem.New(problem.Environment, "%s, see above", english.Plural(problems, "problem", ""))
	case problems == 1:
		return problem.New(problem.Environment, "1 problem; the command next to it fixes it")
	}
	return problem.New(problem.Environment, "%d problems; the commands next to them fix them", problems)
}

// examine connects and runs all checks. Missing credentials are a finding, not an error.
func examine(ctx context.Context, w *Setup, file string) (*doctor.Report, error) {
	rights, err := terraform.Load()
	if err != nil {
		return nil, err
	}

	var env Env
	if err := w.Environment(ctx, &env, remedy); err != nil {
		return nil, err
	}

	var unset *setup.SetupError
	eyes, err := w.Inspect(ctx, env)
	if errors.As(err, &unset) {
		return doctor.NoCredentials(err), nil
	}
	if err != nil {
		return nil, err
	}

	var r *doctor.Report
	err = w.with(ctx, func() error {
		d := &doctor.Doctor{Deployment: doctor.Target{Deployment: env.Deployment, BatchEnv: env.BatchEnv},
			Table: rights, Cloud: eyes, Datasets: w.datasets, Jobs: w.Plans, Now: w.Now(), Version: w.Version}
		r, err = d.Examine(ctx, readSweep(file))
		return err
	})
	return r, err
}

// readSweep reads the spec; an error in it is a finding, too.
func readSweep(file string) *doctor.Sweep {
	if file == "" {
		return nil
	}

	text, err := strictyaml.ReadFile(file)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) { // the finding names the file
			err = path.Err
		}
		return &doctor.Sweep{File: file, Err: err}
	}

	spec, err := sweep.ParseSpec(file, text, plan.Vocabulary())
	return &doctor.Sweep{File: file, Spec: spec, Err: err}
}
