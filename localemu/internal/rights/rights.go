// Package rights says who may do what in the local cloud: what terraform/iam.yaml gives them, and nothing else. Who calls is
// known by the address that was called: each identity has addresses of its own (doors), which only its programs are told. So
// programs and client libraries are the same with and without rights, and nobody takes another's identity by accident.
//
// Not imitated: conditions, deny policies, groups, inheritance from folders, the minutes that a change takes to be felt, and
// everything that follows from a permission that no role in terraform/roles.yaml has.
package rights

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"coppice/terraform"
)

// Owner is whoever made the local cloud: it may do everything, and is in no table.
const Owner = "owner"

// Guard answers whether somebody may do something. It may be used from any goroutine.
type Guard struct {
	table   *terraform.Table
	project string
	names   map[string]string // KIND/NAME as a service names things, to the table's resource

	mu        sync.RWMutex
	listeners map[string]string // address to identity
}

// New is a guard by the table. names says which resource of the table stands for a KIND/NAME of a service, such as
// bucket/coppice-sweeps for bucket/sweeps.
func New(table *terraform.Table, project string, names map[string]string) *Guard {
	return &Guard{table: table, project: project, names: names, listeners: map[string]string{}}
}

// DeniedError is a call that its caller may not make.
type DeniedError struct {
	Member     string // the caller's e-mail address
	Permission string
	Resource   string // as the service names it
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s does not have %s access to %s. Permission '%s' denied on resource (or it may not exist).", e.Member, e.Permission, e.Resource, e.Permission)
}

// Door says that whoever calls at the address is the identity.
func (g *Guard) Door(address net.Addr, identity string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listeners[address.String()] = identity
}

// At is the identity of whoever calls at the address; "" is nobody.
func (g *Guard) At(address net.Addr) string {
	if address == nil {
		return ""
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.listeners[address.String()]
}

// domain is that of the project's service accounts.
func (g *Guard) domain() string { return "@" + g.project + ".iam.gserviceaccount.com" }

// Email is the address of an identity's service account.
func (g *Guard) Email(identity string) string {
	if identity == Owner {
		return "owner@example.com"
	}
	return "coppice-" + identity + g.domain()
}

// Identity is whose service account has the address; "" is nobody's.
func (g *Guard) Identity(email string) string {
	name, ours := strings.CutSuffix(email, g.domain())
	identity, named := strings.CutPrefix(name, "coppice-")
	if ours && named && g.table.Identities[identity].Kind == terraform.Account {
		return identity
	}
	return ""
}

// resource is the table's name for KIND/NAME. A bucket that is not one of the deployment's is one that tables are staged from.
func (g *Guard) resource(kind, name string) string {
	if kind == "project" {
		return terraform.Project
	}
	if kind == "account" {
		return "account/" + g.Identity(name)
	}

	if r, ok := g.names[kind+"/"+name]; ok {
		return r
	}
	if kind == "bucket" {
		return terraform.SourceBuckets
	}
	return kind + "/" + name
}

// Allow says nil, or a *DeniedError, to a call at the address: kind is project, bucket, topic, subscription, account or
// repository, name what the service calls it.
func (g *Guard) Allow(address net.Addr, kind, name, permission string) error {
	return g.allow(g.At(address), kind, name, permission)
}

// AllowAccount says the same to what is done in the name of a service account.
func (g *Guard) AllowAccount(email, kind, name, permission string) error {
	return g.allow(g.Identity(email), kind, name, permission)
}

func (g *Guard) allow(identity, kind, name, permission string) error {
	if identity == Owner || identity != "" && g.table.Check(identity, g.resource(kind, name), permission) == nil {
		return nil
	}
	who := "Anonymous caller"
	if identity != "" {
		who = g.Email(identity)
	}
	return &DeniedError{Member: who, Permission: permission, Resource: strings.TrimSuffix(kind+" "+name, " ")}
}

// Policy are the roles on exactly this resource, each with its members: what the deployment has set there.
func (g *Guard) Policy(kind, name string) map[string][]string {
	policy := map[string][]string{}
	resource := g.resource(kind, name)
	for _, b := range g.table.Bindings {
		identity := g.table.Identities[b.Identity]
		switch {
		case b.Resource != resource:
		case identity.Kind == terraform.Account:
			policy[b.Role] = append(policy[b.Role], "serviceAccount:"+g.Email(b.Identity))
		case identity.Kind == terraform.Agent:
			policy[b.Role] = append(policy[b.Role], "serviceAccount:service-"+ProjectNumber+"@"+identity.Domain)
		}
	}

	return policy
}

// ProjectNumber is the local project's number.
const ProjectNumber = "100000000001"
