//go:build unix

package cli

import (
	"slices"
	"strings"
	"testing"

	"coppice/internal/problem"
	"coppice/terraform"
)

func TestRightsFlags(t *testing.T) {
	const gone = "task bucket/sweeps roles/storage.objectUser"
	for name, tc := range map[string]struct {
		flags    rightsFlags
		enforced bool
		says     string // of a refusal
	}{
		"nothing":  {rightsFlags{}, false, ""},
		"all":      {rightsFlags{enforce: true}, true, ""},
		"less":     {rightsFlags{without: []string{gone}, as: "owner"}, true, ""},
		"as whom?": {rightsFlags{as: "owner"}, false, "--enforce-iam"},
		"nobody":   {rightsFlags{enforce: true, as: "root"}, false, `there is no identity "root"`},
		"no such binding": {rightsFlags{without: []string{"task bucket/sweeps roles/storage.admin"}}, false,
			"is not in it"},
		"no binding": {rightsFlags{without: []string{"task"}}, false, "IDENTITY RESOURCE ROLE"},
		"twice":      {rightsFlags{without: []string{gone, gone}}, false, "is not in it"},
	} {
		table, as, err := tc.flags.table()
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) || !problem.Is(err, problem.Usage) {
				t.Errorf("%s: got %v; expected a usage error that says %q", name, err, tc.says)
			}
			continue
		}
		if err != nil || (table != nil) != tc.enforced || as != tc.flags.as {
			t.Errorf("%s: enforced %t as %q, error %v; expected %t as %q", name, table != nil, as, err, tc.enforced,
				tc.flags.as)
			continue
		}
		has := table != nil && slices.ContainsFunc(table.Of(terraform.Task),
			func(b terraform.Binding) bool { return b.Resource == terraform.SweepsBucket })
		if has != (tc.enforced && tc.flags.without == nil) {
			t.Errorf("%s: the binding is there: %t", name, has)
		}
	}
}
