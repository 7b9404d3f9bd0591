package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/cloud/batch"
	"coppice/internal/cloud/bigquery"
	"coppice/internal/cloud/gcs"
	"coppice/internal/cloud/idtoken"
	"coppice/internal/cloud/inspect"
	"coppice/internal/cloud/pubsub"
	"coppice/internal/engine"
	"coppice/internal/notify"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/slurm"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cli"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/doctor"
	"coppice/launcher/internal/stager"
)

// connect opens the launcher's backends: buckets by name and, as far as the environment names them, BigQuery, the
// channels for notifications, and Slurm or Batch for jobs. The caller has to Close them.
func connect(ctx context.Context, env cli.Env) (*cli.Backends, error) {
	storage, err := gcs.Open(ctx, env.Project)
	if err != nil {
		return nil, err
	}

	// Buckets, notifications and BigQuery, which needs a project; buckets may also be local folders.
	b := &cli.Backends{Bucket: func(name string) blob.Store { return storage.Bucket(name) }, Close: storage.Close,
		Links: batch.Links} // no other engine has pages
	b.Verdicts = func(ctx context.Context) ([]notify.Channel, func(), error) { return verdicts(ctx, env) }
	if env.Project != "" && !filepath.IsAbs(env.DatasetsBucket) {
		b.USDPerTiB = bigquery.USDPerTiB
		b.Warehouse = func(ctx context.Context) (stager.Warehouse, error) {
			return bigquery.New(ctx, env.Project, env.BigQueryEndpoint)
		}
	}

	// What runs jobs.
	if env.Engine == environment.EngineSlurm {
		j := &jobs{slurm.New(slurm.Options(env.Slurm)), env}
		b.Jobs, b.Tasks, b.Conclude, b.Free = j, j, reconcile, true
		return b, nil
	}
	if env.Project == "" || env.Location == "" { // only buckets are needed
		return b, nil
	}

	client, err := batch.New(ctx, batch.Options{Project: env.Project, Location: env.Location,
		Endpoint: env.BatchEndpoint})
	if err != nil {
		return nil, errors.Join(err, storage.Close())
	}

	j := &jobs{batchEngine(client, env), env}
	b.Jobs, b.Tasks = j, j
	b.Close = func() error { return errors.Join(client.Close(), storage.Close()) }
	return b, nil
}

// reconcile runs `aggregator reconcile`, which concludes sweeps that are over: the program in this one's folder or, if
// there is none, this program, called by the aggregator's name. The error has what it printed.
func reconcile(ctx context.Context) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), aggregator)
	if _, err := os.Stat(beside); err != nil {
		beside = self
	}
	cmd := exec.CommandContext(ctx, beside)
	cmd.Args = []string{aggregator, "reconcile"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s reconcile: %w: %.500s", aggregator, err, out)
	}
	return nil
}

// aggregator is the name of the program that concludes sweeps.
const aggregator = "aggregator"

// verdicts opens the channels for notifying people that the environment names: a topic, a webhook, or none. closeAll
// closes them; it is never nil, also after an error.
func verdicts(ctx context.Context, env cli.Env) (channels []notify.Channel, closeAll func(), err error) {
	closeAll = func() {}
	if env.Verdicts.Topic != "" {
		messages, err := pubsub.New(ctx, env.Project)
		if err != nil {
			return nil, closeAll, err
		}
		topic := messages.Publisher(env.Verdicts.Topic)
		closeAll = func() { topic.Close(); _ = messages.Close() }
		channels = append(channels, notify.Topic(topic))
	}

	if env.Verdicts.Webhook != "" {
		channels = append(channels, notify.Webhook(env.Verdicts))
	}

	return channels, closeAll, nil
}

// callers returns what authenticates callers by ID tokens signed by Google. Only on Cloud Run, which verifies
// signatures itself, may the environment say that they need not be verified.
func callers(ctx context.Context, env environment.CallersEnv) (program.Callers, error) {
	if env.Signatures == environment.SignaturesCloudRun && !env.OnCloudRun() {
		return nil, &cloud.SetupError{What: "COPPICE_SIGNATURES=cloud-run outside Cloud Run",
			Hint: "only Cloud Run verifies signatures and removes them; leave the variable out, and the console " +
				"verifies them itself"}
	}
	return idtoken.New(ctx, idtoken.Options{Audience: env.Audience, Callers: env.Callers,
		CloudRunChecks: env.Signatures == environment.SignaturesCloudRun})
}

// jobs submits plans and stagings to an engine.
type jobs struct {
	engine.Engine
	env cli.Env
}

// batchEngine returns Batch with what all jobs of this deployment have in common: images, accounts, network, zones and
// the topic that is told of their changes.
func batchEngine(client *batch.Client, env cli.Env) *batch.Jobs {
	stager := cmp.Or(env.StageAccount, env.ServiceAccount)
	e := &batch.Jobs{Client: client,
		Images:   map[string]string{engine.Task: env.TaskImage, engine.Launcher: env.LauncherImage},
		Accounts: map[string]string{engine.Task: env.ServiceAccount, engine.Launcher: stager},
		Place: batch.Job{Location: env.Location, Network: env.Network, Subnetwork: env.Subnetwork,
			NoExternalIP: env.Subnetwork != ""}}
	if env.Zones != "" {
		e.Place.Zones = slices.DeleteFunc(strings.Split(env.Zones, ","), func(z string) bool { return z == "" })
	}
	if topic := env.JobsTopic; topic != "" {
		if !strings.Contains(topic, "/") {
			topic = "projects/" + env.Project + "/topics/" + topic
		}
		e.Place.Notify = []string{topic}
	}
	return e
}

