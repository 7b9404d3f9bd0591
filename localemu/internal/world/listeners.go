package world

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	"coppice/localemu/internal/httpjson"
	"coppice/terraform"
)

// While rights are enforced, each identity has its own addresses, which the guard knows it by.

// addresses are where an identity finds the four emulators.
type addresses struct{ storage, messages, batch, rest string }

// identities are those that programs run as, and that of the user who started the local cloud.
var identities = []string{terraform.Launcher, terraform.Task, terraform.Stager, terraform.Aggregator, Owner}

// CheckIdentity returns an error unless programs can run as the identity.
func CheckIdentity(name string) error {
	for _, i := range identities {
		if i == name {
			return nil
		}
	}
	return fmt.Errorf("there is no identity %.80q; use one of %q", name, identities)
}

// guardOf returns the guard of this world. It enforces the table of Options; without one it takes the full table and
// denies nothing.
func guardOf(o Options) (*guard, error) {
	table := o.Rights
	if table == nil {
		var err error
		if table, err = terraform.Load(); err != nil {
			return nil, err
		}
	}

	return newGuard(table, project, map[string]string{
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

// self is the identity the command runs as: the owner, who may do everything, if no rights are enforced.
func (o Options) self() string {
	switch {
	case o.Rights == nil:
		return Owner
	case o.As == "":
		return terraform.Launcher
	}
	return o.As
}

// listenForAll gives every other identity its own addresses.
func (w *World) listenForAll() error {
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
		}{{&at.storage, w.storage.Open}, {&at.messages, w.pubsub.Open}, {&at.batch, w.batch.Open},
			{&at.rest, w.rest.Open}} {
			l, err := w.listenAt(0)
			if err != nil {
				return err
			}
			w.guard.open(l.Addr(), identity)
			*d.address = l.Addr().String()
			d.open(l)
		}

		w.listeners[identity] = at
	}
	return nil
}

// startREST starts the emulator of the APIs that the doctor asks.
func (w *World) startREST() error {
	l, err := w.listen(3)
	if err != nil {
		return err
	}
	w.guard.open(l.Addr(), w.opts.self())
	w.rest = httpjson.Serve(l, w.routes().ServeHTTP, w.log)
	return nil
}

// storageHost returns the variable for Google's storage clients, with a scheme: Go's client also takes an address
// without one, Python's does not.
func storageHost(address string) string { return "STORAGE_EMULATOR_HOST=http://" + address }

// at returns where an identity finds the emulators.
func (w *World) at(identity string) addresses {
	if at, ok := w.listeners[identity]; ok {
		return at
	}
	if w.opts.Rights != nil && identity != w.opts.self() {
		return addresses{} // not in the table
	}
	return addresses{w.storage.Addr(), w.pubsub.Addr(), w.batch.Addr(), w.rest.Addr()}
}

// Env returns the environment in which the command finds the local cloud, as NAME=VALUE.
func (w *World) Env() []string {
	return w.clients.with(w.env(w.opts.self()), w.opts.self(), launcherClient)
}

// env returns the environment in which a program of an identity finds the local cloud.
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

		"COPPICE_TASK_SERVICE_ACCOUNT=" + w.guard.email(terraform.Task),
		"COPPICE_STAGE_SERVICE_ACCOUNT=" + w.guard.email(terraform.Stager),

		"COPPICE_INSPECT_ENDPOINT=" + at.rest,
		"COPPICE_BATCH_ENDPOINT=" + at.batch,
		storageHost(at.storage),
		"PUBSUB_EMULATOR_HOST=" + at.messages,
	}
}

// Environ returns environ with the local cloud in it as the command sees it, and without variables that would lead a
// program to another cloud.
func (w *World) Environ(environ []string) []string {
	return w.environ(environ, w.opts.self(), launcherClient)
}

func (w *World) environ(environ []string, identity, client string) []string {
	return append(slices.DeleteFunc(slices.Clone(environ), leadsPast), w.clients.with(w.env(identity), identity,
		client)...)
}

// leadsPast reports whether a variable, NAME=VALUE, belongs to another deployment: its names, its emulators, and Cloud
// Monitoring, whose address Terraform prints with the others and for which a local task has no credentials. A
// collector's address stays: it was set to collect the local cloud's measurements too. So does a webhook on this
// machine; a deployment's would notify people who know nothing of the local cloud. Prices are the user's own.
func leadsPast(variable string) bool {
	name, value, _ := strings.Cut(variable, "=")
	switch name {
	case "COPPICE_WEBHOOK":
		u, err := url.Parse(value)
		return err != nil || u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost"
	case "COPPICE_WEBHOOK_FORMAT", "COPPICE_WEBHOOK_VERDICTS", "COPPICE_PRICES":
		return false
	}

	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		u, err := url.Parse(value)
		return err == nil && u.Host == "telemetry.googleapis.com"
	}
	return strings.HasPrefix(name, "COPPICE_") || strings.Contains(name, "_EMULATOR_HOST")
}

// The clients that a fault can be limited to (gcsemu.Refusal). The launcher is the command and everything it runs.
const (
	launcherClient   = "launcher"
	aggregatorClient = "aggregator"
	taskClient       = "task" // task-3
)

// clients distinguishes the storage's callers if any fault is limited to one client: each client then has its own
// address, which is opened when its environment is made.
type clients struct {
	w *World

	mu        sync.Mutex
	addresses map[string]string // identity and client, to address
	names     map[string]string // address, to client
}

func newClients(w *World) *clients {
	return &clients{w: w, addresses: map[string]string{}, names: map[string]string{}}
}

// at returns the client that calls at the address, "" if there is none.
func (c *clients) at(address net.Addr) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[address.String()]
}

// task returns where the task with an index finds the emulators.
func (c *clients) task(account string, index int) []string {
	<-c.w.ready // a job may have been submitted as soon as Batch listened
	identity := c.w.opts.self()
	if c.w.opts.Rights != nil {
		identity = c.w.guard.identity(account)
	}
	at := c.w.at(identity)
	env := []string{storageHost(at.storage), "PUBSUB_EMULATOR_HOST=" + at.messages}
	return c.with(env, identity, fmt.Sprintf("%s-%d", taskClient, index))
}

// with returns the environment with the client's own storage address in it, if the client has one.
func (c *clients) with(env []string, identity, client string) []string {
	if !c.w.opts.Faults.byClient() {
		return env
	}
	address, err := c.address(identity, client)
	if err != nil {
		c.w.log.Error("give a client an address of its own", "client", client, "error", err)
		return env
	}

	host := storageHost(address)
	name, _, _ := strings.Cut(host, "=")
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(env, host)
}

// address returns the client's storage address, and opens it if need be.
func (c *clients) address(identity, client string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := identity + " " + client
	if address, ok := c.addresses[key]; ok {
		return address, nil
	}

	l, err := c.w.listenAt(0)
	if err != nil {
		return "", err
	}
	address := l.Addr().String()
	c.addresses[key], c.names[address] = address, client
	c.w.guard.open(l.Addr(), identityOf(c.w, identity))
	c.w.storage.Open(l)
	return address, nil
}

// identityOf returns the identity that the storage assigns to a caller: without rights, the command, which may do
// everything.
func identityOf(w *World, identity string) string {
	if w.opts.Rights == nil {
		return w.opts.self()
	}
	return identity
}
