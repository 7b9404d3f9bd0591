//go:build unix

package world

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"coppice/localemu/internal/rights"
	"coppice/localemu/restemu"
	"coppice/terraform"
)

// Everybody has addresses of their own while rights are enforced; see package rights.

// addresses are where an identity finds the four emulators.
type addresses struct{ storage, messages, batch, rest string }

// identities are those whose programs run in the local cloud, and whoever made it.
var identities = []string{terraform.Launcher, terraform.Task, terraform.Stager, terraform.Aggregator, rights.Owner}

// CheckIdentity is an error unless programs can run as the identity.
func CheckIdentity(name string) error {
	for _, i := range identities {
		if i == name {
			return nil
		}
	}
	return fmt.Errorf("%.80q is nobody here; there are %q", name, identities)
}

// newGuard is the guard of this world: by the table of Options, or by the whole one, which then hinders nobody.
func newGuard(o Options) (*rights.Guard, error) {
	table := o.Rights
	if table == nil {
		var err error
		if table, err = terraform.Load(); err != nil {
			return nil, err
		}
	}

	return rights.New(table, project, map[string]string{
		"bucket/" + buckets["COPPICE_DATASETS_BUCKET"]: terraform.DatasetsBucket,
		"bucket/" + buckets["COPPICE_SWEEPS_BUCKET"]:   terraform.SweepsBucket,
		"bucket/" + buckets["COPPICE_REGISTRY_BUCKET"]: terraform.RegistryBucket,
		"topic/" + topic(scoresTopic):                  terraform.ScoresTopic,
		"topic/" + topic(jobsTopic):                    terraform.JobsTopic,
		"subscription/" + sub(jobsTopic):               "subscription/jobs",
		"topic/" + topic(verdictsTopic):                terraform.VerdictsTopic,
		"topic/" + topic(deadLetters):                  "topic/dead_letters",
		"subscription/" + sub(subscription):            terraform.ScoresSubscription,
	}), nil
}

func topic(id string) string { return "projects/" + project + "/topics/" + id }
func sub(id string) string   { return "projects/" + project + "/subscriptions/" + id }

// self is as whom the command runs: with no rights enforced, as one who may do everything.
func (o Options) self() string {
	switch {
	case o.Rights == nil:
		return rights.Owner
	case o.As == "":
		return terraform.Launcher
	}
	return o.As
}

// openDoors gives everybody else addresses of their own.
func (w *World) openDoors() error {
	if w.opts.Rights == nil {
		return nil
	}
	for _, identity := range identities {
		if identity == w.opts.self() {
			continue
		}

		var at addresses
		for _, d := range []struct {
			address *string
			open    func(net.Listener)
		}{{&at.storage, w.storage.Open}, {&at.messages, w.pubsub.Open}, {&at.batch, w.batch.Open}, {&at.rest, w.rest.Open}} {
			l, err := w.listenAt(0)
			if err != nil {
				return err
			}
			w.guard.Door(l.Addr(), identity)
			*d.address = l.Addr().String()
			d.open(l)
		}

		w.listeners[identity] = at
	}
	return nil
}

// startREST starts what answers a doctor.
func (w *World) startREST() error {
	l, err := w.listen(3)
	if err != nil {
		return err
	}
	w.guard.Door(l.Addr(), w.opts.self())
	w.rest = restemu.Start(l, restemu.Options{
		Project: project, Number: rights.ProjectNumber, Location: location, Rights: caller{w.guard}, Resources: resources{w}, Log: w.log,
	})
	return nil
}

// caller knows whoever calls by an e-mail address.
type caller struct{ *rights.Guard }

func (c caller) Caller(at net.Addr) string { return c.Email(c.At(at)) }

// storageHost is the variable for Google's storage clients, with a scheme: Go's takes an address without one, Python's does not.
func storageHost(address string) string { return "STORAGE_EMULATOR_HOST=http://" + address }

// tenants is where the tasks of a job find the emulators.
type tenants struct {
	*rights.Guard
	w *World
}

