package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/launcher/internal/doctor"
	"coppice/terraform"

	setup "coppice/internal/cloud"
)

// Inspection is what the doctor examines.
type Inspection = doctor.Cloud

func doctorCommand(w *World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [SWEEP.yaml]",
		Short: "Check the deployment before anything runs in it, and say how to fix what is wrong",
		Long: `Checks credentials, enabled services, the permissions of each account (terraform/iam.yaml), buckets, topics, subscriptions and
images and, given a sweep, its dataset, its machine types and the quotas that it needs. It only reads. Each finding is ok, a
warning, a problem or not checked, and comes with the command that fixes it. As the launcher's account it sees only that account's
own permissions; with the login of a project owner it sees all of them.

The exit code is 6 if there is a problem, and 0 otherwise. In the local cloud, what does not exist there is not checked.`,
		Example: `  launcher doctor
  launcher doctor sweep.yaml
  launcher doctor sweep.yaml --json
  localemu exec -- launcher doctor sweep.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var file string
			if len(args) > 0 {
				file = args[0]
			}
			return w.doctor(cmd.Context(), file, asJSON)
		},
	}

	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (w *World) doctor(ctx context.Context, file string, asJSON bool) error {
	r, err := w.examine(ctx, file)
	if err != nil {
		return err
	}

	if asJSON {
		err = w.printJSON(r)
	} else {
		w.showReport(r)
	}

	if n := r.Counts[doctor.Problem]; err == nil && n > 0 {
		return &UnwellError{Problems: n, Mends: mends(r)}
	}
	return err
}

// UnwellError reports a deployment in which a sweep would fail.
type UnwellError struct {
	Problems int
	Mends    int // number with a command that fixes them
}

func (e *UnwellError) Error() string {
	switch {
	case e.Mends < e.Problems:
		return english.Plural(e.Problems, "problem", "") + ", see above"
	case e.Problems == 1:
		return "1 problem; the command next to it fixes it"
	}
	return fmt.Sprintf("%d problems; the commands next to them fix them", e.Problems)
}

// IsSetup says that the environment is at fault, permanently.
func (*UnwellError) IsSetup() bool { return true }

// mends counts the problems with a command that fixes them.
func mends(r *doctor.Report) (n int) {
	for _, f := range r.Findings {
		if f.Verdict == doctor.Problem && f.Fix != "" {
			n++
		}
	}
	return n
}

// examine connects and runs all checks. Missing credentials are a finding, not an error.
func (w *World) examine(ctx context.Context, file string) (*doctor.Report, error) {
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
	err = w.with(ctx, func(c *cloud) error {
		d := &doctor.Doctor{Deployment: doctor.Deployment{Deployment: env.Deployment, BatchEnv: env.BatchEnv},
			Table: rights, Cloud: eyes, Datasets: c.datasets, Jobs: c.Plans, Now: w.Now(), Version: w.Version}
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

	spec, err := sweep.ParseSpec(file, text, vocabulary())
	return &doctor.Sweep{File: file, Spec: spec, Err: err}
}

// reportOverhead is the width of a report's other columns with the table's own lines.
const reportOverhead = 34

func (w *World) showReport(r *doctor.Report) {
	t := w.newTable("", "check", "finding")
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: w.textWidth(reportOverhead),
		WidthMaxEnforcer: text.WrapSoft}})

	for _, f := range r.Sorted() {
		finding := f.Where + ": " + f.What
		if strings.HasPrefix(f.What, f.Where+":") { // an error in a file, with line and column
			finding = f.What
		}
		t.AppendRow(table.Row{f.Verdict, f.Check, finding})
	}
	t.Render()

	told := map[string]bool{}
	for _, f := range r.Sorted() { // outside the table, where they can be copied; one command may fix several
		if f.Fix != "" && !told[f.Fix] {
			told[f.Fix] = true
			fmt.Fprintf(w.Out, "# %s, %s: %s\n%s\n", f.Verdict, f.Check, f.Where, f.Fix)
		}
	}

	fmt.Fprintf(w.Out, "%d ok, %s, %s, %d not checked\n", r.Counts[doctor.OK], english.Plural(r.Counts[doctor.Warning],
		"warning", ""),
		english.Plural(r.Counts[doctor.Problem], "problem", ""), r.Counts[doctor.NotChecked])
}
