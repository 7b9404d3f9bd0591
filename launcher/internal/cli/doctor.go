package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/launcher/internal/doctor"
	"coppice/terraform"
)

func doctorCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [SWEEP.yaml]",
		Short: "Check the deployment, and say how to fix what is wrong",
		Long: `Checks what would stop a first run: credentials, enabled services, whether you have the launcher's
permissions, buckets, topics and images and, given a sweep, whether its dataset is staged, its machine types are
offered, and its quotas suffice. It only reads. Each finding is ok, a warning, a problem or not checked, and comes
with the command that fixes it. What the other accounts may do, and every setting, is compared by terraform plan.

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

// runDoctor checks the deployment and prints all findings. file, unless "", is a spec that is checked, too. If there
// are problems, it returns an error of kind Environment, which says whether each has a command that fixes it.
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

// examine connects to the deployment and runs all checks, with those of the spec in the file unless file is "".
func examine(ctx context.Context, w *Setup, file string) (*doctor.Report, error) {
	rights, err := terraform.Load()
	if err != nil {
		return nil, err
	}
	var spec *sweep.Spec
	if file != "" {
		if spec, err = readSpec(file); err != nil {
			return nil, err
		}
	}

	var r *doctor.Report
	err = w.withCloud(ctx, func() error {
		if w.env.Engine == environment.EngineSlurm {
			return program.Usagef("doctor checks a deployment in Google Cloud, and COPPICE_ENGINE is slurm; `sinfo` " +
				"shows a cluster, and `launcher sweep SWEEP.yaml` asks it before it starts anything")
		}
		inspected, err := w.Inspect(ctx, w.env)
		if err != nil {
			return err
		}
		d := &doctor.Doctor{Deployment: w.env.Deployment, Batch: w.env.BatchEnv, Table: rights, Cloud: inspected,
			Datasets: w.datasets, Jobs: w.Jobs, Now: w.Now(), Version: w.Version}
		r, err = d.Examine(ctx, file, spec)
		return err
	})
	return r, err
}

// quotaPatience is how long a plan waits for the project's quotas.
const quotaPatience = 10 * time.Second

// explainQuotas returns notes about the project's quotas that a plan's machines exceed, or that these could not be
// read. It returns nil where there is no project to ask. A plan never fails because of it.
func (w *Setup) explainQuotas(ctx context.Context, p *sweep.Plan) []string {
	if w.Inspect == nil || w.cloud == nil || w.env.Project == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, quotaPatience)
	defer cancel()
	inspected, err := w.Inspect(ctx, w.env)
	if err != nil {
		return []string{fmt.Sprintf("the project's quotas were not compared with its machines: %v", err)}
	}
	return (&doctor.Doctor{Deployment: w.env.Deployment, Batch: w.env.BatchEnv, Cloud: inspected,
		Jobs: w.Jobs}).Quotas(ctx, p)
}
