package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/stager"
)

// Sweep is the sweep that the deployment is examined for.
type Sweep struct {
	File string
	Spec *sweep.Spec
	Err  error // from reading it, if Spec is nil
}

// JobDescriber describes jobs as they would be submitted to Batch.
type JobDescriber interface {
	// Name is the full name of a sweep's job.
	Name(sweep.ID) string
	// Request is the job in the service's format; an error names the violated rule of Batch.
	Request(*sweep.Plan) ([]byte, error)
	// LocalSSDs is the number of local SSDs per machine.
	LocalSSDs(*sweep.Plan) (int, error)
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

// sweep checks the spec and its dataset, and returns the machines that it needs.
func (d *Doctor) sweep(ctx context.Context, s *Sweep) []machine {
	switch {
	case s == nil:
		d.add("sweep", NotChecked, "no file", "launcher doctor sweep.yaml",
			"no sweep was given, so dataset, quotas and machine types are not checked")
		return nil
	case s.Err != nil:
		d.add("sweep", Problem, s.File, "", "%v", s.Err)
		return nil
	}

	// Without its dataset, a sweep only tells which machines it needs.
	m := d.dataset(ctx, s.Spec.Dataset)
	if m == nil {
		d.add("sweep", NotChecked, s.File, "", "valid; not checked against its dataset")
		var wanted []machine
		for i := range len(s.Spec.Machine.Fallback) + 1 {
			wanted = append(wanted, d.wanted(s.Spec.Machine.Choice(i), i))
		}
		return wanted
	}

	p, err := plan.Build(plan.Inputs{Spec: s.Spec, Manifest: m, Job: d.Jobs.Name, Now: d.Now, Version: d.Version})
	if err != nil {
		d.add("sweep", Problem, s.File, "", "%v", err)
		return nil
	}
	d.add("sweep", OK, s.File, "", "%s, %s on %d x %s", english.Plural(len(p.Trials), "trial", ""),
		english.Plural(p.Sizing.Tasks, "task", ""), p.Sizing.VMs, p.Sizing.MachineType)
	return d.placed(s, p.Plan)
}

// placed checks each kind of machine in the plan against the rules of Batch.
func (d *Doctor) placed(s *Sweep, p *sweep.Plan) []machine {
	var wanted []machine
	for i := range len(p.Fallback) + 1 {
		at := p.Placed(i)
		w := d.wanted(at.Spec.Machine, i)
		w.vcpus = at.Sizing.VCPUs
		w.vms = at.Sizing.VMs

		_, err := d.Jobs.Request(at)
		if err == nil {
			w.ssds, err = d.Jobs.LocalSSDs(at)
		}
		if err != nil {
			d.add("sweep", Problem, s.File, "", "%s: %v", w.name, err)
			continue
		}
		wanted = append(wanted, w)
	}
	return wanted
}

func (d *Doctor) wanted(m sweep.Machine, i int) machine {
	w := machine{name: m.Type, vms: m.VMs, spot: m.Spot != nil && *m.Spot, zones: m.Zones, fallback: i > 0}
	if len(w.zones) == 0 {
		w.zones = slices.DeleteFunc(strings.Split(d.Deployment.Zones, ","), func(z string) bool { return z == "" })
	}
	return w
}

// dataset checks that the dataset is complete; it returns nil if it cannot be used.
func (d *Doctor) dataset(ctx context.Context, ref string) *dataset.Manifest {
	m, err := stager.Resolve(ctx, d.Datasets, ref)
	var denied *cloud.PermissionError
	switch {
	case problem.Is(err, problem.NotFound):
		d.add("dataset", Problem, ref, "launcher stage dataset.yaml", "it is not staged")
		return nil
	case errors.As(err, &denied):
		d.cannot("dataset", ref, err)
		return nil
	case err != nil:
		d.add("dataset", Problem, ref, "launcher stage dataset.yaml", "%v", err)
		return nil
	}

	// Buckets that tables were staged from are checked among the rights.
	for _, s := range m.About.Sources {
		if bucket, _, ok := strings.Cut(strings.TrimPrefix(s.URI, "gs://"), "/"); ok &&
			strings.HasPrefix(s.URI, "gs://") && !slices.Contains(d.sources, bucket) {
			d.sources = append(d.sources, bucket)
		}
	}
	slices.Sort(d.sources)

	where := m.Name + "@" + m.Version
	for _, f := range m.Files {
		a, err := d.Datasets.Stat(ctx, sweep.DatasetDir(m.Name, m.Version)+f.Name)
		if errors.Is(err, blob.ErrNotExist) || err == nil && a.Size != f.Bytes {
			d.add("dataset", Problem, where, "launcher stage dataset.yaml",
				"%s is missing, or does not have the %d bytes that it should", f.Name, f.Bytes)
			return nil
		}
		if err != nil {
			d.cannot("dataset", where, err)
			return nil
		}
	}

	d.add("dataset", OK, where, "", "complete: %d files of %s; checksums are verified by each reader", len(m.Files),
		humanize.IBytes(uint64(m.Bytes())))
	return m
}
