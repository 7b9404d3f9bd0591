package command

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/cloud/batch"
	"coppice/internal/cloud/gcs"
	"coppice/internal/cloud/idtoken"
	"coppice/internal/cloud/inspect"
	"coppice/internal/cloud/pubsub"
	"coppice/internal/notify"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cli"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/console"
	"coppice/launcher/internal/doctor"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// connect opens the launcher's backends: buckets by name, and Batch.
func connect(ctx context.Context, env cli.Env) (*cli.Backends, error) {
	storage, err := gcs.New(ctx)
	if err != nil {
		return nil, err
	}

	b := &cli.Backends{Bucket: func(name string) blob.Store { return storage.Bucket(name) }, Close: storage.Close}
	if env.Project == "" { // only buckets are needed
		return b, nil
	}

	client, err := batch.New(ctx, batch.Options{Project: env.Project, Location: env.Location,
		Endpoint: env.BatchEndpoint})
	if err != nil {
		return nil, errors.Join(err, storage.Close())
	}

	b.Verdicts = func(ctx context.Context) ([]notify.Channel, func(), error) { return verdicts(ctx, env) }
	j := &jobs{client: client, env: env}
	b.Jobs, b.Tasks = j, j
	b.Close = func() error { return errors.Join(client.Close(), storage.Close()) }
	return b, nil
}

// verdicts opens the channels for notifying people.
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

// callers authenticates callers by ID tokens signed by Google.
func callers(ctx context.Context, env sweep.CallersEnv) (console.Callers, error) {
	if env.Signatures == sweep.SignaturesCloudRun && !env.OnCloudRun() {
		return nil, &cloud.SetupError{What: "COPPICE_SIGNATURES=cloud-run outside Cloud Run",
			Hint: "only Cloud Run verifies signatures and removes them; leave the variable out, and the console " +
				"verifies them itself"}
	}
	return idtoken.New(ctx, idtoken.Options{Audience: env.Audience, Callers: env.Callers,
		CloudRunChecks: env.Signatures == sweep.SignaturesCloudRun})
}

// jobs submits a plan as a Batch job.
type jobs struct {
	client *batch.Client
	env    cli.Env
}

// mountPath is where the local SSD of a VM is mounted; all its tasks see the same folder.
const mountPath = "/mnt/disks/coppice"

// retries of a task: the most that Batch allows. Spot machines are taken away, and a trial is only given up after
// sweep.MaxClaims deaths.
const retries = 10

// labels are a spec's with those of the programs.
func labels(own, programs map[string]string) map[string]string {
	maps.Copy(programs, own)
	return programs
}

// describe converts a plan to a Batch job. It depends only on the plan and the environment, so the same plan makes the
// same job.
func (j *jobs) describe(p *sweep.Plan) batch.Job {
	z, m := p.Sizing, p.Spec.Machine
	id := p.Job[strings.LastIndexByte(p.Job, '/')+1:] // the sweep's id, with the number of a fallback
	task := sweep.TaskEnv{Project: j.env.Project, DatasetsBucket: j.env.DatasetsBucket,
		SweepsBucket: j.env.SweepsBucket,
		ScoresTopic:  j.env.ScoresTopic, Sweep: string(p.Sweep), Job: id, Scratch: mountPath,
		OTLPEndpoint: j.env.OTLPEndpoint}
	together := p.Spec.FinalMachines() > 1
	if together {
		task.Listen = j.listen()
	}
	return batch.Job{
		ID: id,
		Labels: labels(p.Spec.Labels, map[string]string{batch.PlanLabel: p.Fingerprint()[:batch.PlanLabelDigits],
			"coppice-sweep": string(p.Sweep), "coppice-model": p.Spec.Model}),
		Location: j.env.Location, Zones: j.zones(m.Zones), Image: j.env.TaskImage, Args: []string{"run"},
		Env:   task.Variables(),
		Tasks: z.Tasks, Parallelism: z.Tasks, TasksPerVM: z.TasksPerVM,
		MachineType: z.MachineType, Spot: *m.Spot, LocalSSDs: int(m.LocalSSD), MountPath: mountPath,
		CPUMilli:   int64(1000 * z.VCPUs / z.TasksPerVM),
		MemoryMiB:  (z.MemoryBytes - z.ReserveBytes) / int64(z.TasksPerVM) >> 20,
		MaxRetries: retries, RetryExitCodes: sweep.RetryableExitCodes(),
		MaxRunDuration: time.Duration(p.Spec.Limits.Sweep),
		ServiceAccount: j.env.ServiceAccount, Network: j.env.Network, Subnetwork: j.env.Subnetwork,
		NoExternalIP: j.env.Subnetwork != "", HostNetwork: together,
		Notify: j.notify(),
	}
}

