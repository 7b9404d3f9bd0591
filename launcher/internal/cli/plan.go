package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/machines"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/quote"
	"coppice/launcher/internal/stager"
)

// assumptionFlags set what a quote cannot know.
type assumptionFlags struct{ quote.Assumptions }

func (f *assumptionFlags) add(cmd *cobra.Command) {
	f.Assumptions = quote.Assumed()
	f.AddFlags(cmd)
}

// readPrices returns the prices of the file that COPPICE_PRICES names, if any, followed by the built-in ones: the first
// price of a machine counts.
func (w *Setup) readPrices() (machines.Prices, error) {
	file, _ := w.Env.Lookup("COPPICE_PRICES")
	if file == "" {
		return machines.Embedded(), nil
	}
	data, err := strictyaml.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := machines.ReadPrices(file, data)
	return slices.Concat(p, machines.Embedded()), err
}

type planFlags struct {
	assumptionFlags
	quote.Wish
	file     string // SWEEP.yaml
	region   string // of the prices
	rows     int
	features int
}

func planCommand(w *Setup) *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan SWEEP.yaml",
		Short: "Compare machine types for a sweep: tasks, memory, hours, cost",
		Long: `Shows what the sweep would need on its own machine type and on others, on Spot and on demand, and
which is the cheapest that finishes in time, at the prices of the region $COPPICE_LOCATION or us-central1, and of the
file $COPPICE_PRICES, if set. Nothing is written or submitted. With --rows and --features the dataset
need not exist, and no cloud is used.

Hours come from a calibration (docs/run.md) and assume that every tree is grown; the range in brackets shows the
uncertainty. Local SSDs are in the price; Cloud Storage, Pub/Sub, Cloud Run and network are not.`,
		Example: `  launcher plan sweep.yaml
  launcher plan sweep.yaml --within 1h --machines n2-highmem-64,c3d-highmem-60-lssd,c4d-highmem-64-lssd
  launcher plan sweep.yaml --rows 130000000 --features 40 --json`,
		RunE: func(cmd *cobra.Command, args []string) error { // args[0] is there, as Use says
			if err := program.RefuseZero(cmd, "vms", "within", "budget", "rows", "features"); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			f.file = args[0]
			return runPlan(cmd.Context(), w, f)
		},
	}

	f.add(cmd)
	cmd.Flags().StringSliceVar(&f.Machines, "machines", nil,
		"machine types to compare (default: those similar to the sweep's)")
	cmd.Flags().IntVar(&f.VMs, "vms", 0, "machines of each type (default: about as many vCPUs as the sweep's)")
	cmd.Flags().DurationVar(&f.Within, "within", 0,
		"time within which the sweep should finish: uses as few machines of each type as that is expected to take")
	cmd.Flags().Float64Var(&f.Budget, "budget", 0, "USD that the sweep may cost (default: the spec's)")
	cmd.Flags().IntVar(&f.rows, "rows", 0, "rows to train on, if the dataset does not exist")
	cmd.Flags().IntVar(&f.features, "features", 0, "its features")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

// check rejects numbers out of range and flags that do not go together. 0 stands for a flag that was not given.
func (f *planFlags) check() error {
	if err := f.Check(); err != nil {
		return err
	}
	switch {
	case f.rows < 0 || f.features < 0:
		return program.Usagef("--rows is %d, --features %d: use numbers above 0, or leave them out", f.rows, f.features)
	case (f.rows > 0) != (f.features > 0):
		return program.Usagef("--rows and --features go together")
	case f.VMs < 0 || f.VMs > 2000:
		return program.Usagef("--vms is %d: use 1 to 2000", f.VMs)
	case f.Within < 0:
		return program.Usagef("--within is %s: use a duration above 0", f.Within)
	case f.VMs > 0 && f.Within > 0:
		return program.Usagef("--vms sets the number of machines, --within finds it; give only one of them")
	}
	return checkBudget(f.Budget)
}

