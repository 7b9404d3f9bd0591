package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"coppice/internal/cloud"
	"coppice/internal/sweep"
)

// The sizes in quotas of one local SSD, and of the boot disk that Batch gives a machine.
const (
	ssdGB  = 375
	bootGB = 30
)

// cpuQuotas maps machine series to the region's quota metrics for their vCPUs. Newer series have quotas that the
// region's description does not show. The names are among those that google.golang.org/api/compute/v1 documents for
// Quota.Metric; where a name does not contain its series (n1, e2), the mapping is from Google's quota pages and was not
// observed in a project.
var cpuQuotas = map[string]string{
	"n1": "CPUS", "e2": "CPUS", "n2": "N2_CPUS", "n2d": "N2D_CPUS", "c2": "C2_CPUS", "c2d": "C2D_CPUS", "c3": "C3_CPUS",
	"m1": "M1_CPUS", "m2": "M2_CPUS", "m3": "M3_CPUS", "t2d": "T2D_CPUS", "t2a": "T2A_CPUS",
}

// checkMachines checks whether the region offers the wanted machines, and whether the project's quotas have room for
// them. Without any it adds no finding.
func (d *Doctor) checkMachines(ctx context.Context, wanted []machine) {
	if len(wanted) == 0 {
		return
	}
	where := "region " + d.Deployment.Location
	region, err := d.Cloud.Region(ctx)
	if err != nil {
		d.addUnchecked("quota", where, err)
		d.addUnchecked("machine", where, err)
		return
	}

	for _, w := range wanted {
		d.checkOffered(ctx, w, region)
		d.checkQuotas(w, region)
	}
	d.add("quota", NotChecked, "Batch", "",
		"Batch's own limits cannot be read; those on a single job were checked against the sweep")
}

