package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coppice/internal/cloud"
	"coppice/terraform"
)

// An account's rights are read where they are granted: in the policy of the resource or of the project. A caller who
// may not read policies can still query their own permissions.

type policyAnswer struct {
	policy cloud.Policy
	err    error
}

// policy queries each resource once.
func (d *Doctor) policy(ctx context.Context, r cloud.Resource) (cloud.Policy, error) {
	a, ok := d.policies[r]
	if !ok {
		a.policy, a.err = d.Cloud.Policy(ctx, r)
		d.policies[r] = a
	}
	return a.policy, a.err
}

// email is the address of an account of the deployment; "" if unknown.
func (d *Doctor) email(identity string) string {
	switch {
	case identity == terraform.Task && d.Deployment.ServiceAccount != "":
		return d.Deployment.ServiceAccount
	case identity == terraform.Stager && d.Deployment.StageAccount != "":
		return d.Deployment.StageAccount
	case d.name == "":
		return ""
	}
	return d.name + "-" + identity + "@" + d.Deployment.Project + ".iam.gserviceaccount.com"
}

// examined lists the identities whose rights are checked; rights adds one finding that names the others.
var examined = []string{terraform.Launcher, terraform.Task, terraform.Stager, terraform.Aggregator, "pubsub_agent"}

// rights compares the table with what is granted.
func (d *Doctor) rights(ctx context.Context) {
	for _, b := range d.Table.Bindings {
		if slices.Contains(examined, b.Identity) && !optional(b.Resource) {
			d.binding(ctx, b)
		}
	}
	d.add("right", NotChecked,
		"scheduler, push, operators, model_readers, Google's agents on a key or another project's network, a "+
			"webhook's secret, the aggregator on checkpoints", "terraform plan",
		"permissions needed only by schedules, people or options of the deployment, or limited by a condition, are "+
			"left to Terraform")
	d.impersonation(ctx)
}

// optional reports whether a resource belongs to an optional part of the deployment that the environment does not
// mention, or is one by a condition only, which policies are read without.
func optional(resource string) bool {
	return strings.HasPrefix(resource, "key/") || resource == terraform.Webhook || resource == terraform.Checkpoints ||
		resource == terraform.ServedHours
}

// binding checks one row of the table.
func (d *Doctor) binding(ctx context.Context, b terraform.Binding) {
	member, why := d.memberOf(b.Identity)
	resources, whyNot := d.resourcesOf(b.Resource)
	if why == "" {
		why = whyNot
	}

	if why != "" {
		f := Finding{Check: "right", Verdict: NotChecked, What: fmt.Sprintf("%s: %s", b.Role, why), Where: b.Identity +
			" on " + b.Resource}
		f.Binding = &Grant{Identity: b.Identity, Resource: b.Resource, Role: b.Role, Member: member}
		d.findings = append(d.findings, f)
	}

	for _, r := range resources {
		if why == "" {
			d.grant(ctx, b, member, r)
		}
	}
}

func (d *Doctor) memberOf(identity string) (member, why string) {
	if i := d.Table.Identities[identity]; i.Kind == terraform.Agent {
		if d.number == "" {
			return "", "the project's number is not known"
		}
		return "serviceAccount:service-" + d.number + "@" + i.Domain, ""
	}
	email := d.email(identity)
	if email == "" {
		return "", "the account's address is not known: COPPICE_TASK_SERVICE_ACCOUNT is not " +
			"NAME-task@PROJECT.iam.gserviceaccount.com"
	}
	return "serviceAccount:" + email, ""
}

