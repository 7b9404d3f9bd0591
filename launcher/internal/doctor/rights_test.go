package doctor

import (
	"slices"
	"strings"
	"testing"

	"coppice/internal/cloud"
	"coppice/terraform"
)

// about are the findings about one row of the table.
func about(r *Report, b terraform.Binding) (found []Finding) {
	for _, f := range r.Findings {
		if f.Binding != nil && f.Binding.Identity == b.Identity && f.Binding.Resource == b.Resource &&
			f.Binding.Role == b.Role {
			found = append(found, f)
		}
	}
	return found
}

// TestEveryBinding takes each binding away in turn: the doctor names it, and nothing else, with the command that gives
// it back.
func TestEveryBinding(t *testing.T) {
	verbs := map[string]string{
		"project":      "gcloud projects add-iam-policy-binding p1 ",
		"bucket":       "gcloud storage buckets add-iam-policy-binding gs://",
		"topic":        "gcloud pubsub topics add-iam-policy-binding coppice-",
		"subscription": "gcloud pubsub subscriptions add-iam-policy-binding coppice-",
		"account":      "gcloud iam service-accounts add-iam-policy-binding coppice-",
		"repository":   "gcloud artifacts repositories add-iam-policy-binding coppice --location us-central1",
	}
	d := newDoctor(t, newFake(t))
	seen := 0
	for _, b := range d.Table.Bindings {
		// The last has a test of its own.
		if !slices.Contains(examined, b.Identity) || optional(b.Resource) || b.Resource == terraform.SourceBuckets {
			continue
		}
		seen++
		f := newFake(t)
		d := newDoctor(t, f)
		d.name, d.number = "coppice", "12"
		member, _ := d.memberOf(b.Identity)
		on, why := d.resourcesOf(b.Resource)
		if why != "" || len(on) != 1 {
			t.Errorf("the resources of %s: got %q (%v); want one", b, why, on)
			continue
		}
		f.policies[on[0]][b.Role] = slices.DeleteFunc(f.policies[on[0]][b.Role],
			func(m string) bool { return m == member })
		r := examineSweep(t, d, nil)
		found := about(r, b)
		if r.Counts[Problem] != 1 || len(found) != 1 || found[0].Verdict != Problem ||
			found[0].Binding.Member != member || found[0].Binding.On != on[0].Name {
			t.Errorf("%s is taken away: counted %v, found %+v; want one problem, about that member on that resource", b,
				r.Counts, found)
			continue
		}
		fix := found[0].Fix
		kind, _, _ := strings.Cut(b.Resource, "/")
		if !strings.HasPrefix(fix, verbs[kind]) || !strings.Contains(fix, "--member="+member) ||
			!strings.Contains(fix, "--role="+b.Role) {
			t.Errorf("%s is taken away: the fix is %s; want the command for that kind of resource, with member and "+
				"role", b, fix)
		}
	}
	if seen < 25 {
		t.Errorf("only %d bindings were tried", seen)
	}
}

// TestSourceBuckets: who reads the tables' buckets is known once a dataset is.
func TestSourceBuckets(t *testing.T) {
	f := newFake(t)
	d := newDoctor(t, f)
	d.policies = map[cloud.Resource]policyAnswer{}
	d.name, d.number, d.caller, d.sources = "coppice", "12", owner, []string{"exports", "more"}
	d.rights(t.Context())
	r := NewReport(owner, d.findings)
	for _, identity := range []string{terraform.Launcher, terraform.Stager} {
		found := about(r, terraform.Binding{Identity: identity, Resource: terraform.SourceBuckets,
			Role: "roles/storage.objectViewer"})
		if len(found) != 2 || found[0].Verdict != OK || found[1].Verdict != Problem ||
			!strings.Contains(found[1].Fix, "gs://more ") {
			t.Errorf("as %s: found %+v; want the first bucket right, and a problem with gs://more", identity, found)
		}
	}
}

// TestAsTheLauncher: it may not read policies, so it asks what it may do itself, and says that it does not know the
// others'.
func TestAsTheLauncher(t *testing.T) {
	f := newFake(t)
	f.caller, f.errs["Policy"] = account("launcher"), &cloud.PermissionError{What: "policy", Hint: "grant"}
	d := newDoctor(t, f)
	d.name = "coppice"
	for _, b := range d.Table.Of(terraform.Launcher) {
		on, _ := d.resourcesOf(b.Resource)
		for _, r := range on {
			f.may[r] = append(f.may[r], d.Table.Roles[b.Role]...)
		}
	}
	jobs := cloud.Resource{Kind: "project", Name: project}
	f.may[jobs] = drop(f.may[jobs], "batch.jobs.delete")
	r := examineSweep(t, d, nil)
	found := about(r, terraform.Binding{Identity: terraform.Launcher, Resource: terraform.Project,
		Role: "roles/batch.jobsEditor"})
	if r.Counts[Problem] != 1 || len(found) != 1 ||
		!strings.Contains(found[0].What, "does not have batch.jobs.delete") {
		t.Errorf("as the launcher: counted %v, found %+v; want one problem, about batch.jobs.delete", r.Counts, found)
	}
	other := about(r, terraform.Binding{Identity: terraform.Task, Resource: terraform.SweepsBucket,
		Role: "roles/storage.objectUser"})
	if len(other) != 1 || other[0].Verdict != NotChecked || other[0].Fix != ownLogin {
		t.Errorf("as the launcher: found %+v about the others; want them not checked, and the owner's login as fix",
			other)
	}
}

