package terraform

import (
	"fmt"
	"slices"
	"strings"
)

// Of are the bindings of an identity, in the order of the table.
func (t *Table) Of(identity string) []Binding {
	var of []Binding
	for _, b := range t.Bindings {
		if b.Identity == identity {
			of = append(of, b)
		}
	}
	return of
}

// Permissions are what an identity may do on a resource, ascending, by bindings on the resource itself and on the project,
// which holds all others.
func (t *Table) Permissions(identity, resource string) []string {
	var may []string
	for _, b := range t.Of(identity) {
		if b.Resource == resource || b.Resource == Project {
			may = append(may, t.Roles[b.Role]...)
		}
	}
	slices.Sort(may)
	return slices.Compact(may)
}

// DeniedError is a permission that an identity does not have.
type DeniedError struct {
	Identity   string
	Resource   string
	Permission string
	Roles      []string // that would give it, as far as the table knows
}

func (e *DeniedError) Error() string {
	text := fmt.Sprintf("the account %s has no permission %s on %s", e.Identity, e.Permission, e.Resource)
	if len(e.Roles) > 0 {
		text += "; " + strings.Join(e.Roles, " or ") + " would give it (terraform/iam.yaml lists who needs which)"
	}
	return text
}

// Check is nil when the identity may use the permission on the resource, else a *DeniedError. A permission that no role of
// the table has is denied to everybody.
func (t *Table) Check(identity, resource, permission string) error {
	if slices.Contains(t.Permissions(identity, resource), permission) {
		return nil
	}
	denied := &DeniedError{Identity: identity, Resource: resource, Permission: permission}
	for role, permissions := range t.Roles {
		if slices.Contains(permissions, permission) {
			denied.Roles = append(denied.Roles, role)
		}
	}
	slices.Sort(denied.Roles)
	return denied
}

// Without is the table with one binding less, for showing what that one is for. The table itself stays as it is; a binding
// that is not in it is an error.
func (t *Table) Without(identity, resource, role string) (*Table, error) {
	less := &Table{Identities: t.Identities, Roles: t.Roles}
	for _, b := range t.Bindings {
		if b.Identity != identity || b.Resource != resource || b.Role != role {
			less.Bindings = append(less.Bindings, b)
		}
	}
	if len(less.Bindings) == len(t.Bindings) {
		return nil, fmt.Errorf("iam.yaml: %s is not in it", Binding{Identity: identity, Resource: resource, Role: role})
	}
	return less, nil
}
