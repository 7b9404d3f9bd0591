// Package doctor examines a deployment before anything runs in it: credentials, enabled services, the rights of each account,
// buckets, topics, images, quotas, machine types, dataset and sweep. It only reads. Every finding says what was found, where,
// and the command that fixes it; what could not be looked at is a finding, too, with the reason.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"coppice/blob"
	"coppice/cloud"
	"coppice/sweep"
	"coppice/terraform"
)

// Verdict is how bad a finding is.
type Verdict string

// The verdicts.
const (
	OK         Verdict = "ok"
	Warning    Verdict = "warning"     // a sweep would run, but something is not as it should be
	Problem    Verdict = "problem"     // a sweep would fail
	NotChecked Verdict = "not checked" // with the reason in What
)

// Finding is one thing that was looked at.
type Finding struct {
	Check   string   `json:"check"` // local cloud, credentials, service, right, bucket, topic, subscription, image, quota, machine, dataset, sweep
	Verdict Verdict  `json:"verdict"`
	What    string   `json:"what"`
	Where   string   `json:"where"`
	Fix     string   `json:"mend,omitempty"` // a command
	Binding *Binding `json:"binding,omitempty"`
}

// Binding is the row of terraform/iam.yaml that a finding about rights is about.
type Binding struct {
	Identity string `json:"identity"`
	Resource string `json:"resource"` // as in the table
	Role     string `json:"role"`
	Member   string `json:"member"`
	On       string `json:"on"` // the resource's own name
}

// Deployment is what the environment says of it.
type Deployment struct {
	sweep.Deployment
	sweep.BatchEnv
}

// local says that it is the local cloud, where some things have no settings.
func (d *Deployment) local() bool { return d.InspectEndpoint != "" }

// Project tells about the project. All methods of these interfaces read only, may be called from any goroutine, and give a
// *cloud.PermissionError to a caller who may not know, cloud.ErrNotThere and cloud.ErrNotImitated.
type Project interface {
	// Caller is the e-mail address of whoever asks.
	Caller(ctx context.Context) (string, error)
	Number(ctx context.Context) (string, error)
	// Enabled are the enabled services.
	Enabled(ctx context.Context) ([]string, error)
}

// Rights tells who may do what.
type Rights interface {
	// Held are those of the permissions that the caller has.
	Held(ctx context.Context, r cloud.Resource, permissions []string) ([]string, error)
	// Policy is what is given on exactly this resource.
	Policy(ctx context.Context, r cloud.Resource) (cloud.Policy, error)
}

// Resources tells about what Terraform makes.
type Resources interface {
	Bucket(ctx context.Context, name string) (cloud.Bucket, error)
	Topic(ctx context.Context, name string) error
	Subscription(ctx context.Context, name string) (cloud.Subscription, error)
	Image(ctx context.Context, i cloud.Image) error
}

// Machines tells about machines in the deployment's region.
type Machines interface {
	Region(ctx context.Context) (cloud.Region, error)
	Offered(ctx context.Context, zone, machineType string) error
}

// Cloud is all of it.
type Cloud interface {
	Project
	Rights
	Resources
	Machines
}

// Doctor examines. Table, Cloud, Datasets and Jobs are needed.
type Doctor struct {
	Deployment Deployment
	Table      *terraform.Table
	Cloud      Cloud
	Datasets   blob.Store
	Jobs       Jobs
	Now        time.Time
	Version    string // the launcher's

	name     string // of the deployment, with which its accounts begin; "" when it is not known
	caller   string
	number   string
	policies map[cloud.Resource]policyAnswer
	sources  []string // buckets that the dataset was staged from
	findings []Finding
}

// Report is the outcome.
type Report struct {
	Caller   string          `json:"caller"` // "" when it could not be known
	Counts   map[Verdict]int `json:"counts"`
	Findings []Finding       `json:"findings"`
}

// Examine looks at everything, of which the sweep is nil when there is none to look at. It ends early with ctx, and where the local cloud
// does not answer.
func (d *Doctor) Examine(ctx context.Context, s *Sweep) (*Report, error) {
	d.policies = map[cloud.Resource]policyAnswer{}
	d.findings = nil
	d.name = deploymentName(d.Deployment.ServiceAccount)

	email, err := d.Cloud.Caller(ctx)
	if _, gone := cloud.NobodyAt(err); gone && d.Deployment.local() {
		return noLocalCloud(err), nil
	}

	// In this order: rights needs the buckets that sweep finds.
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

// NewReport counts.
func NewReport(caller string, findings []Finding) *Report {
	r := &Report{Caller: caller, Counts: map[Verdict]int{OK: 0, Warning: 0, Problem: 0, NotChecked: 0}, Findings: findings}
	for _, f := range findings {
		r.Counts[f.Verdict]++
	}
	return r
}

// deploymentName is NAME of the task account NAME-task@PROJECT.iam.gserviceaccount.com, as terraform/ calls it.
func deploymentName(taskAccount string) string {
	name, _, _ := strings.Cut(taskAccount, "@")
	name, ok := strings.CutSuffix(name, "-task")
	if !ok {
		return ""
	}
	return name
}

func (d *Doctor) add(check string, v Verdict, where, fix, format string, args ...any) {
	d.findings = append(d.findings, Finding{Check: check, Verdict: v, Where: where, Fix: fix, What: fmt.Sprintf(format, args...)})
}

// ownLogin is how a person becomes one who may see everything.
const ownLogin = "gcloud auth application-default login"

// servicePattern is the service in the address that an error of cloud/inspect names.
var servicePattern = regexp.MustCompile(`https://([a-z0-9-]{1,63}\.googleapis\.com)(?:/|$)`)

// unread is why something could not be looked at, and what to do about it.
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

		// Where the service is not enabled, no right would help.
		if strings.HasPrefix(denied.Hint, "enable") {
			m := servicePattern.FindStringSubmatch(denied.What)
			if m == nil {
				return "the service that would tell is not enabled", apply
			}
			return m[1] + ", which would tell, is not enabled", d.gcloud("services enable", m[1])
		}

		return who + " may not look; whoever made the deployment may, with a login of their own", ownLogin
	}

	return err.Error(), ""
}

// cannot adds the finding for something that could not be looked at.
func (d *Doctor) cannot(check, where string, err error) {
	why, fix := d.unread(err)
	d.add(check, NotChecked, where, fix, "%s", why)
}

// gcloud is a command on the project.
func (d *Doctor) gcloud(verb, rest string) string {
	return "gcloud " + verb + " " + rest + " --project " + d.Deployment.Project
}

// apply is what makes everything that terraform/ describes; which configuration it is, only its owner knows.
const apply = "terraform apply"
