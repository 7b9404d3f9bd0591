package terraform

import (
	"fmt"
	"slices"
)

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

// Check returns nil if the identity has the permission on the resource.
func (t *Table) Check(identity, resource, permission string) error {
	if slices.Contains(t.Permissions(identity, resource), permission) {
		return nil
	}
	return fmt.Errorf("the account %s has no permission %s on %s", identity, permission, resource)
}
