package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"coppice/internal/cloud"
)

// credentials reports the caller: email, unless there was an error.
func (d *Doctor) credentials(ctx context.Context, email string, err error) {
	var setup *cloud.SetupError
	switch {
	case errors.As(err, &setup):
		d.add("credentials", Problem, "this machine", ownLogin, "%v", err)
		return
	case err != nil:
		d.cannot("credentials", "this machine", err)
	case email == "":
		d.add("credentials", Warning, "this machine", ownLogin, "accepted, but they do not show an account")
	default:
		d.caller = email
		d.add("credentials", OK, "this machine", "", "calls are made as %s", email)
	}

	if d.number, err = d.Cloud.Number(ctx); err != nil {
		d.cannot("credentials", "project "+d.Deployment.Project, err)
		return
	}
	d.add("credentials", OK, "project "+d.Deployment.Project, "", "it exists, with the number %s", d.number)
}

// NoCredentials is the report if nothing can be checked.
func NoCredentials(err error) *Report {
	var d Doctor
	d.add("credentials", Problem, "this machine", ownLogin, "%v", err)
	d.add("everything else", NotChecked, "the cloud", "", "there are no credentials")
	return NewReport("", d.findings)
}

// noLocalCloud is the report if the environment points at a local cloud that is not running: logging in would not help,
// and every other check would give the same answer.
func noLocalCloud(err error) *Report {
	var d Doctor
	d.add("local cloud", Problem, "this machine", "localemu up --data DIR    # and in this terminal: . DIR/env", "%v",
		err)
	d.add("everything else", NotChecked, "the cloud", "", "there is no local cloud")
	return NewReport("", d.findings)
}

// services lists those that the programs call directly or indirectly; terraform/services.tf enables them.
var services = []struct {
	name   string
	needed Severity // verdict if it is missing
	why    string
}{
	{"batch.googleapis.com", Problem, "runs the sweeps"},
	{"compute.googleapis.com", Problem, "is where Batch gets machines"},
	{"storage.googleapis.com", Problem, "holds datasets, sweeps and models"},
	{"pubsub.googleapis.com", Problem, "carries the scores"},
	{"logging.googleapis.com", Problem, "receives the logs of the machines"},
	{"artifactregistry.googleapis.com", Problem, "stores the images"},
	{"iam.googleapis.com", Problem, "manages the accounts"},
	{"iamcredentials.googleapis.com", Warning, "lets operators act as the launcher"},
	{"run.googleapis.com", Warning, "runs the aggregator and scheduled launchers"},
	{"cloudscheduler.googleapis.com", Warning, "starts scheduled jobs and reconciliation"},
	{"monitoring.googleapis.com", Warning, "has the dashboard and the alerts"},
	{"cloudbilling.googleapis.com", Warning, "lists prices"},
	{telemetryService, Warning, "receives the metrics"},
}

// telemetryService is needed only if measurements go to it.
const telemetryService = "telemetry.googleapis.com"

// uses reports whether the deployment uses a service.
func (d *Doctor) uses(service string) bool {
	return service != telemetryService || strings.TrimSuffix(d.Deployment.OTLPEndpoint, "/") == "https://"+
		telemetryService
}

// services checks which services are enabled.
func (d *Doctor) services(ctx context.Context) {
	where := "project " + d.Deployment.Project
	enabled, err := d.Cloud.Enabled(ctx)
	if err != nil {
		d.cannot("service", where, err)
		return
	}

	for _, s := range services {
		if !d.uses(s.name) {
			continue
		}
		if slices.Contains(enabled, s.name) {
			d.add("service", OK, where, "", "%s is enabled", s.name)
			continue
		}
		d.add("service", s.needed, where, d.gcloud("services enable", s.name), "%s is not enabled, which %s", s.name,
			s.why)
	}
}
