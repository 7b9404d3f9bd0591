package sweep

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
)

// Environment variables, as structs for envconfig. The launcher writes TaskEnv into the Batch job; Terraform and
// localemu set the rest. PUBSUB_EMULATOR_HOST and STORAGE_EMULATOR_HOST are read by Google's clients themselves.

// Deployment locates the deployment's resources, for launcher and aggregator.
type Deployment struct {
	Project        string `env:"COPPICE_PROJECT, required"`
	Location       string `env:"COPPICE_LOCATION, default=us-central1"`
	DatasetsBucket string `env:"COPPICE_DATASETS_BUCKET, required"`
	SweepsBucket   string `env:"COPPICE_SWEEPS_BUCKET, required"`
	RegistryBucket string `env:"COPPICE_REGISTRY_BUCKET, required"`
	ScoresTopic    string `env:"COPPICE_SCORES_TOPIC, default=coppice-scores"`
	Subscription   string `env:"COPPICE_SUBSCRIPTION, default=coppice-aggregator"`
	BatchEndpoint  string `env:"COPPICE_BATCH_ENDPOINT"` // host:port of an emulator, without TLS and credentials
	// where measurements are pushed; the launcher passes it on to tasks
	OTLPEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	Verdicts     VerdictsEnv
}

// Check rejects empty settings, which envconfig accepts.
func (d Deployment) Check() error {
	return notEmpty(map[string]string{
		"COPPICE_PROJECT": d.Project, "COPPICE_LOCATION": d.Location, "COPPICE_DATASETS_BUCKET": d.DatasetsBucket,
		"COPPICE_SWEEPS_BUCKET": d.SweepsBucket, "COPPICE_REGISTRY_BUCKET": d.RegistryBucket,
		"COPPICE_SCORES_TOPIC": d.ScoresTopic, "COPPICE_SUBSCRIPTION": d.Subscription,
	})
}

// VerdictsEnv says where launcher and aggregator send the outcome of a night, beside logs and measurements. An error in
// it does not keep a sweep from being concluded: it is reported when a notification is to be sent.
type VerdictsEnv struct {
	Topic string `env:"COPPICE_VERDICTS_TOPIC"` // empty for no topic
	// Webhook is a URL to which verdicts in WebhookVerdicts are posted; empty for none. Anyone who has it can post
	// there.
	Webhook         Secret   `env:"COPPICE_WEBHOOK"`
	WebhookFormat   string   `env:"COPPICE_WEBHOOK_FORMAT, default=slack"` // slack, or json: the VerdictMessage
	WebhookVerdicts []string `env:"COPPICE_WEBHOOK_VERDICTS, default=promoted,not_promoted,not_comparable,blocked,no_winner"`
}

// Values for a webhook.
const (
	WebhookSlack = "slack"
	WebhookJSON  = "json"
)

// Check rejects a webhook that cannot work. Its errors do not contain the URL.
func (e VerdictsEnv) Check() error {
	if e.Webhook == "" {
		return nil
	}
	if e.WebhookFormat != WebhookSlack && e.WebhookFormat != WebhookJSON {
		return fmt.Errorf("the environment variable COPPICE_WEBHOOK_FORMAT is %.40q: use %s or %s", e.WebhookFormat,
			WebhookSlack, WebhookJSON)
	}
	if err := checkVerdicts(e.WebhookVerdicts); err != nil {
		return fmt.Errorf("the environment variable COPPICE_WEBHOOK_VERDICTS: %w", err)
	}
	return checkWebhook(e.Webhook)
}

// checkWebhook rejects a URL to which verdicts cannot be posted, or not confidentially. Its errors do not contain the
// URL.
func checkWebhook(address Secret) error {
	u, err := url.Parse(string(address))
	switch {
	case err != nil || u.Host == "":
		return errors.New("the environment variable COPPICE_WEBHOOK is not a URL")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return errors.New("the environment variable COPPICE_WEBHOOK has to begin with https://: what is posted to " +
		"anything but this machine is encrypted")
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Secret is a text that must not appear in logs: it is replaced in every printed form.
type Secret string

// String returns a placeholder.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString returns a placeholder.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func notEmpty(settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if settings[name] == "" {
			return fmt.Errorf("the environment variable %s is empty", name)
		}
	}
	return nil
}