// runPlan compares machines for the spec's dataset in the bucket. With --rows and --features it assumes a dataset of
// that size, with a fiftieth of the rows in each held-out split, and opens no cloud.
func runPlan(ctx context.Context, w *Setup, f planFlags) error {
	spec, err := readSpec(f.file)
	if err != nil {
		return err
	}
	if f.Budget == 0 {
		f.Budget = spec.Budget
	}
	f.region, _ = w.Env.Lookup("COPPICE_LOCATION")
	prices, err := w.readPrices()
	if err != nil {
		return err
	}

	if f.rows > 0 {
		name, _, _ := strings.Cut(spec.Dataset, "@")
		classes, _ := spec.Params["num_class"].(float64) // 0 if it is not there
		m, err := quote.Stated{Rows: f.rows, Features: f.features, HeldOut: max(1, f.rows/50), Classes: int(classes),
			Validate: spec.Validate}.Manifest(name, spec.Objective)
		if err != nil {
			return problem.As(problem.Usage, err)
		}
		return compareMachines(ctx, w, spec, m, prices, f)
	}
	return w.withCloud(ctx, func() error {
		m, err := stager.Resolve(ctx, w.datasets, spec.Dataset)
		if err != nil {
			return err
		}
		return compareMachines(ctx, w, spec, m, prices, f)
	})
}

const defaultRegion = "us-central1"

// compareMachines prints the comparison of machine types for a sweep on the dataset m. The plan that it makes for that
// is written nowhere.
func compareMachines(ctx context.Context, w *Setup, spec *sweep.Spec, m *dataset.Manifest, prices machines.Prices,
	f planFlags) error {
	// Unfit: that the sweep does not fit its own machine is no error here, since others are compared.
	p, err := plan.Build(plan.Inputs{Spec: spec, Manifest: m, ID: "quote",
		Job: func(id sweep.ID) string { return string(id) }, Now: w.Now(), Version: w.Version, Unfit: true})
	if err != nil {
		return err
	}
	q := quote.Estimator{Plan: p, Manifest: m, Prices: prices, Region: cmp.Or(f.region, defaultRegion),
		Assumptions: f.Assumptions}
	c, err := q.Compare(f.Wish)
	if err != nil {
		return err
	}

	// Notes on quotas and, for a dataset out of BigQuery, on what reading it again costs each night.
	c.Notes = append(c.Notes, w.explainQuotas(ctx, p.Plan)...)
	queried := func(s dataset.Source) bool { return strings.HasPrefix(s.URI, "bigquery://") }
	if slices.ContainsFunc(m.About.Sources, queried) {
		c.Notes = append(c.Notes, "each night is staged anew: "+w.priceOfStaging(ctx, f.file, m.Name))
	}

	// People expect the rows of the table, counting each once.
	ref := p.Dataset
	ref.Rows = map[string]int{}
	for split := range p.Dataset.Rows {
		ref.Rows[split] = m.TableRows(split)
	}
	return w.print(map[string]any{"dataset": ref, "trials": len(p.Trials), "region": q.Region,
		"startup_seconds": f.Startup.Seconds(), "assumptions": f.Assumptions, "comparison": c}, func() {
		w.screen().Comparison(p, spec.Machine, &q, c)
	})
}

// priceOfStaging says what BigQuery asks for reading the dataset's rows once. That needs its dataset.yaml, which is
// looked for where `launcher nightly` does: beside the sweep's file. Without it, it says how to find the price.
func (w *Setup) priceOfStaging(ctx context.Context, file, name string) string {
	t, err := tableOf(file, name, "")
	if err != nil || t.Spec.Name != name {
		return "`launcher stage DATASET.yaml --dry-run` says for how much BigQuery is read"
	}
	s := stager.Stager{Bucket: w.bucket, Exports: w.exports(), Now: w.Now}
	in, err := s.Find(ctx, t.Spec)
	if err != nil {
		return "for how much is unknown: " + err.Error()
	}
	_, says := w.priceOf(in.QueryBytes)
	return says
}
