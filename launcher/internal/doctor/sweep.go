package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/machines"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/stager"
)

// JobDescriber describes jobs as they would be submitted to Batch.
type JobDescriber interface {
	// Name is the full name of a sweep's job.
	Name(sweep.ID) string
	// Request is the job in the service's format; an error names the violated rule of Batch.
	Request(*sweep.Plan) ([]byte, error)
}

// machine is a kind of machine that a sweep asks for. If vcpus is 0, only its name is known.
type machine struct {
	name     string
	vms      int
	vcpus    int // per machine
	ssds     int // per machine
	spot     bool
	zones    []string // empty for any in the region
	fallback bool     // used only if the previous ones are not available
}

// checkSweep checks the spec against its dataset, and returns the machines that it needs: the first choice and the
// fallbacks. Without a spec, or if no plan can be made, it returns none.
func (d *Doctor) checkSweep(ctx context.Context, file string, spec *sweep.Spec) []machine {
	if spec == nil {
		d.add("sweep", NotChecked, "no file", "launcher doctor sweep.yaml",
			"no sweep was given, so dataset, quotas and machine types are not checked")
		return nil
	}

	// Without its dataset, a sweep only tells which machines it needs.
	m := d.checkDataset(ctx, spec.Dataset)
	if m == nil {
		d.add("sweep", NotChecked, file, "", "valid; not checked against its dataset")
		var wanted []machine
		for i := range len(spec.Machine.Fallback) + 1 {
			wanted = append(wanted, d.wantedMachine(spec.Machine.Choice(i), i))
		}
		return wanted
	}

	p, err := plan.Build(plan.Inputs{Spec: spec, Manifest: m, Job: d.Jobs.Name, Now: d.Now, Version: d.Version})
	if err != nil {
		d.add("sweep", Problem, file, "", "%v", err)
		return nil
	}
	d.add("sweep", OK, file, "", "%s, %s on %d x %s", english.Plural(len(p.Trials), "trial", ""),
		english.Plural(p.Sizing.Tasks, "task", ""), p.Sizing.VMs, p.Sizing.MachineType)
	return d.checkPlaced(file, p.Plan)
}

// checkPlaced checks that the requests for each kind of machine in the plan keep to the rules of Batch, and returns
// those that do.
func (d *Doctor) checkPlaced(file string, p *sweep.Plan) []machine {
	var wanted []machine
	for i := range len(p.Fallback) + 1 {
		at := p.Placed(i)
		w := d.wantedMachine(at.Spec.Machine, i)
		w.vcpus = at.Sizing.VCPUs
		w.vms = at.Sizing.VMs

		w.ssds = int(at.Spec.Machine.LocalSSD)
		if _, err := d.Jobs.Request(at); err != nil {
			d.add("sweep", Problem, file, "", "%s: %v", w.name, err)
			continue
		}
		wanted = append(wanted, w)
	}
	return wanted
}

// wantedMachine returns what is known of the spec's machine number i without a plan: 0 is its first choice, the others
// are fallbacks.
func (d *Doctor) wantedMachine(m sweep.Machine, i int) machine {
	w := machine{name: m.Type, vms: m.VMs, spot: m.Spot != nil && *m.Spot, zones: m.Zones, fallback: i > 0}
	if t, err := machines.Find(m.Type); err == nil {
		w.vcpus = t.VCPUs
	}
	if len(w.zones) == 0 {
		w.zones = slices.DeleteFunc(strings.Split(d.Batch.Zones, ","), func(z string) bool { return z == "" })
	}
	return w
}

// checkDataset adds a finding that says whether the dataset ref is staged: a problem if it is not, or not as it was
// written, and not checked if the bucket cannot be read. It returns its manifest, nil if that cannot be read.
func (d *Doctor) checkDataset(ctx context.Context, ref string) *dataset.Manifest {
	const stage = "launcher stage dataset.yaml"
	m, err := stager.Resolve(ctx, d.Datasets, ref)
	switch {
	case problem.Is(err, problem.NotFound):
		d.add("dataset", Problem, ref, stage, "it is not staged")
	case problem.Is(err, problem.Conflict): // of another build, which staging does not overwrite
		d.add("dataset", Problem, ref, "", "%v", err)
	case problem.Is(err, problem.Damaged) || problem.Is(err, problem.Input):
		d.add("dataset", Problem, ref, stage, "%v", err)
	case err != nil:
		d.addUnchecked("dataset", ref, err)
	default:
		d.add("dataset", OK, m.Name+"@"+m.Version, "", "it is staged")
		return m
	}
	return nil
}
