// Package doctor looks for what would stop a first run in a deployment: credentials, services that are not enabled,
// missing permissions of the caller, buckets, topics, images, machine types and quotas. It is read-only. Every finding
// says what was found, where, and which command fixes it; what could not be checked is also a finding, with the reason.
// Whether everything else is as Terraform made it, `terraform plan` says.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/terraform"
)

// Severity is the severity of a finding.
type Severity string

// The verdicts.
const (
	OK         Severity = "ok"
	Warning    Severity = "warning"     // a sweep would run, but something is wrong
	Problem    Severity = "problem"     // a sweep would fail
	NotChecked Severity = "not checked" // reason in What
)

// Finding is the result of one check.
type Finding struct {
	Check   string   `json:"check"` // credentials, service, right, bucket, topic, image, quota, machine, dataset, sweep
	Verdict Severity `json:"verdict"`
	What    string   `json:"what"`
	Where   string   `json:"where"`
	Fix     string   `json:"mend,omitempty"` // a command
}

// Cloud describes the project and its region. All methods are read-only, safe for concurrent use, and return a
// *cloud.PermissionError if the caller lacks the permission, cloud.ErrNotThere or cloud.ErrNotImitated.
type Cloud interface {
	Account
	Resources
}

// Account is who asks, and what for.
type Account interface {
	// Caller returns the caller's e-mail address; "" if the credentials do not show it.
	Caller(ctx context.Context) (string, error)
	// Enabled returns those of the services that are enabled.
	Enabled(ctx context.Context, services []string) ([]string, error)
	// Held returns those of the permissions that the caller has.
	Held(ctx context.Context, r cloud.Resource, permissions []string) ([]string, error)
}

// Resources are what a sweep runs on.
type Resources interface {
	Topic(ctx context.Context, name string) error
	Image(ctx context.Context, i cloud.Image) error
	Region(ctx context.Context) (cloud.Region, error)
	Offered(ctx context.Context, zone, machineType string) error
}

// Doctor examines a deployment. Table, Cloud, Datasets and Jobs are required.
type Doctor struct {
	Deployment environment.Deployment
	Batch      environment.BatchEnv
	Table      *terraform.Table
	Cloud      Cloud
	Datasets   blob.Store
	Jobs       JobDescriber
	Now        time.Time
	Version    string // the launcher's

	caller   string
	findings []Finding
}

// Report is the outcome.
type Report struct {
	Caller   string           `json:"caller"` // "" if unknown
	Counts   map[Severity]int `json:"counts"`
	Findings []Finding        `json:"findings"`
}

// Examine runs all checks and returns what they found. spec is the sweep to check, or nil, and file the name of its
// file for the findings. When ctx ends, it returns its error. Without usable credentials the error is a
// *cloud.SetupError.
func (d *Doctor) Examine(ctx context.Context, file string, spec *sweep.Spec) (*Report, error) {
	d.findings = nil
	if err := d.checkCredentials(ctx); err != nil {
		return nil, err
	}
	d.checkServices(ctx)
	d.checkRights(ctx)
	d.checkTopics(ctx)
	d.checkImages(ctx)
	d.checkMachines(ctx, d.checkSweep(ctx, file, spec))
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	r := &Report{Caller: d.caller, Counts: map[Severity]int{OK: 0, Warning: 0, Problem: 0, NotChecked: 0},
		Findings: d.findings}
	for _, f := range r.Findings {
		r.Counts[f.Verdict]++
	}
	return r, nil
}

// Sorted returns the findings in the order in which people should act: problems with quotas first, since a request for
// more takes days, then other problems, warnings, what was not checked, and what is in order. Those of one kind stay in
// the order of the checks.
func (r *Report) Sorted() []Finding {
	order := []Severity{Problem, Warning, NotChecked, OK}
	sorted := slices.Clone(r.Findings)
	slices.SortStableFunc(sorted, func(a, b Finding) int {
		rank := func(f Finding) int {
			if f.Check == "quota" && f.Verdict == Problem {
				return -1
			}
			return slices.Index(order, f.Verdict)
		}
		return rank(a) - rank(b)
	})
	return sorted
}

func (d *Doctor) add(check string, v Severity, where, fix, format string, args ...any) {
	d.findings = append(d.findings, Finding{Check: check, Verdict: v, Where: where, Fix: fix,
		What: fmt.Sprintf(format, args...)})
}