// TestGivenElsewhere: a role on the project counts, another role may do, and what the launcher holds it holds.
func TestGivenElsewhere(t *testing.T) {
	role, member := "roles/storage.objectUser", "serviceAccount:"+account("launcher")
	bucket, all := cloud.Resource{Kind: "bucket", Name: "s"}, cloud.Resource{Kind: "project", Name: project}
	for name, tc := range map[string]struct {
		policies map[cloud.Resource]cloud.Policy
		caller   string
		may      []string
		want     Severity
	}{
		"nowhere": {nil, owner, nil, Problem},
		"project": {map[cloud.Resource]cloud.Policy{all: {role: {member}}}, owner, nil, OK},
		"another role": {map[cloud.Resource]cloud.Policy{bucket: {"roles/storage.admin": {member}}}, owner, nil,
			Warning},
		"a role too small": {map[cloud.Resource]cloud.Policy{bucket: {"roles/storage.objectViewer": {member}}}, owner,
			nil, Problem},
		"held through group": {nil, account("launcher"), []string{"storage.objects.create", "storage.objects.delete",
			"storage.objects.get", "storage.objects.list"}, OK},
		"held in part": {nil, account("launcher"), []string{"storage.objects.get"}, Problem},
	} {
		f := newFake(t)
		f.policies, f.may = tc.policies, map[cloud.Resource][]string{bucket: tc.may}
		d := newDoctor(t, f)
		d.policies, d.caller = map[cloud.Resource]policyAnswer{}, tc.caller
		if got, what, _ := d.given(t.Context(), role, member, bucket); got != tc.want {
			t.Errorf("%s: found %s, %q; expected %s", name, got, what, tc.want)
		}
	}
	f := newFake(t)
	f.errs["Policy"] = cloud.ErrNotThere
	d := newDoctor(t, f)
	d.policies, d.caller = map[cloud.Resource]policyAnswer{}, owner
	if got, what, _ := d.given(t.Context(), role, member, bucket); got != Problem ||
		!strings.Contains(what, "does not exist") {
		t.Errorf("of a bucket that does not exist: found %s, %q; expected a problem that says so", got, what)
	}
}

// TestUnknownNames: without the deployment's names nothing is guessed.
func TestUnknownNames(t *testing.T) {
	f := newFake(t)
	d := newDoctor(t, f)
	d.Deployment.ServiceAccount, d.Deployment.JobsTopic = "somebody@p1.iam.gserviceaccount.com", ""
	r := examineSweep(t, d, nil)
	for _, b := range d.Table.Of(terraform.Aggregator) {
		if optional(b.Resource) {
			continue
		}
		if found := about(r, b); len(found) != 1 || found[0].Verdict != NotChecked ||
			!strings.Contains(found[0].What, "COPPICE_TASK_SERVICE_ACCOUNT") {
			t.Errorf("without names, %s: found %+v; want it not checked, for want of COPPICE_TASK_SERVICE_ACCOUNT", b,
				found)
		}
	}
	found := about(r, terraform.Binding{Identity: terraform.Task, Resource: terraform.JobsTopic,
		Role: "roles/pubsub.publisher"})
	if len(found) != 1 || !strings.Contains(found[0].What, "COPPICE_JOBS_TOPIC") {
		t.Errorf("without names: found %+v about the topic; want COPPICE_JOBS_TOPIC named", found)
	}
	agent := 0
	for _, f := range r.Findings {
		if f.Binding == nil || f.Binding.Identity != "pubsub_agent" {
			continue
		}
		agent++
		nameless := f.Binding.Resource == "account/push" || f.Binding.Resource == "topic/dead_letters"
		if f.Verdict == Problem || nameless && !strings.Contains(f.What, "its name is not known") {
			t.Errorf("without names: found %+v; want no problem, and unknown names called so", f)
		}
	}
	if agent != 4 {
		t.Errorf("%d findings about Pub/Sub itself", agent)
	}
}

func TestImpersonation(t *testing.T) {
	for caller, member := range map[string]string{owner: "user:" + owner,
		"ci@p1.iam.gserviceaccount.com":            "serviceAccount:ci@p1.iam.gserviceaccount.com",
		"12-compute@developer.gserviceaccount.com": "serviceAccount:12-compute@developer.gserviceaccount.com"} {
		f := newFake(t)
		f.caller, f.may = caller, map[cloud.Resource][]string{}
		r := examineSweep(t, newDoctor(t, f), nil)
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Check == "right" && f.Verdict == Warning })
		if i < 0 || !strings.Contains(r.Findings[i].Fix, "--member="+member+
			" --role=roles/iam.serviceAccountTokenCreator") {
			t.Errorf("without the right to impersonate: found %+v first; want the command that grants it",
				r.Sorted()[0])
		}
	}
}
