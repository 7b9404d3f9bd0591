package terraform

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/must"
	"coppice/internal/program/environment"
)

var update = flag.Bool("update", false, "write tests/golden anew")

// deployment is a set of Terraform's variables for which a golden file holds the bindings. Terraform plans the same two
// in tests/defaults.tftest.hcl and tests/everything.tftest.hcl.
type deployment struct {
	file    string              // in tests/golden
	people  map[string][]string // the members of each identity of people
	jobs    []string            // the scheduled launchers; with any, the aggregator's service is there, too
	source  []string            // buckets of tables
	tables  []string            // datasets of BigQuery
	webhook []string            // the secret
	key     bool                // there is a key of KMS, by which buckets are encrypted
}

var deployments = []deployment{
	{file: "bootstrap.json"},
	{file: "everything.json", jobs: []string{"coppice-clean", "coppice-sweep-nightly", "coppice-sweep-weekly"},
		source: []string{"example-exports"}, tables: []string{"example-ads.events"},
		webhook: []string{"slack-verdicts"}, key: true,
		people: map[string][]string{
			"operators":     {"group:ops@example.com", "user:ana@example.com"},
			"model_readers": {"serviceAccount:serving@example-serving.iam.gserviceaccount.com"},
			"model_callers": {"serviceAccount:bidder@example-project.iam.gserviceaccount.com"},
		}},
}

const (
	testProject = "example-project"
	testNumber  = "123456789012"
)

// bindings returns all bindings that Terraform may plan for the deployment, as "MEMBER: ROLE on KIND NAME", ascending.
// iam.tf reads the table in its own way; that both come to the same is what the golden files are for.
func (d deployment) bindings(t *Table) []string {
	var all []string
	for _, b := range t.Bindings {
		i := t.Identities[b.Identity]
		members := d.people[b.Identity]
		switch i.Kind {
		case Account:
			members = []string{"serviceAccount:coppice-" + b.Identity + "@" + testProject + ".iam.gserviceaccount.com"}
		case Agent:
			members = []string{"serviceAccount:service-" + testNumber + "@" + i.Domain}
		}
		for _, m := range members {
			for _, name := range d.names(b.Resource) {
				kind, _, _ := strings.Cut(strings.Replace(b.Resource, "object/", "bucket/", 1), "/")
				role := b.Role
				if own, ok := strings.CutPrefix(role, "custom/"); ok {
					role = "projects/" + testProject + "/roles/coppice_" + own
				}
				all = append(all, fmt.Sprintf("%s: %s on %s %s", m, role, kind, name))
			}
		}
	}
	slices.Sort(all)
	return all
}

// names returns the names that a resource of the table has in the cloud: several if the deployment has several of it,
// and none if it has none.
func (d deployment) names(resource string) []string {
	kind, name, _ := strings.Cut(resource, "/")
	switch {
	case resource == Queries && d.tables == nil:
		return nil
	case kind == "project":
		return []string{testProject}
	case resource == SourceBuckets:
		return d.source
	case resource == SourceDatasets:
		return d.tables
	case resource == Checkpoints:
		return []string{testProject + "-coppice-sweeps where resource.name.extract('/checkpoints/{name}') != ''"}
	case kind == "bucket":
		return []string{testProject + "-coppice-" + name}
	case resource == "topic/dead_letters" || resource == "subscription/dead_letters":
		return []string{"coppice-scores-dead"}
	case resource == ScoresSubscription:
		return []string{"coppice-aggregator"}
	case kind == "topic" || kind == "subscription":
		return []string{"coppice-" + name}
	case kind == "account":
		return []string{"projects/" + testProject + "/serviceAccounts/coppice-" + name + "@" + testProject +
			".iam.gserviceaccount.com"}
	case kind == "repository":
		return []string{"coppice"}
	case kind == "service" && len(d.jobs) > 0:
		return []string{"coppice-" + name}
	case kind == "job":
		return d.jobs
	case resource == Webhook:
		return d.webhook
	case kind == "key" && d.key:
		return []string{"coppice"}
	}
	return nil // also for a subnetwork, on which Terraform gives no rights
}

// TestGoldenBindings: who may do what in each deployment is as its golden file says.
func TestGoldenBindings(t *testing.T) {
	table := load(t)
	for _, d := range deployments {
		golden(t, d.file, d.bindings(table))
	}
}

