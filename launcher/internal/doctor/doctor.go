// Package doctor examines a deployment before anything runs in it: credentials, enabled services, the rights of each
// account, buckets, topics, images, quotas, machine types, dataset and sweep. It is read-only. Every finding says what
// was found, where, and which command fixes it; what could not be checked is also a finding, with the reason.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud"
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
	// Local cloud, credentials, service, right, bucket, topic, subscription, image, quota, machine, dataset, sweep.
	Check   string   `json:"check"`
	Verdict Severity `json:"verdict"`
	What    string   `json:"what"`
	Where   string   `json:"where"`
	Fix     string   `json:"mend,omitempty"` // a command
	Binding *Grant   `json:"binding,omitempty"`
}

// Grant is the row of terraform/iam.yaml that a finding about rights refers to.
type Grant struct {
	Identity string `json:"identity"`
	Resource string `json:"resource"` // as in the table
	Role     string `json:"role"`
	Member   string `json:"member"`
	On       string `json:"on"` // the actual resource
}

// Target is the deployment according to the environment.
type Target struct {
	sweep.Deployment
	sweep.BatchEnv
}

// local reports whether it is the local cloud, where some things have no settings.
func (d *Target) local() bool { return d.InspectEndpoint != "" }

// Project describes the project. All methods of these interfaces are read-only, safe for concurrent use, and return a
// *cloud.PermissionError if the caller lacks the permission, cloud.ErrNotThere or cloud.ErrNotImitated.
type Project interface {
	// Caller returns the caller's e-mail address.
	Caller(ctx context.Context) (string, error)
	Number(ctx context.Context) (string, error)
	// Enabled returns the enabled services.
	Enabled(ctx context.Context) ([]string, error)
}

// Rights describes permissions.
type Rights interface {
	// Held returns those of the permissions that the caller has.
	Held(ctx context.Context, r cloud.Resource, permissions []string) ([]string, error)
	// Policy returns the policy set on exactly this resource.
	Policy(ctx context.Context, r cloud.Resource) (cloud.Policy, error)
}

// Resources describes what Terraform creates.
type Resources interface {
	Bucket(ctx context.Context, name string) (cloud.Bucket, error)
	Topic(ctx context.Context, name string) error
	Subscription(ctx context.Context, name string) (cloud.Subscription, error)
	Image(ctx context.Context, i cloud.Image) error
}

// Machines describes the machines in the deployment's region.
type Machines interface {
	Region(ctx context.Context) (cloud.Region, error)
	Offered(ctx context.Context, zone, machineType string) error
}

// Cloud combines them.
type Cloud interface {
	Project
	Rights
	Resources
	Machines
}

// Doctor examines a deployment. Table, Cloud, Datasets and Jobs are required.
type Doctor struct {
	Deployment Target
	Table      *terraform.Table
	Cloud      Cloud
	Datasets   blob.Store
	Jobs       JobDescriber
	Now        time.Time
	Version    string // the launcher's

	name     string // of the deployment, the prefix of its accounts; "" if unknown
	caller   string
	number   string
	policies map[cloud.Resource]policyAnswer
	sources  []string // buckets that the dataset was staged from
	findings []Finding
}

// Report is the outcome.
type Report struct {
	Caller   string           `json:"caller"` // "" if unknown
	Counts   map[Severity]int `json:"counts"`
	Findings []Finding        `json:"findings"`
}

// Examine runs all checks; s is nil if there is no sweep to check. It stops early when ctx ends, or if the local cloud
// does not answer.
func (d *Doctor) Examine(ctx context.Context, s *Sweep) (*Report, error) {
	d.policies = map[cloud.Resource]policyAnswer{}
	d.findings = nil
	d.name = deploymentName(d.Deployment.ServiceAccount)

	email, err := d.Cloud.Caller(ctx)
	if _, gone := cloud.NobodyAt(err); gone && d.Deployment.local() {
		return noLocalCloud(err), nil
	}

	if d.Deployment.local() {
		d.here()
	}
	// The order matters: rights needs the buckets that sweep finds.
	d.credentials(ctx, email, err)
	d.services(ctx)
	machines := d.sweep(ctx, s)
	d.buckets(ctx)
	d.messages(ctx)
	d.rights(ctx)
	d.images(ctx)
	d.machines(ctx, machines)

	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return NewReport(d.caller, d.findings), nil
}

// NewReport makes a report with its counts.
func NewReport(caller string, findings []Finding) *Report {
	r := &Report{Caller: caller, Counts: map[Severity]int{OK: 0, Warning: 0, Problem: 0, NotChecked: 0},
		Findings: findings}
	for _, f := range findings {
		r.Counts[f.Verdict]++
	}
	return r
}

// deploymentName is NAME of the task account NAME-task@PROJECT.iam.gserviceaccount.com, as created by terraform/.
func deploymentName(taskAccount string) string {
	name, _, _ := strings.Cut(taskAccount, "@")
	name, ok := strings.CutSuffix(name, "-task")
	if !ok {
		return ""
	}
	return name
}

func (d *Doctor) add(check string, v Severity, where, fix, format string, args ...any) {
	d.findings = append(d.findings, Finding{Check: check, Verdict: v, Where: where, Fix: fix,
		What: fmt.Sprintf(format, args...)})
}

// ownLogin is how a person logs in with their own rights.
const ownLogin = "gcloud auth application-default login"

// servicePattern matches the service in the URL of an error of cloud/inspect.
var servicePattern = regexp.MustCompile(`https://([a-z0-9-]{1,63}\.googleapis\.com)(?:/|$)`)

// unread says why a check was not possible, and what to do about it.
func (d *Doctor) unread(err error) (why, fix string) {
	var denied *cloud.PermissionError

	switch {
	case errors.Is(err, cloud.ErrNotImitated):
		return cloud.ErrNotImitated.Error(), ""

	case errors.As(err, &denied):
		who := d.caller
		if who == "" {
			who = "the caller"
		}

		// If the service is not enabled, no right would help.
		if strings.HasPrefix(denied.Hint, "enable") {
			m := servicePattern.FindStringSubmatch(denied.What)
			if m == nil {
				return "a service that it takes is not enabled", apply
			}
			return m[1] + " is not enabled, which it takes", d.gcloud("services enable", m[1])
		}

		return who + " may not read it; a project owner may, with their own login", ownLogin
	}

	return err.Error(), ""
}

// cannot adds the finding of a check that was not possible.
func (d *Doctor) cannot(check, where string, err error) {
	why, fix := d.unread(err)
	d.add(check, NotChecked, where, fix, "%s", why)
}

// gcloud formats a command on the project.
func (d *Doctor) gcloud(verb, rest string) string {
	return "gcloud " + verb + " " + rest + " --project " + d.Deployment.Project
}

// apply creates everything in terraform/; the configuration is the user's.
const apply = "terraform apply"
