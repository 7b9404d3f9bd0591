//go:build unix

package world

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
)

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