// retries is how many times a sweep's task is started again, the most that Batch allows: Spot machines are taken away,
// and a trial is only given up after sweep.MaxClaims tasks have died with it.
const retries = 10

// labels adds a spec's own labels to the map programs, and returns that. A label of the spec replaces one of the
// programs with the same key.
func labels(own, programs map[string]string) map[string]string {
	maps.Copy(programs, own)
	return programs
}

// describe returns the job of a plan. It depends only on the plan and the environment, so that the same plan makes the
// same job. If several machines train the final model, the tasks listen for each other.
func (j *jobs) describe(p *sweep.Plan) engine.Array {
	z, m := p.Sizing, p.Spec.Machine
	id := p.Job[strings.LastIndexByte(p.Job, '/')+1:] // the sweep's id, with the number of a fallback
	task := environment.TaskEnv{Project: j.env.Project, DatasetsBucket: j.env.DatasetsBucket,
		SweepsBucket: j.env.SweepsBucket,
		ScoresTopic:  j.env.ScoresTopic, Sweep: string(p.Sweep), Job: id, OTLPEndpoint: j.env.OTLPEndpoint}
	together := p.Spec.FinalMachines() > 1
	if together {
		task.Listen = j.listen()
	}
	return engine.Array{
		ID: id, Plan: p.Fingerprint(),
		Labels: labels(p.Spec.Labels, map[string]string{"coppice-sweep": string(p.Sweep),
			"coppice-model": p.Spec.Model}),
		Program: engine.Task, Args: []string{"run"}, Env: task.Variables(),
		Tasks: z.Tasks, TasksPerHost: z.TasksPerVM,
		Machine: z.MachineType, Spot: *m.Spot, Zones: m.Zones, LocalSSDs: int(m.LocalSSD),
		CPUMilli: int64(1000 * z.VCPUs / z.TasksPerVM),
		// What the system leaves (all but ReserveBytes) in equal parts; >> 20 makes MiB of bytes.
		MemoryMiB: (z.MemoryBytes - z.ReserveBytes) / int64(z.TasksPerVM) >> 20,
		Retries:   retries, Repeat: sweep.RetryableExitCodes(),
		Limit: time.Duration(p.Spec.Limits.Sweep), Talks: together,
	}
}

// listen returns the address on which a task listens for those of other machines: the port that Terraform's firewall
// rule lets through or, where several tasks share a machine (on a Slurm node, in the local cloud), any free port.
func (j *jobs) listen() string {
	switch {
	case j.env.Engine == environment.EngineSlurm: // a node may have several
		return ":0"
	case j.env.BatchEndpoint != "":
		return "127.0.0.1:0"
	}
	return ":7433"
}

func (j *jobs) Name(id sweep.ID) string { return j.Engine.Name(string(id)) }

func (j *jobs) Request(p *sweep.Plan) ([]byte, error) { return j.Engine.Request(j.describe(p)) }

func (j *jobs) Submit(ctx context.Context, p *sweep.Plan) (existed bool, err error) {
	return j.Engine.Submit(ctx, j.describe(p))
}

// SubmitTask starts a staging job.
func (j *jobs) SubmitTask(ctx context.Context, q cloudjob.Work) (existed bool, err error) {
	return j.Engine.Submit(ctx, j.describeTask(q))
}

// taskRetries is how many times a staging task is started again. They are few: what it has fetched is lost with its
// machine, and a persistent error need not be repeated often.
const taskRetries = 3

// describeTask returns the job of a staging: one task, with a machine of its own and 95 % of its memory.
func (j *jobs) describeTask(q cloudjob.Work) engine.Array {
	return engine.Array{
		ID: q.Env.Job, Plan: q.Fingerprint,
		Labels:  labels(q.Labels, map[string]string{"coppice-dataset": q.Dataset}),
		Program: engine.Launcher, Args: []string{"stage-task"}, Env: q.Env.Variables(),
		Tasks: 1, TasksPerHost: 1, Machine: q.Machine, Spot: q.Spot, LocalSSDs: q.LocalSSD,
		CPUMilli: int64(1000 * q.VCPUs), MemoryMiB: q.Memory / 20 * 19 >> 20, // the rest is for the system
		Retries: taskRetries, Repeat: sweep.RetryableExitCodes(), Limit: q.Limit,
	}
}

// examine opens what `launcher doctor` reads of the project and its region.
func examine(ctx context.Context, env cli.Env) (doctor.Cloud, error) {
	client, err := inspect.New(ctx, inspect.Options{Project: env.Project, Location: env.Location,
		Endpoint: env.InspectEndpoint})
	if err != nil {
		return nil, err // not a doctor.Cloud that holds a nil client
	}
	return client, nil
}