// Commands that fix something.
const (
	apply    = "terraform apply" // creates everything in terraform/; the configuration is the user's
	ownLogin = "gcloud auth application-default login"
)

// servicePattern matches the service in the URL of an error of cloud/inspect.
var servicePattern = regexp.MustCompile(`https://([a-z0-9-]{1,63}\.googleapis\.com)(?:/|$)`)

// addUnchecked adds the finding that something could not be checked because of err. If a service is not enabled, its
// fix is to enable that; if the caller lacks a permission, it is to log in as somebody who has it. Other errors have no
// fix.
func (d *Doctor) addUnchecked(check, where string, err error) {
	var denied *cloud.PermissionError
	if errors.Is(err, cloud.ErrNotImitated) {
		err = cloud.ErrNotImitated // without the address
	}
	if !errors.As(err, &denied) {
		d.add(check, NotChecked, where, "", "%v", err)
		return
	}

	// If the service is not enabled, no right would help. Then, and only then, the hint of cloud.FromStatus begins with
	// "enable".
	if strings.HasPrefix(denied.Hint, "enable") {
		if m := servicePattern.FindStringSubmatch(denied.What); m != nil {
			d.add(check, NotChecked, where, d.enable(m[1]), "%s is not enabled, and this check uses it", m[1])
			return
		}
		d.add(check, NotChecked, where, apply, "a service that this check uses is not enabled")
		return
	}
	who := cmp.Or(d.caller, "the caller")
	d.add(check, NotChecked, where, ownLogin, "%s may not read it; a project owner may, with their own login", who)
}

// enable is the command that enables a service of Google in the project.
func (d *Doctor) enable(service string) string {
	return "gcloud services enable " + service + " --project " + d.Deployment.Project
}

// checkCredentials finds out who is calling, and sets d.caller. It returns an error only if there are no usable
// credentials, since every other check would have the same error; else it adds a finding.
func (d *Doctor) checkCredentials(ctx context.Context) error {
	const where = "this machine"
	email, err := d.Cloud.Caller(ctx)
	switch {
	case errors.As(err, new(*cloud.SetupError)):
		return err
	case err != nil:
		d.addUnchecked("credentials", where, err)
	case email == "":
		d.add("credentials", Warning, where, ownLogin, "accepted, but they do not show an account")
	default:
		d.caller = email
		d.add("credentials", OK, where, "", "calls are made as %s", email)
	}
	return nil
}

// services are those that a sweep takes, directly or through Batch; terraform/services.tf enables them.
var services = []string{"batch.googleapis.com", "compute.googleapis.com", "storage.googleapis.com",
	"pubsub.googleapis.com", "logging.googleapis.com", "artifactregistry.googleapis.com", "iam.googleapis.com"}

// checkServices reports which of the services that a sweep uses are enabled, and how to enable the others.
func (d *Doctor) checkServices(ctx context.Context) {
	where := "project " + d.Deployment.Project
	enabled, err := d.Cloud.Enabled(ctx, services)
	if err != nil {
		d.addUnchecked("service", where, err)
		return
	}
	for _, s := range services {
		if slices.Contains(enabled, s) {
			d.add("service", OK, where, "", "%s is enabled", s)
		} else {
			d.add("service", Problem, where, d.enable(s), "%s is not enabled, and a sweep takes it", s)
		}
	}
}