// CallersEnv says which callers the aggregator's service accepts. Both are set or, if it only listens on this machine,
// neither.
type CallersEnv struct {
	Audience string   `env:"COPPICE_AUDIENCE"` // the required audience of a caller's identity token
	Callers  []string `env:"COPPICE_CALLERS"`  // e-mail addresses of the accounts that may call, comma-separated
	// Signatures says who verifies Google's signature on the token: empty for the aggregator itself; SignaturesCloudRun
	// for Cloud Run in front of it, which forwards tokens without signatures.
	Signatures string `env:"COPPICE_SIGNATURES"`
	Service    string `env:"K_SERVICE"` // set by Cloud Run
}

// OnCloudRun reports whether this process is a service of Cloud Run.
func (e CallersEnv) OnCloudRun() bool { return e.Service != "" }

// SignaturesCloudRun is the only other value of COPPICE_SIGNATURES.
const SignaturesCloudRun = "cloud-run"

// Check rejects inconsistent settings.
func (e CallersEnv) Check() error {
	if e.Signatures != "" && e.Signatures != SignaturesCloudRun {
		return fmt.Errorf("the environment variable COPPICE_SIGNATURES is %.40q: use %s, or leave it out", e.Signatures,
			SignaturesCloudRun)
	}
	return nil
}

// BatchEnv is needed by the launcher only: how to create Batch jobs.
type BatchEnv struct {
	TaskImage      string `env:"COPPICE_TASK_IMAGE, default=coppice-task"`
	ServiceAccount string `env:"COPPICE_TASK_SERVICE_ACCOUNT"`
	Network        string `env:"COPPICE_NETWORK"`
	Subnetwork     string `env:"COPPICE_SUBNETWORK"`
	// of the location, comma-separated; empty leaves the choice to Batch
	Zones     string `env:"COPPICE_ZONES"`
	JobsTopic string `env:"COPPICE_JOBS_TOPIC"` // topic to which Batch publishes jobs' states; empty for none
	// For `launcher stage --batch` and `launcher backtest --batch`: the launcher's own image, and an account that can
	// write the datasets bucket and read the sources.
	LauncherImage string `env:"COPPICE_LAUNCHER_IMAGE, default=coppice-launcher"`
	StageAccount  string `env:"COPPICE_STAGE_SERVICE_ACCOUNT"`
	// InspectEndpoint is host:port of an emulator of the calls made by `launcher doctor`, without TLS and credentials.
	InspectEndpoint string `env:"COPPICE_INSPECT_ENDPOINT"`
}

// TaskEnv is the environment of a task, set through the Batch job.
type TaskEnv struct {
	Project        string `env:"COPPICE_PROJECT, required"`
	DatasetsBucket string `env:"COPPICE_DATASETS_BUCKET, required"`
	SweepsBucket   string `env:"COPPICE_SWEEPS_BUCKET, required"`
	ScoresTopic    string `env:"COPPICE_SCORES_TOPIC, required"`
	Sweep          string `env:"COPPICE_SWEEP, required"`
	// a folder on the local SSD, shared by all tasks of a machine
	Scratch string `env:"COPPICE_SCRATCH, required"`
	// the Batch job's id: a sweep may have several, one after the other
	Job          string `env:"COPPICE_JOB, required"`
	Task         int    `env:"BATCH_TASK_INDEX"`
	Attempt      int    `env:"BATCH_TASK_RETRY_ATTEMPT"`
	Host         string `env:"HOSTNAME"`                    // as containers have it; empty for what the system says
	OTLPEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"` // where measurements are pushed; empty for nowhere
}

