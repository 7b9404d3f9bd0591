package terraform

import (
	"fmt"
	"slices"
	"strings"
)

// Of returns the bindings of an identity, in the order of the table.
func (t *Table) Of(identity string) []Binding {
	var of []Binding
	for _, b := range t.Bindings {
		if b.Identity == identity {
			of = append(of, b)
		}
	}
	return of
}

// Permissions returns what an identity may do on a resource, ascending, by bindings on the resource itself and on the
// project, which contains all others.
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

// DeniedError is a permission that an identity lacks.
type DeniedError struct {
	Identity   string
	Resource   string
	Permission string
	Roles      []string // known roles that would grant it
}

func (e *DeniedError) Error() string {
	text := fmt.Sprintf("the account %s has no permission %s on %s", e.Identity, e.Permission, e.Resource)
	if len(e.Roles) > 0 {
		text += "; " + strings.Join(e.Roles, " or ") + " would give it (terraform/iam.yaml lists who needs which)"
	}
	return text
}

// Check returns nil if the identity has the permission on the resource, else a *DeniedError. A permission that is in no
// role of the table is always denied.
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

// Without returns a copy of the table without one binding, for showing what that one is for. A binding that is not in
// the table is an error.
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