// golden fails the test if have, written as JSON, differs from the golden file of that name. With -update it writes the
// file instead.
func golden(t *testing.T, name string, have any) {
	t.Helper()
	text := must.Get(json.MarshalIndent(have, "", "  "))(t)
	text = append(text, '\n')
	path := filepath.Join("tests", "golden", name)
	if *update {
		must.Do(t, os.WriteFile(path, text, 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if string(text) != string(want) {
		t.Errorf("%s is not what the table says; if the table is right: go test ./terraform -update, and make "+
			"terraform-check\n%s", path, text)
	}
}

// TestGoldenEnvironment: Terraform sets exactly those variables of the environment that the programs read, and the
// programs accept their values. Exceptions are variables of emulators, of the webhook and of Slurm, which this
// deployment does not have.
func TestGoldenEnvironment(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("tests", "golden", "environment.json")))(t)
	var set map[string]string
	must.Do(t, json.Unmarshal(text, &set))
	var env struct {
		environment.Deployment
		environment.BatchEnv
	}
	err := envconfig.ProcessWith(t.Context(), &envconfig.Config{Target: &env, Lookuper: envconfig.MapLookuper(set)})
	if err != nil || env.Check() != nil {
		t.Fatalf("the programs do not accept the environment: %v, %v; want no error", err, env.Check())
	}
	read := append(variables(reflect.TypeFor[environment.Deployment]()),
		variables(reflect.TypeFor[environment.BatchEnv]())...)
	// The webhook's are for what runs in the cloud: tests/everything.tftest.hcl has them. Slurm's, and the choice of
	// the engine, are for a cluster.
	read = slices.DeleteFunc(read, func(name string) bool {
		return name == "COPPICE_ENGINE" || strings.HasPrefix(name, "COPPICE_SLURM_") ||
			strings.HasPrefix(name, "COPPICE_WEBHOOK")
	})
	for name := range set {
		if !slices.Contains(read, name) {
			t.Errorf("%s is set and nobody reads it; want each to be read, or gone", name)
		}
	}
	for _, name := range read {
		// The three endpoints are those of emulators.
		if _, ok := set[name]; !ok && name != "COPPICE_BATCH_ENDPOINT" && name != "COPPICE_BIGQUERY_ENDPOINT" &&
			name != "COPPICE_INSPECT_ENDPOINT" {
			t.Errorf("%s is read and not set; want each to be set", name)
		}
	}
}

// variables returns the names of the environment's variables that fill the fields of the struct t, embedded structs
// included.
func variables(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if f := t.Field(i); f.Type.Kind() == reflect.Struct {
			names = append(names, variables(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("env"), ",")
		names = append(names, name)
	}
	return names
}

// TestOnlyTheTableGrants: no file of Terraform gives rights past the table. Resources of a kind *_iam_* are in iam.tf
// alone, each gives one role to one member and not to a list, and each is made from the table. No account has a key.
func TestOnlyTheTableGrants(t *testing.T) {
	resource := regexp.MustCompile(`(?m)^\s*resource\s+"([a-z0-9_]+)"\s+"([a-z0-9_]+)"\s*\{\s*\n\s*(\S+)\s+=\s+(\S+)`)
	found := 0
	must.Do(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".terraform" {
			return errOr(err, fs.SkipDir)
		}
		if filepath.Ext(name) != ".tf" {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		// The expression resource needs a first attribute in the line after the head.
		if n := len(regexp.MustCompile(`(?m)^\s*resource\s+"`).FindAll(source, -1)); n > len(resource.FindAll(source,
			-1)) {
			t.Errorf("%s: got %d resources of which this test can read %d, want all in the form that it reads", name, n,
				len(resource.FindAll(source, -1)))
		}
		for _, m := range resource.FindAllStringSubmatch(string(source), -1) {
			kind, label, first, value := m[1], m[2], m[3], m[4]
			if kind == "google_service_account_key" || kind == "google_project_default_service_accounts" {
				t.Errorf("%s: %s: no account has a key", name, kind)
			}
			if kind == "google_project_iam_audit_config" && name == "audit.tf" {
				continue // grants nothing
			}
			if kind == "google_project_iam_custom_role" && name == "iam.tf" && value == "local.own_roles" {
				continue // of roles.yaml, and given by the table alone
			}
			if !strings.Contains(kind, "_iam_") {
				continue
			}
			found++
			if name != "iam.tf" || label != "table" || !strings.HasSuffix(kind, "_iam_member") || first != "for_each" ||
				!strings.HasPrefix(value, "local.granted.") {
				t.Errorf("%s: %s.%s grants outside the table: every right is a row of iam.yaml", name, kind, label)
			}
		}
		return nil
	}))
	if found != 11 {
		t.Errorf("found %d resources that bind; want the 11 of iam.tf: a new kind needs a look at this test", found)
	}
}

// errOr returns err, or other if err is nil.
func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
