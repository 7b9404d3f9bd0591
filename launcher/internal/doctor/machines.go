package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"coppice/internal/cloud"
)

// ssdGB is the size of one local SSD in quotas.
const ssdGB = 375

// cpuQuotas maps machine series to the region's quota metrics for their vCPUs. Newer series have quotas that the
// region's description does not show. The names are among those that google.golang.org/api/compute/v1 documents for
// Quota.Metric; where a name does not contain its series (n1, e2), the mapping is from Google's quota pages and was not
// observed in a project.
var cpuQuotas = map[string]string{
	"n1": "CPUS", "e2": "CPUS", "n2": "N2_CPUS", "n2d": "N2D_CPUS", "c2": "C2_CPUS", "c2d": "C2D_CPUS", "c3": "C3_CPUS",
	"m1": "M1_CPUS", "m2": "M2_CPUS", "m3": "M3_CPUS", "t2d": "T2D_CPUS", "t2a": "T2A_CPUS",
}

// machines checks types and quotas.
func (d *Doctor) machines(ctx context.Context, wanted []machine) {
	if len(wanted) == 0 {
		return
	}
	where := "region " + d.Deployment.Location
	region, err := d.Cloud.Region(ctx)
	if err != nil {
		d.cannot("quota", where, err)
		d.cannot("machine", where, err)
		return
	}

	for _, w := range wanted {
		d.offered(ctx, w, region)
		d.quotas(w, region)
	}
	d.add("quota", NotChecked, "Batch", "",
		"Batch's own limits cannot be read; those on a single job were checked against the sweep")
}

// offered checks in which of the zones the machine type exists.
func (d *Doctor) offered(ctx context.Context, w machine, region cloud.Region) {
	zones := w.zones
	if len(zones) == 0 {
		zones = region.Zones
	}

	var with, without []string
	for _, z := range zones {
		err := d.Cloud.Offered(ctx, z, w.name)
		switch {
		case errors.Is(err, cloud.ErrNotThere):
			without = append(without, z)
		case err != nil:
			d.cannot("machine", w.name+" in "+z, err)
			return
		default:
			with = append(with, z)
		}
	}

	where := w.name + " in " + strings.Join(zones, ", ")
	fix := fmt.Sprintf("gcloud compute machine-types list --filter='name=%s AND zone~^%s-' --project %s", w.name,
		d.Deployment.Location, d.Deployment.Project)
	switch {
	case len(with) == 0:
		d.add("machine", w.badly(), where, fix,
			"no zone has it: choose another machine.type, or machine.zones from those that the command lists")
	case len(without) > 0 && len(w.zones) > 0:
		d.add("machine", Warning, where, fix, "not offered in %s", strings.Join(without, ", "))
	default:
		d.add("machine", OK, where, "", "offered in %s", strings.Join(with, ", "))
	}
}

// badly is the severity if the machines are not available.
func (w machine) badly() Severity {
	if w.fallback {
		return Warning
	}
	return Problem
}

// quotas checks the machines against the project's limits.
func (d *Doctor) quotas(w machine, region cloud.Region) {
	if w.vcpus == 0 {
		d.add("quota", NotChecked, w.name, "", "the vCPUs and disks needed depend on the dataset, which is not known")
		return
	}

	series, _, _ := strings.Cut(w.name, "-")
	metric, known := cpuQuotas[series]
	if !known {
		d.add("quota", NotChecked, w.name, d.quotaPage(), "the region's description does not show the quota of %s",
			series)
	} else {
		d.quota(w, region, metric, "PREEMPTIBLE_CPUS", "vCPUs", w.vms*w.vcpus)
	}

	if w.ssds > 0 {
		d.quota(w, region, "LOCAL_SSD_TOTAL_GB", "PREEMPTIBLE_LOCAL_SSD_GB", "GB of local SSD", w.vms*w.ssds*ssdGB)
	}
	d.quota(w, region, "INSTANCES", "", "machines", w.vms)
}

// quota looks at one. Spot machines count against the preemptible quota once the project has been given one, else
// against the usual one. Source: https://cloud.google.com/compute/docs/instances/create-use-spot
func (d *Doctor) quota(w machine, region cloud.Region, metric, preemptible, what string, need int) {
	if q, ok := region.Quotas[preemptible]; ok && w.spot && q.Limit > 0 {
		metric = preemptible
	}

	where := metric + " in " + d.Deployment.Location
	q, ok := region.Quotas[metric]
	if !ok {
		d.add("quota", NotChecked, where, d.quotaPage(), "the region's description does not show it; %s needs %d %s",
			w.name, need, what)
		return
	}

	free := q.Limit - q.Usage
	if float64(need) <= free {
		d.add("quota", OK, where, "", "%d x %s need %d %s, %.0f of %.0f are free", w.vms, w.name, need, what, free,
			q.Limit)
		return
	}

	verdict := w.badly()
	if float64(need) <= q.Limit { // other machines may be gone by then
		verdict = Warning
	}
	d.add("quota", verdict, where, d.quotaPage(),
		"%d x %s need %d %s, %.0f of %.0f are free: request more, or use fewer machines", w.vms, w.name, need, what,
		free, q.Limit)
}

// quotaPage is where to request more; there is no stable command for it.
func (d *Doctor) quotaPage() string {
	return "https://console.cloud.google.com/iam-admin/quotas?project=" + d.Deployment.Project
}
