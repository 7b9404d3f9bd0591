// Package environment has the environment variables of the programs, as structs for envconfig. Each program takes the
// structs that it needs, and checks them once, before it does anything:
//
//	Terraform, localemu, a user -> Deployment, BatchEnv, CallersEnv    launcher and aggregator: where everything is
//	launcher, by a job          -> TaskEnv, LauncherTaskEnv            what runs on the job's machines
//
// PUBSUB_EMULATOR_HOST and STORAGE_EMULATOR_HOST are read by Google's clients themselves.
package environment

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"

	"coppice/internal/notify"
	"coppice/internal/sweep"
)

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
	Verdicts     notify.VerdictsEnv
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
	if _, err := nonEmptyTexts(d); err != nil {
		return err
	}
	if d.Engine != EngineBatch && d.Engine != EngineSlurm {
		return fmt.Errorf("the environment variable COPPICE_ENGINE is %.40q: use %s or %s", d.Engine, EngineBatch,
			EngineSlurm)
	}
	return nil
}

// NeedsProject reports whether the project is not set although it is needed. It is not needed if another engine than
// Batch runs jobs and all three buckets are folders, which are named by absolute paths.
func (d Deployment) NeedsProject() bool {
	return d.Project == "" && !(d.Engine != EngineBatch && filepath.IsAbs(d.DatasetsBucket) &&
		filepath.IsAbs(d.SweepsBucket) && filepath.IsAbs(d.RegistryBucket))
}

// nonEmptyTexts returns the values of all string fields of a struct for envconfig that are not empty, by the names of
// their variables. If a field is empty that is required or has a default, the error names the variable: it is set to
// nothing.
func nonEmptyTexts(env any) (set map[string]string, err error) {
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

// Check returns an error for a value of COPPICE_SIGNATURES that does not exist, and for a COPPICE_KEYS_URL outside the
// local cloud: keys from another place than Google's would let anybody in.
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

// Variables returns the settings that the launcher writes into the job, all of them texts, without the empty ones. The
// engine adds scratch, index and attempt. Check says whether the settings are right.
func (e TaskEnv) Variables() map[string]string {
	set, _ := nonEmptyTexts(e)
	return set
}

// Check rejects empty settings, which envconfig accepts, and invalid ones.
func (e TaskEnv) Check() error {
	if _, err := nonEmptyTexts(e); err != nil {
		return err
	}
	if e.Task < 0 || e.Attempt < 0 {
		return fmt.Errorf("COPPICE_TASK_INDEX is %d and COPPICE_TASK_ATTEMPT %d; neither can be negative", e.Task,
			e.Attempt)
	}
	return sweep.CheckID(e.Sweep)
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
	Day     string `env:"COPPICE_STAGE_DAY"`     // the newest day of a source of days, as 2006-01-02
	Nightly string `env:"COPPICE_STAGE_NIGHTLY"` // the day of the slot if the table is a scheduled night's
	Attempt int    `env:"COPPICE_TASK_ATTEMPT, default=$BATCH_TASK_RETRY_ATTEMPT"`

	BigQueryEndpoint string `env:"COPPICE_BIGQUERY_ENDPOINT"` // of an emulator
}

// Variables returns the settings that the launcher writes into the job.
func (e LauncherTaskEnv) Variables() map[string]string {
	set, _ := nonEmptyTexts(e)
	return set
}

// Check rejects empty settings, which envconfig accepts.
func (e LauncherTaskEnv) Check() error {
	if _, err := nonEmptyTexts(e); err != nil {
		return err
	}
	return sweep.CheckID(e.Job)
}
