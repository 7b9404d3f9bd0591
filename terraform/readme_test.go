package terraform

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"coppice/internal/must"
)

// module are the blocks of the module's files by kind, each with the text of its attributes.
type module struct {
	variables, outputs []declared
	resources          map[string]int // of each type
}

type declared struct {
	name string
	text map[string]string // of an attribute, as it is written, in one line
}

func readModule(t *testing.T) module {
	t.Helper()
	files, err := filepath.Glob("*.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	m := module{resources: map[string]int{}}
	parser := hclparse.NewParser()
	for _, name := range files {
		f, diags := parser.ParseHCLFile(name)
		if diags.HasErrors() {
			t.Fatalf("parsed %s: %v; want no error", name, diags)
		}
		body, ok := f.Body.(*hclsyntax.Body)
		if !ok {
			t.Fatalf("%s is not in Terraform's own language", name)
		}
		for _, b := range body.Blocks {
			d := declared{text: map[string]string{}}
			for attr, a := range b.Body.Attributes {
				d.text[attr] = oneLine(a.Expr.Range(), f.Bytes)
			}
			switch b.Type {
			case "variable":
				d.name = b.Labels[0]
				m.variables = append(m.variables, d)
			case "output":
				d.name = b.Labels[0]
				m.outputs = append(m.outputs, d)
			case "resource":
				m.resources[b.Labels[0]]++
			}
		}
	}
	for _, list := range [][]declared{m.variables, m.outputs} {
		slices.SortFunc(list, func(a, b declared) int { return strings.Compare(a.name, b.name) })
	}
	return m
}

var spaces = regexp.MustCompile(`\s+`)

func oneLine(r hcl.Range, source []byte) string {
	return spaces.ReplaceAllString(string(r.SliceBytes(source)), " ")
}

// unquoted is a description as it is read.
func unquoted(text string) string {
	return strings.NewReplacer(`\"`, `"`, "|", `\|`).Replace(strings.Trim(text, `"`))
}

func (m module) inputs() string {
	var b strings.Builder
	b.WriteString("| name | meaning | type | default |\n|---|---|---|---|\n")
	for _, v := range m.variables {
		fallback := "`" + v.text["default"] + "`"
		if v.text["default"] == "" {
			fallback = "required"
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", v.name, unquoted(v.text["description"]), v.text["type"],
			fallback)
	}
	return b.String()
}

func (m module) results() string {
	var b strings.Builder
	b.WriteString("| name | meaning |\n|---|---|\n")
	for _, o := range m.outputs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", o.name, unquoted(o.text["description"]))
	}
	return b.String()
}

// makers are the roles with which each kind of resource is made and changed. Source:
// https://cloud.google.com/iam/docs/roles-permissions (one page per service), read 2026-11-22.
var makers = map[string]string{
	"google_artifact_registry_repository":            "artifactregistry.admin",
	"google_artifact_registry_repository_iam_member": "artifactregistry.admin",
	"google_bigquery_dataset_iam_member":             "bigquery.dataOwner",
	"google_billing_budget":                          "billing.costsManager",
	"google_cloud_run_v2_job":                        "run.admin", "google_cloud_run_v2_job_iam_member": "run.admin",
	"google_cloud_run_v2_service":            "run.admin",
	"google_cloud_run_v2_service_iam_member": "run.admin", "google_cloud_scheduler_job": "cloudscheduler.admin",
	"google_secret_manager_secret_iam_member": "secretmanager.admin",
	"google_compute_firewall":                 "compute.securityAdmin",
	"google_compute_network":                  "compute.networkAdmin",
	"google_compute_subnetwork":               "compute.networkAdmin",
	"google_kms_crypto_key":                   "cloudkms.admin", "google_kms_crypto_key_iam_member": "cloudkms.admin",
	"google_kms_key_ring":   "cloudkms.admin",
	"google_logging_metric": "logging.configWriter", "google_monitoring_alert_policy": "monitoring.editor",
	"google_monitoring_dashboard":            "monitoring.editor",
	"google_monitoring_notification_channel": "monitoring.editor",
	"google_project_iam_audit_config":        "resourcemanager.projectIamAdmin",
	"google_project_iam_custom_role":         "iam.roleAdmin",
	"google_project_iam_member":              "resourcemanager.projectIamAdmin",
	"google_project_service":                 "serviceusage.serviceUsageAdmin",
	"google_pubsub_subscription":             "pubsub.admin",
	"google_pubsub_subscription_iam_member":  "pubsub.admin",
	"google_pubsub_topic":                    "pubsub.admin", "google_pubsub_topic_iam_member": "pubsub.admin",
	"google_service_account":            "iam.serviceAccountAdmin",
	"google_service_account_iam_member": "iam.serviceAccountAdmin", "google_storage_bucket": "storage.admin",
	"google_storage_bucket_iam_member": "storage.admin",
	"google_storage_bucket_object":     "storage.admin",
}

