package world

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"coppice/internal/sweep"
	"coppice/terraform"
)

// Rights are what terraform/iam.yaml grants, and nothing else. A caller is identified by the address it called: each
// identity has its own listening addresses, which only its programs are told. So programs and client libraries are the
// same with and without rights, and no program takes another's identity by accident.
//
// Not imitated: conditions but the one on the names of checkpoints, deny policies, groups, inheritance from folders,
// the minutes a change takes to become effective, and everything that follows from a permission that no role in
// terraform/roles.yaml has.

// Owner is the user who started the local cloud: it may do everything, and is in no table.
const Owner = "owner"

// guard decides whether a caller may do something. It may be used from any goroutine.
type guard struct {
	table   *terraform.Table
	project string
	names   map[string]string // KIND/NAME in the service's terms, to the table's resource

	mu        sync.RWMutex
	listeners map[string]string // address to identity
}

// newGuard returns a guard that enforces the table. names maps KIND/NAME as a service names a resource to its name in
// the table, such as bucket/coppice-sweeps to bucket/sweeps.
func newGuard(table *terraform.Table, project string, names map[string]string) *guard {
	return &guard{table: table, project: project, names: names, listeners: map[string]string{}}
}

// open makes the identity that of every caller of the address.
func (g *guard) open(address net.Addr, identity string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listeners[address.String()] = identity
}

// at returns the identity of callers of the address; "" if the address is no identity's.
func (g *guard) at(address net.Addr) string {
	if address == nil {
		return ""
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.listeners[address.String()]
}

// domain is the mail domain of the project's service accounts.
func (g *guard) domain() string { return "@" + g.project + ".iam.gserviceaccount.com" }

// email returns the e-mail address of an identity's service account.
func (g *guard) email(identity string) string {
	if identity == Owner {
		return "owner@example.com"
	}
	return "coppice-" + identity + g.domain()
}

// identity returns the identity whose service account has the e-mail address; "" if none has.
func (g *guard) identity(email string) string {
	name, ours := strings.CutSuffix(email, g.domain())
	identity, named := strings.CutPrefix(name, "coppice-")
	if ours && named && g.table.Identities[identity].Kind == terraform.Account {
		return identity
	}
	return ""
}

// resource returns the table's name for KIND/NAME. A bucket that is not one of the deployment's counts as one that
// tables are staged from.
func (g *guard) resource(kind, name string) string {
	if kind == "project" {
		return terraform.Project
	}
	if kind == "account" {
		return "account/" + g.identity(name)
	}
	if kind == "object" { // BUCKET/NAME; it has rights of its own where iam.tf's condition holds
		bucket, _, _ := strings.Cut(name, "/")
		if r := g.resource("bucket", bucket); r != terraform.SweepsBucket ||
			!strings.Contains(name, sweep.CheckpointsFolder) {
			return r
		}
		return terraform.Checkpoints
	}

	if r, ok := g.names[kind+"/"+name]; ok {
		return r
	}
	if kind == "bucket" {
		return terraform.SourceBuckets
	}
	return kind + "/" + name
}

// Allow returns nil, or an error if the identity of the address lacks the permission. kind is project, bucket,
// object, topic, subscription, account or repository; name is what the service calls the resource.
func (g *guard) Allow(address net.Addr, kind, name, permission string) error {
	return g.allow(g.at(address), kind, name, permission)
}

// AllowAccount is Allow for something done in the name of a service account.
func (g *guard) AllowAccount(email, kind, name, permission string) error {
	return g.allow(g.identity(email), kind, name, permission)
}

func (g *guard) allow(identity, kind, name, permission string) error {
	if identity == Owner || identity != "" && g.table.Check(identity, g.resource(kind, name), permission) == nil {
		return nil
	}
	who := "Anonymous caller"
	if identity != "" {
		who = g.email(identity)
	}
	//nolint:revive,staticcheck // as Cloud Storage says it
	return fmt.Errorf("%s does not have %s access to %s. Permission '%s' denied on resource (or it may not exist).",
		who, permission, strings.TrimSuffix(kind+" "+name, " "), permission)
}
