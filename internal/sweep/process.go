package sweep

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
)

// Environment variables, as structs for envconfig. The launcher writes TaskEnv into the job; Terraform and
// localemu set the rest. PUBSUB_EMULATOR_HOST and STORAGE_EMULATOR_HOST are read by Google's clients themselves.

// Deployment locates the deployment's resources, for launcher and aggregator.
type Deployment struct {
	Project        string `env:"COPPICE_PROJECT"` // none where all buckets are folders
	Location       string `env:"COPPICE_LOCATION, default=us-central1"`
	DatasetsBucket string `env:"COPPICE_DATASETS_BUCKET, required"`
	SweepsBucket   string `env:"COPPICE_SWEEPS_BUCKET, required"`
	RegistryBucket string `env:"COPPICE_REGISTRY_BUCKET, required"`
	ScoresTopic    string `env:"COPPICE_SCORES_TOPIC, default=coppice-scores"`
	BatchEndpoint  string `env:"COPPICE_BATCH_ENDPOINT"` // host:port of an emulator, without TLS and credentials
	// host:port of an emulator, likewise; the launcher passes it on to staging jobs
	BigQueryEndpoint string `env:"COPPICE_BIGQUERY_ENDPOINT"`
	// where measurements are pushed; the launcher passes it on to tasks
	OTLPEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	Verdicts     VerdictsEnv
	Engine       string `env:"COPPICE_ENGINE, default=batch"` // what runs jobs
	Slurm        SlurmEnv
}

// Engines of jobs.
const (
	EngineBatch = "batch"
	EngineSlurm = "slurm"
)

// SlurmEnv says where a cluster's jobs run.
type SlurmEnv struct {
	Folder    string `env:"COPPICE_SLURM_FOLDER"`    // which login node and nodes see: bin/task, bin/launcher and logs
	Partition string `env:"COPPICE_SLURM_PARTITION"` // empty for the cluster's default
	Scratch   string `env:"COPPICE_SLURM_SCRATCH"`   // a folder on each node; empty for its TMPDIR
}

// Check rejects empty settings, which envconfig accepts, and an engine that there is not.
func (d Deployment) Check() error {
	if _, err := texts(d); err != nil {
		return err
	}
	if d.Engine != EngineBatch && d.Engine != EngineSlurm {
		return fmt.Errorf("the environment variable COPPICE_ENGINE is %.40q: use %s or %s", d.Engine, EngineBatch,
			EngineSlurm)
	}
	return nil
}

// NeedsProject reports whether the project is missing. None is needed where not Batch runs jobs and all buckets are
// folders, named by absolute paths.
func (d Deployment) NeedsProject() bool {
	return d.Project == "" && !(d.Engine != EngineBatch && filepath.IsAbs(d.DatasetsBucket) &&
		filepath.IsAbs(d.SweepsBucket) && filepath.IsAbs(d.RegistryBucket))
}

// texts returns the variables of a struct for envconfig that are texts and not empty. The error names one that is,
// although it has to be set or has a default.
func texts(env any) (set map[string]string, err error) {
	set = map[string]string{}
	v := reflect.ValueOf(env)
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("env"), ", ")
		switch text := v.Field(i); {
		case text.Kind() != reflect.String:
		case text.String() != "":
			set[name] = text.String()
		case options != "" && err == nil:
			err = fmt.Errorf("the environment variable %s is empty", name)
		}
	}
	return set, err
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