// listen is where a machine's task may be called by the others: at the port that Terraform's firewall rule lets
// through, or, on pretend machines, at any.
func (j *jobs) listen() string {
	if j.env.BatchEndpoint != "" {
		return "127.0.0.1:0"
	}
	return ":7433"
}

// zones returns the spec's zones, else the deployment's.
func (j *jobs) zones(wanted []string) []string {
	if len(wanted) > 0 || j.env.Zones == "" {
		return wanted
	}
	return slices.DeleteFunc(strings.Split(j.env.Zones, ","), func(z string) bool { return z == "" })
}

// notify returns the deployment's topic for jobs, if it has one.
func (j *jobs) notify() []string {
	topic := j.env.JobsTopic
	if topic == "" {
		return nil
	}
	if !strings.Contains(topic, "/") {
		topic = "projects/" + j.env.Project + "/topics/" + topic
	}
	return []string{topic}
}

func (j *jobs) Name(id sweep.ID) string { return j.client.Name(string(id)) }

func (j *jobs) Request(p *sweep.Plan) ([]byte, error) {
	return j.describe(p).JSON()
}

func (j *jobs) Submit(ctx context.Context, p *sweep.Plan) (existed bool, err error) {
	_, existed, err = j.client.Submit(ctx, j.describe(p))
	return existed, err
}

// SubmitTask starts a staging job.
func (j *jobs) SubmitTask(ctx context.Context, q cloudjob.Work) (existed bool, err error) {
	_, existed, err = j.client.Submit(ctx, j.describeTask(q))
	return existed, err
}

// taskRetries of such a task: what it has fetched is lost with its machine, and a persistent error need not be repeated
// often.
const taskRetries = 3

func (j *jobs) describeTask(q cloudjob.Work) batch.Job {
	q.Env.Scratch = mountPath
	account := j.env.StageAccount
	if account == "" {
		account = j.env.ServiceAccount
	}

	return batch.Job{
		ID:       q.Env.Job,
		Labels:   labels(q.Labels, map[string]string{batch.PlanLabel: q.Fingerprint, "coppice-dataset": q.Dataset}),
		Location: j.env.Location, Zones: j.zones(nil), Image: j.env.LauncherImage,
		Args: []string{"stage-task"}, Env: q.Env.Variables(),
		Tasks: 1, Parallelism: 1, TasksPerVM: 1, MachineType: q.Machine, Spot: q.Spot,
		LocalSSDs: q.LocalSSD, MountPath: mountPath,
		CPUMilli: int64(1000 * q.VCPUs), MemoryMiB: q.Memory / 20 * 19 >> 20, // the rest is for the system
		MaxRetries: taskRetries, RetryExitCodes: sweep.RetryableExitCodes(), MaxRunDuration: q.Limit,
		ServiceAccount: account, Network: j.env.Network, Subnetwork: j.env.Subnetwork,
		NoExternalIP: j.env.Subnetwork != "",
	}
}

func (j *jobs) Status(ctx context.Context, job string) (provision.JobStatus, error) {
	s, err := j.client.Get(ctx, job)
	return status(s, err)
}

func (j *jobs) Cancel(ctx context.Context, job string) (provision.JobStatus, error) {
	s, err := j.client.Cancel(ctx, job)
	return status(s, err)
}

func (j *jobs) Delete(ctx context.Context, job string) error { return j.client.Delete(ctx, job) }

// status converts a job's status.
func status(s batch.Status, err error) (provision.JobStatus, error) {
	if errors.Is(err, batch.ErrNotExist) {
		return provision.JobStatus{State: sweepview.JobMissing, Finished: true}, nil
	}
	return provision.JobStatus{State: string(s.State), Finished: s.State.Finished(), Tasks: s.Counts,
		Failure: s.FailureReason(),
		Created: s.Created, Began: s.Began(), NoCapacity: s.NoCapacity().Text}, err
}

// examine opens what `launcher doctor` examines.
func examine(ctx context.Context, env cli.Env) (doctor.Cloud, error) {
	client, err := inspect.New(ctx, inspect.Options{Project: env.Project, Location: env.Location,
		Endpoint: env.InspectEndpoint})
	if err != nil {
		return nil, err // not a doctor.Cloud that holds a nil client
	}
	return client, nil
}
