package report_test

import (
	"bytes"
	"context"
	"errors"
	"html"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/cloud/batch"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/report"
)

// A sweep on Google Cloud is linked to its log and its job there, whatever its plan says; one on a local cloud to
// nothing.
func TestLinks(t *testing.T) {
	for job, want := range map[string]string{
		"projects/p-1/locations/us-central1/jobs/night-1": `<a href="https://console.cloud.google.com/batch/jobsDetail/regions/us-central1/jobs/night-1/details?project=p-1"`,
		`projects/"><script>/locations/x?y/jobs/night-1`:  `/regions/x%3Fy/jobs/night-1/details?project=%22%3E%3Cscript%3E"`,
		"javascript:alert(1)//jobs/night-1":               "",
		"slurm/night-1":                                   "",
	} {
		n := newNight(t)
		n.plan.Job, n.bucket = job, blob.Memory()
		must.Get(sweepstore.New(n.bucket, n.plan.Sweep).CreatePlan(t.Context(), n.plan))(t)
		s := must.Get(report.OpenSweep(n.Context(), n.bucket, registry.New(blob.Memory()), n.plan.Sweep))(t)
		s.Online, s.Links = true, batch.Links
		v, _ := must.Get2(s.Look(n.Context()))(t)
		var page bytes.Buffer
		must.Do(t, v.Write(&page))
		if got := page.String(); !strings.Contains(got, want) || (want == "") != (len(v.Links) == 0) {
			t.Errorf("job %q: the page links to %+v; want %s", job, v.Links, want)
		}
		if strings.Contains(page.String(), `href="javascript`) {
			t.Errorf("job %q: the page has a link that runs", job)
		}
	}
	if v, _ := newNight(t).look(); v.Links != nil {
		t.Errorf("a sweep on a local cloud links to %+v, want nothing", v.Links)
	}
}

// TestMissingMachinesAreTold: the page of a sweep that waits says how many machines there are, why not all, and what
// happens next; that of one whose machines are there does not mention them, nor does one that nobody can ask.
func TestMissingMachinesAreTold(t *testing.T) {
	const why, next = "Quota 'CPUS_ALL_REGIONS' exceeded.", "it tries n2-highmem-4 in 20 min"
	for _, c := range []struct {
		job  provision.SweepJob
		err  error
		says string
	}{
		{job: provision.SweepJob{Machines: &provision.Machines{Planned: 2, Why: why, Next: next}},
			says: "0 of 2, asked for"},
		{job: provision.SweepJob{Machines: &provision.Machines{Running: 2, Planned: 2}}},
		{job: provision.SweepJob{}},
		{err: errors.New("no permission")},
	} {
		n := newNight(t)
		s := must.Get(report.OpenSweep(n.Context(), n.bucket, registry.New(blob.Memory()), n.plan.Sweep))(t)
		s.Job = func(context.Context, *sweep.Plan) (provision.SweepJob, error) { return c.job, c.err }
		v, _ := must.Get2(s.Look(n.Context()))(t)
		var page bytes.Buffer
		must.Do(t, v.Write(&page))
		text := html.UnescapeString(page.String())
		if c.says == "" && strings.Contains(text, "Machines: ") {
			t.Errorf("%+v, %v: the page speaks of machines", c.job.Machines, c.err)
		}
		for _, part := range []string{"Machines: " + c.says, why, next} {
			if c.says != "" && !strings.Contains(text, part) {
				t.Errorf("the page does not say %q", part)
			}
		}
	}
}