// resourcesOf returns the actual resources of a row.
func (d *Doctor) resourcesOf(resource string) (rs []cloud.Resource, why string) {
	kind, name, _ := strings.Cut(resource, "/")
	one := func(name string) ([]cloud.Resource, string) { return []cloud.Resource{{Kind: kind, Name: name}}, "" }
	switch resource {
	case terraform.Project:
		return one(d.Deployment.Project)
	case terraform.DatasetsBucket:
		return one(d.Deployment.DatasetsBucket)
	case terraform.SweepsBucket:
		return one(d.Deployment.SweepsBucket)
	case terraform.RegistryBucket:
		return one(d.Deployment.RegistryBucket)
	case terraform.SourceBuckets:
		if len(d.sources) == 0 {
			return nil, "no dataset staged from a bucket was checked"
		}
		for _, bucket := range d.sources {
			rs = append(rs, cloud.Resource{Kind: kind, Name: bucket})
		}
		return rs, ""
	case terraform.ScoresTopic:
		return one(d.topic(d.Deployment.ScoresTopic))
	case terraform.VerdictsTopic:
		if d.Deployment.Verdicts.Topic == "" {
			return nil, "COPPICE_VERDICTS_TOPIC is not set: verdicts are only logged"
		}
		return one(d.topic(d.Deployment.Verdicts.Topic))
	case terraform.ScoresSubscription:
		return one(d.subscription(d.Deployment.Subscription))
	case terraform.Images:
		return []cloud.Resource{d.repository()}, ""
	}

	const unknown = "its name is not known"
	switch {
	case kind == "account" && d.email(name) == "":
		return nil, unknown
	case kind == "account":
		return one(d.email(name))
	case resource == "topic/dead_letters" && d.name == "":
		return nil, unknown
	case resource == "topic/dead_letters":
		return one(d.topic(d.Deployment.ScoresTopic + "-dead"))
	case d.Deployment.JobsTopic == "":
		return nil, "COPPICE_JOBS_TOPIC is not set: Batch sends no notifications about its jobs"
	case resource == terraform.JobsTopic:
		return one(d.topic(d.Deployment.JobsTopic))
	case resource == "subscription/jobs" && d.name != "":
		return one(d.subscription(d.name + "-jobs"))
	}
	return nil, unknown
}

func (d *Doctor) topic(name string) string { return d.full("topics", name) }

func (d *Doctor) subscription(name string) string { return d.full("subscriptions", name) }

func (d *Doctor) full(kind, name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "projects/" + d.Deployment.Project + "/" + kind + "/" + name
}

// repository is the repository of the task's image.
func (d *Doctor) repository() cloud.Resource {
	if image, ok := cloud.ParseImage(d.Deployment.TaskImage); ok {
		return image.Kept()
	}
	name := d.name
	if name == "" {
		name = "coppice"
	}
	return cloud.Image{Location: d.Deployment.Location, Project: d.Deployment.Project, Repository: name}.Kept()
}

// grant checks that a member has the role on the resource.
func (d *Doctor) grant(ctx context.Context, b terraform.Binding, member string, r cloud.Resource) {
	f := Finding{Check: "right", Where: b.Identity + " on " + short(r),
		Binding: &Grant{Identity: b.Identity, Resource: b.Resource, Role: b.Role, Member: member, On: r.Name}}
	f.Verdict, f.What, f.Fix = d.given(ctx, b.Role, member, r)
	switch f.Verdict {
	case Problem, Warning:
		f.What += "; needed: " + b.Why
		f.Fix = d.addBinding(r, member, b.Role)
	case NotChecked, OK:
	}
	d.findings = append(d.findings, f)
}

// given decides by policies, or by the caller's own permissions if policies cannot be read. If neither is possible, fix
// says how to make it possible.
func (d *Doctor) given(ctx context.Context, role, member string, r cloud.Resource) (v Severity, what, fix string) {
	project := cloud.Resource{Kind: "project", Name: d.Deployment.Project}
	policies := []cloud.Resource{r, project}
	if r == project {
		policies = policies[:1]
	}

	self := d.caller != "" && member == "serviceAccount:"+d.caller
	var others []string
	for _, at := range policies {
		policy, err := d.policy(ctx, at)
		switch {
		case err != nil && self:
			return d.own(ctx, role, r)
		case errors.Is(err, cloud.ErrNotThere):
			return Problem, role + ": " + at.String() + " does not exist", ""
		case err != nil:
			why, fix := d.unread(err)
			return NotChecked, fmt.Sprintf("%s: the policy of %s cannot be read: %s", role, short(at), why), fix
		case slices.Contains(policy[role], member):
			if at != r {
				return OK, role + " is given on the project", ""
			}
			return OK, role + " is given", ""
		}

		// An unknown role may include the permissions, too.
		for _, other := range slices.Sorted(maps.Keys(policy)) {
			if slices.Contains(policy[other], member) && d.Table.Roles[other] == nil {
				others = append(others, other)
			}
		}
	}

	if self { // it may be granted through a group, a folder or another role
		if v, what, _ := d.own(ctx, role, r); v == OK {
			return v, what, ""
		}
	}

	if len(others) > 0 {
		return Warning, fmt.Sprintf("%s is not granted; whether %s has the needed permissions is not known", role,
			strings.Join(others, ", ")), ""
	}
	return Problem, role + " is missing", ""
}