// Quotas returns a note for each of the project's quotas that a plan's machines exceed, or one that says why they
// cannot be compared; nil in a local cloud, which has no quotas. It needs d.Cloud, d.Jobs and the environment only.
func (d *Doctor) Quotas(ctx context.Context, p *sweep.Plan) (notes []string) {
	d.findings = nil
	region, err := d.Cloud.Region(ctx)
	switch {
	case errors.Is(err, cloud.ErrNotImitated):
		return nil
	case err != nil:
		return []string{fmt.Sprintf("the project's quotas were not compared with its machines: %v", err)}
	}
	if region.Unread != nil {
		notes = append(notes, fmt.Sprintf("%s was not compared with its machines: %v", cloud.CPUsAllRegions,
			region.Unread))
	}
	for _, w := range d.checkPlaced("", p) {
		d.checkQuotas(w, region)
	}
	for _, f := range d.findings {
		note := f.Where + ": " + f.What
		if f.Check == "quota" && (f.Verdict == Problem || f.Verdict == Warning) && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// checkOffered checks in which of its zones, or of the region's if it names none, the machine type exists. It is a
// problem (of a fallback a warning) if none has it, and a warning if one that the spec names does not.
func (d *Doctor) checkOffered(ctx context.Context, w machine, region cloud.Region) {
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
			d.addUnchecked("machine", w.name+" in "+z, err)
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
		d.add("machine", w.severity(), where, fix,
			"no zone has it: choose another machine.type, or machine.zones from those that the command lists")
	case len(without) > 0 && len(w.zones) > 0:
		d.add("machine", Warning, where, fix, "not offered in %s", strings.Join(without, ", "))
	default:
		d.add("machine", OK, where, "", "offered in %s", strings.Join(with, ", "))
	}
}

// severity returns how bad it is if the machines are not available: for a fallback only a warning.
func (w machine) severity() Severity {
	if w.fallback {
		return Warning
	}
	return Problem
}

// checkQuotas checks the machines against each of the project's quotas that they count against: vCPUs in all regions
// and of their series, local SSDs, machines, boot disks and addresses, which machines of a private subnetwork do not
// have.
func (d *Doctor) checkQuotas(w machine, region cloud.Region) {
	if w.vcpus == 0 {
		d.add("quota", NotChecked, w.name, "", "the vCPUs and disks needed depend on the dataset, which is not known")
		return
	}

	d.checkQuota(w, region, need{cloud.CPUsAllRegions, "", "vCPUs", w.vms * w.vcpus})
	series, _, _ := strings.Cut(w.name, "-")
	metric, known := cpuQuotas[series]
	if !known {
		d.add("quota", NotChecked, w.name, d.quotaPage(), "the region's description does not show the quota of %s",
			series)
	} else {
		d.checkQuota(w, region, need{metric, "PREEMPTIBLE_CPUS", "vCPUs", w.vms * w.vcpus})
	}

	if w.ssds > 0 {
		d.checkQuota(w, region, need{"LOCAL_SSD_TOTAL_GB", "PREEMPTIBLE_LOCAL_SSD_GB", "GB of local SSD",
			w.vms * w.ssds * ssdGB})
	}
	d.checkQuota(w, region, need{"INSTANCES", "", "machines", w.vms})
	d.checkQuota(w, region, need{"SSD_TOTAL_GB", "", "GB of boot disks", w.vms * bootGB})
	if d.Batch.Subnetwork == "" {
		d.checkQuota(w, region, need{"IN_USE_ADDRESSES", "", "addresses", w.vms})
	}
}

// need is what a sweep needs of one quota.
type need struct {
	metric, preemptible string // the quota's name, and that for Spot machines; "" if there is none
	what                string // the unit, for people
	count               int
}

// checkQuota adds a finding about one quota: in order, how much is free and what to request, or why it is not known.
//
// Spot machines count against the preemptible quota if the project has been given one, else against the usual one
// (https://cloud.google.com/compute/docs/instances/create-use-spot). The quota of all regions counts for both. A
// machine that would bring the usage exactly to that quota was seen to be refused, so one more is needed there.
func (d *Doctor) checkQuota(w machine, region cloud.Region, n need) {
	if q, ok := region.Quotas[n.preemptible]; ok && w.spot && q.Limit > 0 {
		n.metric = n.preemptible
	}

	where, all := n.metric+" in "+d.Deployment.Location, n.metric == cloud.CPUsAllRegions
	if all {
		where = n.metric + " of project " + d.Deployment.Project
	}
	q, ok := region.Quotas[n.metric]
	switch {
	case all && region.Unread != nil:
		d.addUnchecked("quota", where, region.Unread)
		return
	case !ok:
		d.add("quota", NotChecked, where, d.quotaPage(), "the region's description does not show it; %s needs %d %s",
			w.name, n.count, n.what)
		return
	}

	// Is it enough? Exactly enough of the quota of all regions is not.
	free, count := q.Limit-q.Usage, float64(n.count)
	if count < free || count == free && !all {
		d.add("quota", OK, where, "", "%d x %s need %d %s, %.0f of %.0f are free", w.vms, w.name, n.count, n.what, free,
			q.Limit)
		return
	}

	// It is only a warning if it would be enough once the machines that run now have gone.
	verdict := w.severity()
	if count <= q.Limit {
		verdict = Warning
	}
	ask, remedy := q.Usage+count, ", or use fewer machines"
	if all {
		ask++
		remedy = " before anything else, since a new project may be refused until it has been used and paid for some " +
			"days, and one on trial always is; until then use smaller or fewer machines"
	}
	d.add("quota", verdict, where, d.quotaPage(), "%d x %s need %d %s, %.0f of %.0f are free: request %.0f%s", w.vms,
		w.name, n.count, n.what, free, q.Limit, ask, remedy)
}

// quotaPage is where to request more; there is no stable command for it.
func (d *Doctor) quotaPage() string {
	return "https://console.cloud.google.com/iam-admin/quotas?project=" + d.Deployment.Project
}
