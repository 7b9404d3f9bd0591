package terraform

import (
	"errors"
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

// Check returns nil if the identity has the permission on the resource, else an error that names the roles which would
// give it. A permission that is in no role of the table is always denied.
func (t *Table) Check(identity, resource, permission string) error {
	if slices.Contains(t.Permissions(identity, resource), permission) {
		return nil
	}
	var roles []string
	for role, permissions := range t.Roles {
		if slices.Contains(permissions, permission) {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)

	text := fmt.Sprintf("the account %s has no permission %s on %s", identity, permission, resource)
	if len(roles) > 0 {
		text += "; " + strings.Join(roles, " or ") + " would give it (terraform/iam.yaml lists who needs which)"
	}
	return errors.New(text)
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