// short is a resource without its project.
func short(r cloud.Resource) string {
	name, _, _ := strings.Cut(r.Name[strings.LastIndexByte(r.Name, '/')+1:], "@")
	return r.Kind + " " + name
}

// own queries which of the role's permissions the caller has, wherever they are granted; fix is as in given.
func (d *Doctor) own(ctx context.Context, role string, r cloud.Resource) (v Severity, what, fix string) {
	wanted := d.Table.Roles[role]
	held, err := d.Cloud.Held(ctx, r, wanted)
	if errors.Is(err, cloud.ErrNotThere) {
		return Problem, role + ": " + r.String() + " does not exist", ""
	}
	if err != nil {
		why, fix := d.unread(err)
		return NotChecked, fmt.Sprintf("%s: the caller's permissions on %s cannot be read: %s", role, r, why), fix
	}

	missing := slices.DeleteFunc(slices.Clone(wanted), func(p string) bool { return slices.Contains(held, p) })
	if len(missing) == 0 {
		return OK, "the permissions of " + role + " are held", ""
	}
	return Problem, fmt.Sprintf("%s is missing: the caller does not have %s", role, strings.Join(missing, ", ")), ""
}

// addBinding is the command that grants a role.
func (d *Doctor) addBinding(r cloud.Resource, member, role string) string {
	last := r.Name[strings.LastIndexByte(r.Name, '/')+1:]
	to := fmt.Sprintf("--member=%s --role=%s", member, role)
	in := " --project " + d.Deployment.Project

	switch r.Kind {
	case "project":
		return fmt.Sprintf("gcloud projects add-iam-policy-binding %s %s --condition=None", r.Name, to)
	case "bucket":
		return fmt.Sprintf("gcloud storage buckets add-iam-policy-binding gs://%s %s", r.Name, to)
	case "topic":
		return fmt.Sprintf("gcloud pubsub topics add-iam-policy-binding %s %s", last, to) + in
	case "subscription":
		return fmt.Sprintf("gcloud pubsub subscriptions add-iam-policy-binding %s %s", last, to) + in
	case "account":
		return fmt.Sprintf("gcloud iam service-accounts add-iam-policy-binding %s %s", r.Name, to) + in
	case "repository":
		part := strings.Split(r.Name, "/")
		return fmt.Sprintf("gcloud artifacts repositories add-iam-policy-binding %s --location %s --project %s %s",
			last, part[3], part[1], to)
	}
	return apply
}

// memberFor is the caller as named in a policy: gcloud rejects a service account given as a user.
func memberFor(email string) string {
	if strings.HasSuffix(email, ".gserviceaccount.com") {
		return "serviceAccount:" + email
	}
	return "user:" + email
}

// impersonation checks that the caller may act as the launcher, as `launcher sweep` on a laptop does.
func (d *Doctor) impersonation(ctx context.Context) {
	launcher := d.email(terraform.Launcher)
	if launcher == "" || d.caller == "" || d.caller == launcher {
		return
	}

	r := cloud.Resource{Kind: "account", Name: launcher}
	where := d.caller + " on " + short(r)
	held, err := d.Cloud.Held(ctx, r, []string{"iam.serviceAccounts.getAccessToken"})
	switch {
	case err != nil:
		d.cannot("right", where, err)
	case len(held) == 0:
		d.add("right", Warning, where, d.addBinding(r, memberFor(d.caller), "roles/iam.serviceAccountTokenCreator"),
			"you may not act as the launcher")
	default:
		d.add("right", OK, where, "",
			"you may act as the launcher: gcloud auth application-default login --impersonate-service-account=%s",
			launcher)
	}
}