// Variables returns the settings that the launcher writes into the job; Batch adds those that begin with BATCH_.
func (e TaskEnv) Variables() map[string]string {
	v := map[string]string{
		"COPPICE_PROJECT":         e.Project,
		"COPPICE_DATASETS_BUCKET": e.DatasetsBucket,
		"COPPICE_SWEEPS_BUCKET":   e.SweepsBucket,
		"COPPICE_SCORES_TOPIC":    e.ScoresTopic,
		"COPPICE_SWEEP":           e.Sweep,
		"COPPICE_JOB":             e.Job,
		"COPPICE_SCRATCH":         e.Scratch,
	}

	if e.OTLPEndpoint != "" {
		v["OTEL_EXPORTER_OTLP_ENDPOINT"] = e.OTLPEndpoint
	}
	return v
}

// Check rejects empty settings, which envconfig accepts, and invalid ones.
func (e TaskEnv) Check() error {
	if err := notEmpty(e.Variables()); err != nil {
		return err
	}
	if e.Task < 0 || e.Attempt < 0 {
		return fmt.Errorf("BATCH_TASK_INDEX is %d and BATCH_TASK_RETRY_ATTEMPT %d; neither can be negative", e.Task,
			e.Attempt)
	}
	return CheckID(e.Sweep)
}

// LauncherTaskEnv is the environment of a job that runs the launcher itself: `launcher stage-task`, `backtest-task` and
// `reproduce-task` read it.
type LauncherTaskEnv struct {
	Project        string `env:"COPPICE_PROJECT, required"`
	DatasetsBucket string `env:"COPPICE_DATASETS_BUCKET, required"`
	Job            string `env:"COPPICE_JOB, required"`
	Scratch        string `env:"COPPICE_SCRATCH, required"`
	File           string `env:"COPPICE_STAGE_FILE"`    // name of the dataset.yaml's file, for errors
	Spec           string `env:"COPPICE_STAGE_SPEC"`    // contents of the dataset.yaml
	Like           string `env:"COPPICE_STAGE_LIKE"`    // the dataset to follow, NAME@VERSION; empty for none
	BacktestFile   string `env:"COPPICE_BACKTEST_FILE"` // likewise for the backtest.yaml, if there is one
	Backtest       string `env:"COPPICE_BACKTEST_SPEC"`
	// the version to train again, MODEL@NUMBER, instead of a dataset.yaml
	Reproduce      string `env:"COPPICE_REPRODUCE"`
	Dataset        string `env:"COPPICE_REPRODUCE_DATASET"` // name of its dataset
	RegistryBucket string `env:"COPPICE_REGISTRY_BUCKET"`
	Attempt        int    `env:"BATCH_TASK_RETRY_ATTEMPT"`
}

// Variables returns the settings that the launcher writes into the job.
func (e LauncherTaskEnv) Variables() map[string]string {
	v := map[string]string{
		"COPPICE_PROJECT":         e.Project,
		"COPPICE_DATASETS_BUCKET": e.DatasetsBucket,
		"COPPICE_JOB":             e.Job,
		"COPPICE_SCRATCH":         e.Scratch,
	}
	if e.Reproduce != "" {
		v["COPPICE_REPRODUCE"], v["COPPICE_REPRODUCE_DATASET"], v["COPPICE_REGISTRY_BUCKET"] = e.Reproduce, e.Dataset,
			e.RegistryBucket
		return v
	}

	v["COPPICE_STAGE_FILE"], v["COPPICE_STAGE_SPEC"] = e.File, e.Spec
	if e.Like != "" {
		v["COPPICE_STAGE_LIKE"] = e.Like
	}
	if e.Backtest != "" {
		v["COPPICE_BACKTEST_FILE"], v["COPPICE_BACKTEST_SPEC"] = e.BacktestFile, e.Backtest
	}
	return v
}

// Check rejects empty settings, which envconfig accepts.
func (e LauncherTaskEnv) Check() error {
	if err := notEmpty(e.Variables()); err != nil {
		return err
	}
	return CheckID(e.Job)
}
