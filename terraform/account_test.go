package terraform

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"coppice/internal/must"
)

// TestWhatANewAccountNeeds holds docs/run.md's table to its order, to the quotas that doctor compares, to the roles
// that are made, and to the words of errors that the programs know or the local cloud says as Google does.
func TestWhatANewAccountNeeds(t *testing.T) {
	read := func(name string) string { return string(must.Get(os.ReadFile(name))(t)) }
	_, rest, _ := strings.Cut(read("../docs/run.md"), "What a new account needs")
	table, rest, found := strings.Cut(rest, "## Create it")
	_, destroy, _ := strings.Cut(rest, "## Destroy")
	destroy, _, _ = strings.Cut(destroy, "\n## ")
	if !found || destroy == "" {
		t.Fatal("docs/run.md has no such table, or does not say how to destroy")
	}

	last := 0
	for _, row := range []string{"| billing", "| *CPUs (all regions)*", "| the region's quotas", "| both logins",
		"| `prepare.sh`", "| `apply`", "| 8 to 37 days after `destroy`", "| images", "| Cloud Run's quota",
		"| a machine that comes"} {
		at := strings.Index(table, "\n"+row)
		if at < last {
			t.Errorf("%q is at %d, want it after %d", row, at, last)
		}
		last = max(last, at)
	}

	doctor := read("../launcher/internal/doctor/machines.go")
	metrics := regexp.MustCompile(`need\{"([A-Z_]+)", "([A-Z_]*)"`).FindAllStringSubmatch(doctor, -1)
	if len(metrics) < 4 {
		t.Errorf("doctor compares %q", metrics)
	}
	for _, m := range append(metrics, []string{"", "CPUS_ALL_REGIONS", "N2_CPUS"}) {
		for _, metric := range m[1:] {
			if metric != "" && metric != "IN_USE_ADDRESSES" && !strings.Contains(table, "'"+metric+"'") {
				t.Errorf("doctor compares %s, and the table does not name it", metric)
			}
		}
	}

	for words, where := range map[string]string{
		"Quota 'CPUS_ALL_REGIONS' exceeded.  ": "../localemu/batchemu/faults.go",
		"(CODE_GCE_QUOTA_EXCEEDED)":            "../launcher/internal/provision/provision_test.go",
		"could not find default credentials":   "../internal/cloud/errors.go",
		"SERVICE_DISABLED":                     "../internal/cloud/errors.go",
		"does not exist":                       "../launcher/internal/doctor/doctor.go",
		"ZONE_RESOURCE_POOL_EXHAUSTED":         "../localemu/batchemu/faults.go",
		"wait: ":                               "examples/production/nightly.yaml",
	} {
		if !strings.Contains(table, words) || !strings.Contains(read(where), words) {
			t.Errorf("%q has to stand in the table and in %s", words, where)
		}
	}

	roles := must.Get(Load())(t).Roles
	for role := range roles {
		if name, own := strings.CutPrefix(role, "custom/"); own && !strings.Contains(destroy, "`coppice_"+name+"`") {
			t.Errorf("docs/run.md does not say what becomes of coppice_%s", name)
		}
	}
	for _, name := range regexp.MustCompile("coppice_([a-z]+)").FindAllStringSubmatch(table+destroy, -1) {
		if roles["custom/"+name[1]] == nil {
			t.Errorf("there is no role %s", name[0])
		}
	}
}