// CallersEnv says which callers the aggregator's service accepts. Both are set or, if it only listens on this machine,
// neither.
type CallersEnv struct {
	Audience string   `env:"COPPICE_AUDIENCE"` // the required audience of a caller's identity token
	Callers  []string `env:"COPPICE_CALLERS"`  // e-mail addresses of the accounts that may call, comma-separated
	// Signatures says who verifies Google's signature on the token: empty for the aggregator itself; SignaturesCloudRun
	// for Cloud Run in front of it, which forwards tokens without signatures.
	Signatures string `env:"COPPICE_SIGNATURES"`
	Service    string `env:"K_SERVICE"` // set by Cloud Run
	// KeysURL is where the local cloud, and nothing else, has the keys that sign the tokens with which it calls.
	KeysURL string `env:"COPPICE_KEYS_URL"`
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
	u, err := url.Parse(e.KeysURL)
	if e.KeysURL != "" && (err != nil || u.Scheme != "http" || u.Hostname() != "127.0.0.1" || e.OnCloudRun() ||
		e.Signatures != "") {
		return errors.New("the environment variable COPPICE_KEYS_URL is for the local cloud only: leave it out")
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
	// For `launcher stage --batch`: the launcher's own image, and an account that can write the datasets bucket and
	// read the sources.
	LauncherImage string `env:"COPPICE_LAUNCHER_IMAGE, default=coppice-launcher"`
	StageAccount  string `env:"COPPICE_STAGE_SERVICE_ACCOUNT"`
	// InspectEndpoint is host:port of an emulator of the calls made by `launcher doctor`, without TLS and credentials.
	InspectEndpoint string `env:"COPPICE_INSPECT_ENDPOINT"`
}

// TaskEnv is the environment of a task, set through its job.
type TaskEnv struct {
	Project        string `env:"COPPICE_PROJECT"`
	DatasetsBucket string `env:"COPPICE_DATASETS_BUCKET, required"`
	SweepsBucket   string `env:"COPPICE_SWEEPS_BUCKET, required"`
	ScoresTopic    string `env:"COPPICE_SCORES_TOPIC"` // empty for no messages
	Sweep          string `env:"COPPICE_SWEEP, required"`
	// a folder on the local SSD, shared by all tasks of a machine
	Scratch string `env:"COPPICE_SCRATCH, required"`
	// the job's id: a sweep may have several, one after the other
	Job string `env:"COPPICE_JOB, required"`
	// host:port where tasks of other machines may call to train one model together; a host that is left out is the
	// machine's own address. Empty if the sweep has no such training.
	Listen       string `env:"COPPICE_LISTEN"`
	Task         int    `env:"COPPICE_TASK_INDEX, default=$BATCH_TASK_INDEX"` // Batch itself sets its own
	Attempt      int    `env:"COPPICE_TASK_ATTEMPT, default=$BATCH_TASK_RETRY_ATTEMPT"`
	Host         string `env:"HOSTNAME"`                    // as containers have it; empty for what the system says
	OTLPEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"` // where measurements are pushed; empty for nowhere
}

// Variables returns the settings that the launcher writes into the job; the engine adds scratch, index and attempt.
func (e TaskEnv) Variables() map[string]string {
	set, _ := texts(e)
	return set
}

// Check rejects empty settings, which envconfig accepts, and invalid ones.
func (e TaskEnv) Check() error {
	if _, err := texts(e); err != nil {
		return err
	}
	if e.Task < 0 || e.Attempt < 0 {
		return fmt.Errorf("COPPICE_TASK_INDEX is %d and COPPICE_TASK_ATTEMPT %d; neither can be negative", e.Task,
			e.Attempt)
	}
	return CheckID(e.Sweep)
}

// LauncherTaskEnv is the environment of a job that runs the launcher itself: `launcher stage-task` reads it.
type LauncherTaskEnv struct {
	Project        string `env:"COPPICE_PROJECT"`
	DatasetsBucket string `env:"COPPICE_DATASETS_BUCKET, required"`
	Job            string `env:"COPPICE_JOB, required"`
	Scratch        string `env:"COPPICE_SCRATCH, required"`
	// name of the dataset.yaml's file, for errors, and its contents
	File    string `env:"COPPICE_STAGE_FILE, required"`
	Spec    string `env:"COPPICE_STAGE_SPEC, required"`
	Like    string `env:"COPPICE_STAGE_LIKE"`    // the dataset to follow, NAME@VERSION; empty for none
	Day     string `env:"COPPICE_STAGE_DAY"`     // the newest day of a source of days, as 2006-01-02
	Nightly string `env:"COPPICE_STAGE_NIGHTLY"` // true: the table is a scheduled night's
	Attempt int    `env:"COPPICE_TASK_ATTEMPT, default=$BATCH_TASK_RETRY_ATTEMPT"`

	BigQueryEndpoint string `env:"COPPICE_BIGQUERY_ENDPOINT"` // of an emulator
}

// Variables returns the settings that the launcher writes into the job.
func (e LauncherTaskEnv) Variables() map[string]string {
	set, _ := texts(e)
	return set
}

// Check rejects empty settings, which envconfig accepts.
func (e LauncherTaskEnv) Check() error {
	if _, err := texts(e); err != nil {
		return err
	}
	return CheckID(e.Job)
}

// Exit codes of launcher, task and aggregator. They are an interface, defined only here. The Batch lifecycle policy is
// derived from them.
const (
	ExitOK        = 0
	ExitError     = 1  // something unexpected
	ExitUsage     = 2  // a wrong flag or argument
	ExitInput     = 3  // a spec, a table or a dataset that cannot be used; the message names the place
	ExitNotFound  = 4  // no such dataset, sweep, model or version
	ExitConflict  = 5  // it exists with other contents, or was changed concurrently
	ExitSetup     = 6  // the environment is incomplete: a variable, credentials, the emulator
	ExitNoWinner  = 7  // the sweep ended without a winner, or was cancelled
	ExitBlocked   = 8  // tonight's table deviates from earlier ones: nothing is trained on it
	ExitTransient = 75 // EX_TEMPFAIL: retry; Batch retries such a task
	ExitInterrupt = 130
)

// ExitNotPromoted is for a sweep whose winner did not become the champion; the message says why.
const ExitNotPromoted = 9

// Exit codes of a program that did not exit by itself. The machine may have been out of memory; the trial that such a
// task held is not retried forever (MaxClaims).
const (
	// the Go runtime's, after a panic or out of memory; indistinguishable from a wrong flag (ExitUsage)
	ExitCrash   = 2
	ExitAborted = 134 // SIGABRT
	ExitKilled  = 137 // SIGKILL, by the kernel when out of memory
	// ExitTerminated is SIGTERM before the program could handle it: its machine was taken away in the first moments, or
	// while an earlier script was running.
	ExitTerminated = 143
)

// MaxClaims is how many tasks may die on one trial before it counts as failed: otherwise a trial that kills its tasks
// would use up the retries of each, and with them the Batch job. A claim released by a task that was told to stop does
// not count, nor does one that left a checkpoint: machines vanish without notice, and the trial made progress.
const MaxClaims = 5

// MaxTasksPerVM is Batch's own limit.
const MaxTasksPerVM = 20

// RetryableExitCodes lists those after which the same task is worth another attempt. An interruption means that the
// machine is going away: a cancelled job gives no task another attempt, whatever the policy. Batch has codes of its own
// beside them.
func RetryableExitCodes() []int32 {
	return []int32{ExitTransient, ExitCrash, ExitInterrupt, ExitAborted, ExitKilled, ExitTerminated}
}