func (t tenants) Environment(email string) []string {
	at := t.w.at(t.Identity(email))
	return []string{storageHost(at.storage), "PUBSUB_EMULATOR_HOST=" + at.messages}
}

// resources are what a doctor can look at.
type resources struct{ w *World }

func (t resources) Bucket(name string) bool { return t.w.storage.HasBucket(name) }

func (t resources) Topic(ctx context.Context, name string) (*pubsubpb.Topic, error) {
	return t.w.pubsub.Topic(ctx, name)
}

func (t resources) Subscription(ctx context.Context, name string) (*pubsubpb.Subscription, error) {
	return t.w.pubsub.Subscription(ctx, name)
}

// at is where an identity finds the emulators.
func (w *World) at(identity string) addresses {
	if at, ok := w.listeners[identity]; ok {
		return at
	}
	if w.opts.Rights != nil && identity != w.opts.self() {
		return addresses{} // nobody whom the table knows
	}
	return addresses{w.storage.Addr(), w.pubsub.Addr(), w.batch.Addr(), w.rest.Addr()}
}

// Env is the environment in which the command finds the local cloud, NAME=VALUE.
func (w *World) Env() []string { return w.env(w.opts.self()) }

// env is the environment in which a program of an identity finds the local cloud.
func (w *World) env(identity string) []string {
	at := w.at(identity)
	return []string{
		"COPPICE_PROJECT=" + project,
		"COPPICE_LOCATION=" + location,

		"COPPICE_DATASETS_BUCKET=" + buckets["COPPICE_DATASETS_BUCKET"],
		"COPPICE_SWEEPS_BUCKET=" + buckets["COPPICE_SWEEPS_BUCKET"],
		"COPPICE_REGISTRY_BUCKET=" + buckets["COPPICE_REGISTRY_BUCKET"],

		"COPPICE_SCORES_TOPIC=" + scoresTopic,
		"COPPICE_JOBS_TOPIC=" + jobsTopic,
		"COPPICE_VERDICTS_TOPIC=" + verdictsTopic,
		"COPPICE_SUBSCRIPTION=" + subscription,

		"COPPICE_TASK_IMAGE=" + taskImage,
		"COPPICE_LAUNCHER_IMAGE=" + stageImage,

		"COPPICE_TASK_SERVICE_ACCOUNT=" + w.guard.Email(terraform.Task),
		"COPPICE_STAGE_SERVICE_ACCOUNT=" + w.guard.Email(terraform.Stager),

		"COPPICE_INSPECT_ENDPOINT=" + at.rest,
		"COPPICE_BATCH_ENDPOINT=" + at.batch,
		storageHost(at.storage),
		"PUBSUB_EMULATOR_HOST=" + at.messages,
	}
}

// Environ is environ with the local cloud in it as the command sees it, and without what would lead a program past it.
func (w *World) Environ(environ []string) []string { return w.environ(environ, w.opts.self()) }

func (w *World) environ(environ []string, identity string) []string {
	return append(slices.DeleteFunc(slices.Clone(environ), leadsPast), w.env(identity)...)
}

// leadsPast says whether a variable, NAME=VALUE, belongs to another deployment: its names, its emulators, and Cloud Monitoring,
// whose address Terraform prints with the others and for which a local task has no credentials. A collector's address may stay:
// whoever has named one wants the measurements of the local cloud, too. So may a webhook on this machine; that of a deployment would call
// people who know nothing of the local cloud.
func leadsPast(variable string) bool {
	name, value, _ := strings.Cut(variable, "=")
	switch name {
	case "COPPICE_WEBHOOK":
		u, err := url.Parse(value)
		return err != nil || u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost"
	case "COPPICE_WEBHOOK_FORMAT", "COPPICE_WEBHOOK_VERDICTS":
		return false
	}

	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		u, err := url.Parse(value)
		return err == nil && u.Host == "telemetry.googleapis.com"
	}
	return strings.HasPrefix(name, "COPPICE_") || strings.Contains(name, "_EMULATOR_HOST")
}