// checkRights checks whether the caller has, on the project, each bucket and the accounts of jobs, the permissions that
// d.Table gives the launcher. What other accounts may do is left to Terraform.
func (d *Doctor) checkRights(ctx context.Context) {
	for _, r := range []struct {
		name     string // in the table
		resource cloud.Resource
		variable string
	}{
		{terraform.Project, cloud.Resource{Kind: "project", Name: d.Deployment.Project}, "COPPICE_PROJECT"},
		{terraform.DatasetsBucket, cloud.Resource{Kind: "bucket", Name: d.Deployment.DatasetsBucket},
			"COPPICE_DATASETS_BUCKET"},
		{terraform.SweepsBucket, cloud.Resource{Kind: "bucket", Name: d.Deployment.SweepsBucket},
			"COPPICE_SWEEPS_BUCKET"},
		{terraform.RegistryBucket, cloud.Resource{Kind: "bucket", Name: d.Deployment.RegistryBucket},
			"COPPICE_REGISTRY_BUCKET"},
		{terraform.TaskAccount, cloud.Resource{Kind: "account", Name: d.Batch.ServiceAccount},
			"COPPICE_TASK_SERVICE_ACCOUNT"},
		{terraform.StagerAccount, cloud.Resource{Kind: "account", Name: d.Batch.StageAccount},
			"COPPICE_STAGE_SERVICE_ACCOUNT"},
	} {
		if r.resource.Name == "" {
			continue // an account need not be stated: jobs then run as the project's default account
		}
		var wanted []string
		for _, b := range d.Table.Of(terraform.Launcher) {
			if b.Resource == r.name {
				wanted = append(wanted, d.Table.Roles[b.Role]...)
			}
		}

		held, err := d.Cloud.Held(ctx, r.resource, wanted)
		missing := slices.DeleteFunc(wanted, func(p string) bool { return slices.Contains(held, p) })
		where := r.resource.String()
		switch {
		case errors.Is(err, cloud.ErrNotThere):
			d.add(r.resource.Kind, Problem, where, apply, "it does not exist; %s names it", r.variable)
		case err != nil:
			d.addUnchecked("right", where, err)
		case len(missing) > 0:
			d.add("right", Problem, where, d.giveRights(), "missing: %s", strings.Join(missing, ", "))
		default:
			d.add("right", OK, where, "", "the permissions of the launcher are held")
		}
	}
}

// giveRights returns the command after which the caller has the launcher's permissions: logging in as the launcher's
// account. Terraform names it NAME-launcher, and the task's NAME-task. If that account itself lacks a permission, or
// the task's account has another name, the command is terraform apply.
func (d *Doctor) giveRights() string {
	task, domain, _ := strings.Cut(d.Batch.ServiceAccount, "@")
	name, ok := strings.CutSuffix(task, "-task")
	launcher := name + "-launcher@" + domain
	if !ok || d.caller == launcher {
		return apply
	}
	return ownLogin + " --impersonate-service-account=" + launcher
}

// checkTopics checks that the topics exist to which programs and Batch publish. A topic that the environment does not
// name is not used.
func (d *Doctor) checkTopics(ctx context.Context) {
	for _, t := range []struct{ name, variable string }{
		{d.Deployment.ScoresTopic, "COPPICE_SCORES_TOPIC"},
		{d.Batch.JobsTopic, "COPPICE_JOBS_TOPIC"},
		{d.Deployment.Verdicts.Topic, "COPPICE_VERDICTS_TOPIC"},
	} {
		if t.name == "" {
			continue
		}
		if !strings.Contains(t.name, "/") {
			t.name = "projects/" + d.Deployment.Project + "/topics/" + t.name
		}
		err := d.Cloud.Topic(ctx, t.name)
		switch {
		case errors.Is(err, cloud.ErrNotThere):
			d.add("topic", Problem, t.name, apply, "it does not exist; %s names it", t.variable)
		case err != nil:
			d.addUnchecked("topic", t.name, err)
		default:
			d.add("topic", OK, t.name, "", "it exists")
		}
	}
}

// checkImages checks that the images of jobs exist. Without the task's image no sweep runs, which is a problem. Without
// the launcher's image no table is staged in the cloud, which is a warning.
func (d *Doctor) checkImages(ctx context.Context) {
	for _, i := range []struct {
		reference string
		missing   Severity
		use       string
	}{
		{d.Batch.TaskImage, Problem, "runs on the machines of a sweep"},
		{d.Batch.LauncherImage, Warning, "runs `launcher stage --batch`"},
	} {
		image, ok := cloud.ParseImage(i.reference)
		if !ok {
			d.add("image", NotChecked, i.reference, "",
				"it is not in Artifact Registry (LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE:TAG)")
			continue
		}

		err := d.Cloud.Image(ctx, image)
		switch {
		case errors.Is(err, cloud.ErrNotThere):
			registry := image.Location + "-docker.pkg.dev/" + image.Project + "/" + image.Repository
			d.add("image", i.missing, i.reference, "make images push REGISTRY="+registry, "it does not exist, and %s",
				i.use)
		case err != nil:
			d.addUnchecked("image", i.reference, err)
		default:
			d.add("image", OK, i.reference, "", "it exists, and %s", i.use)
		}
	}
}