func (m module) made(t *testing.T, readme string) string {
	t.Helper()
	given, _, _ := strings.Cut(readme, "<!-- resources:begin -->")
	byRole := map[string][]string{}
	for _, kind := range slices.Sorted(maps.Keys(m.resources)) {
		if !strings.HasPrefix(kind, "google_") {
			continue // what only Terraform knows
		}
		role := makers[kind]
		if role == "" {
			t.Errorf("which role makes a %s? makers has none", kind)
		}
		if !regexp.MustCompile(`[ /]` + regexp.QuoteMeta(role) + "[ ;`]").MatchString(given) {
			t.Errorf("README.md does not give whoever applies roles/%s, with which a %s is made", role, kind)
		}
		byRole[role] = append(byRole[role], "`"+kind+"`")
	}
	var b strings.Builder
	b.WriteString("| role | makes |\n|---|---|\n")
	for _, role := range slices.Sorted(maps.Keys(byRole)) {
		fmt.Fprintf(&b, "| `roles/%s` | %s |\n", role, strings.Join(byRole[role], ", "))
	}
	return b.String()
}

// TestReadmeHasEveryInputAndOutput, as the files declare them; -update writes the tables.
func TestReadmeHasEveryInputAndOutput(t *testing.T) {
	text := must.Get(os.ReadFile("README.md"))(t)
	m, readme := readModule(t), string(text)
	for _, d := range slices.Concat(m.variables, m.outputs) {
		if len(unquoted(d.text["description"])) < 10 {
			t.Errorf("%s has no description", d.name)
		}
	}

	for name, table := range map[string]string{"inputs": m.inputs(), "outputs": m.results(),
		"resources": m.made(t, readme)} {
		begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
		before, rest, found := strings.Cut(readme, begin)
		have, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("README.md has no %s ... %s", begin, end)
		}
		if have != table && !*update {
			t.Errorf("README.md has other %s than the files; go test ./terraform -run Readme -update writes them", name)
		}
		readme = before + begin + table + end + after
	}
	if *update {
		must.Do(t, os.WriteFile("README.md", []byte(readme), 0o644))
	}
}

// TestExamplesHaveReadmes that prepare the project, and name every variable which has to be given.
func TestExamplesHaveReadmes(t *testing.T) {
	examples, err := filepath.Glob("examples/*")
	if err != nil || len(examples) < 3 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	variable := regexp.MustCompile(`(?ms)^variable "([a-z_]+)" \{(.*?)^\}`)
	for _, dir := range examples {
		readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Errorf("%s: %v, expected a README.md", dir, err)
			continue
		}
		if !strings.Contains(string(readme), "sh ../../prepare.sh $PROJECT\nterraform init") {
			t.Errorf("%s: README.md does not begin with prepare.sh, without which the first apply stops", dir)
		}
		files := must.Get(filepath.Glob(filepath.Join(dir, "*.tf")))(t)
		for _, name := range files {
			source := must.Get(os.ReadFile(name))(t)
			for _, v := range variable.FindAllStringSubmatch(string(source), -1) {
				if !strings.Contains(v[2], "default") && !strings.Contains(string(readme), "-var "+v[1]+"=") {
					t.Errorf("%s: README.md does not say -var %s=, which has to be given", dir, v[1])
				}
			}
		}
	}
}
