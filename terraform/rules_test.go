package terraform

import (
	"fmt"
	"io/fs"
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

// module holds the blocks of the module's *.tf files by kind.
type module struct {
	variables, outputs []declared
	resources          map[string]int // of each type
}

// declared is a variable or output.
type declared struct {
	name string
	text map[string]string // of each attribute, as it is written, in one line
}

// readModule reads the *.tf files of this folder. Variables and outputs are sorted by name. Blocks of other kinds, such
// as locals, are passed over: no table of the README is made of them.
func readModule(t *testing.T) module {
	t.Helper()
	files, err := filepath.Glob("*.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files of Terraform, %v; want some", len(files), err)
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
			t.Fatalf("%s: got a body of type %T, want Terraform's own language", name, f.Body)
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

// oneLine returns the part of the source that r marks, each run of spaces and line ends as one space.
func oneLine(r hcl.Range, source []byte) string {
	return spaces.ReplaceAllString(string(r.SliceBytes(source)), " ")
}

// unquoted returns a description without its quotes and escapes, ready for a cell of a Markdown table.
func unquoted(text string) string {
	return strings.NewReplacer(`\"`, `"`, "|", `\|`).Replace(strings.Trim(text, `"`))
}

// inputs returns the README's table of variables.
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

// results returns the README's table of outputs.
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

// made returns the README's table of the roles that make the module's resources. It fails the test for a kind of
// resource that makers does not have, and for a role that the README does not give to whoever applies the module.
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
			t.Errorf("makers has no role for a %s, want the one that makes it", kind)
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

// TestReadmeHasEveryInputAndOutput: the tables in README.md are those of the variables, outputs and resources that the
// *.tf files declare, and all variables and outputs have a description. With -update the test writes the tables.
func TestReadmeHasEveryInputAndOutput(t *testing.T) {
	text := must.Get(os.ReadFile("README.md"))(t)
	m, readme := readModule(t), string(text)
	for _, d := range slices.Concat(m.variables, m.outputs) {
		if len(unquoted(d.text["description"])) < 10 {
			t.Errorf("%s has the description %s, want one of at least 10 characters", d.name, d.text["description"])
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

// TestExamplesHaveReadmes: every example has a README.md that runs prepare.sh before Terraform and gives every variable
// that has no default.
func TestExamplesHaveReadmes(t *testing.T) {
	examples, err := filepath.Glob("examples/*")
	if err != nil || len(examples) < 3 {
		t.Fatalf("found %d examples, %v; want at least 3", len(examples), err)
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

// forbidden is what no file of the deployment may hold, and why.
var forbidden = map[string]*regexp.Regexp{
	"a service account's key: workload identity only": regexp.MustCompile(`google_service_account_key|` +
		`google_storage_hmac_key|service-accounts keys create`),
	"credentials from a file: Terraform uses the operator's login": regexp.MustCompile(`(?m)^\s*(credentials|` +
		`access_token)\s*=`),
	"everybody":         regexp.MustCompile(`allUsers|allAuthenticatedUsers`),
	"a check taken off": regexp.MustCompile(`invoker_iam_disabled|INGRESS_TRAFFIC_ALL`),
}

// TestNoKeysAndNobodyIsEverybody: no file of the deployment, examples included, has what forbidden lists. The examples
// at the end show that each rule would see an offence, and at least 20 files have to be read.
func TestNoKeysAndNobodyIsEverybody(t *testing.T) {
	read := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		if ext := filepath.Ext(path); ext != ".tf" && ext != ".yaml" && ext != ".sh" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		for why, pattern := range forbidden {
			if found := pattern.Find(text); found != nil {
				t.Errorf("%s has %q: %s", path, found, why)
			}
		}
		return nil
	})
	if err != nil || read < 20 {
		t.Fatalf("%d files read, want at least 20: %v", read, err)
	}
	examples := map[string]string{
		"a service account's key: workload identity only": `resource "google_service_account_key" "x" {}`,
		"credentials from a file: Terraform uses the operator's login": "provider \"google\" {\n  credentials = " +
			"file(\"key.json\")\n}",
		"everybody":         `member = "allUsers"`,
		"a check taken off": "invoker_iam_disabled = true",
	}
	for why, pattern := range forbidden {
		if example := examples[why]; !pattern.MatchString(example) {
			t.Errorf("%s: the rule does not match %q, want it to", why, example)
		}
	}
}

// asked are the permissions that commands of docs/run.md need, by how the command begins, and on what. Source:
// "Required roles" of each command's page in the documentation of its service, read 2026-11-22.
var asked = map[string]struct {
	permission, resource string
}{
	"gcloud logging read":              {"logging.logEntries.list", Project},
	"gcloud batch jobs list":           {"batch.jobs.list", Project},
	"gcloud scheduler jobs pause":      {"cloudscheduler.jobs.pause", Project},
	"gcloud pubsub subscriptions pull": {"pubsub.subscriptions.consume", "subscription/dead_letters"},
	"gcloud run jobs execute":          {"run.jobs.run", "job/launcher"},
}

// TestOperatorsMayDoWhatTheyAreAskedTo: operators have the permission for every gcloud command that docs/run.md tells
// them to type. Those are the commands from "Every night" up to "Destroy"; the others are for owners of the project.
// Each command there has a row in asked, and each row a command.
func TestOperatorsMayDoWhatTheyAreAskedTo(t *testing.T) {
	table := load(t)
	text := must.Get(os.ReadFile("../docs/run.md"))(t)
	_, run, found := strings.Cut(string(text), "## Every night")
	run, _, ended := strings.Cut(run, "## Destroy")
	if !found || !ended {
		t.Fatal("docs/run.md has no part from \"Every night\" to \"Destroy\" any more")
	}

	commands := regexp.MustCompile("(?m)gcloud [a-z][^`\n]*").FindAllString(run, -1)
	seen := map[string]bool{}
	for _, c := range commands {
		known := false
		for begin, need := range asked {
			if !strings.HasPrefix(c, begin) {
				continue
			}
			known = true
			seen[begin] = true
			if err := table.Check("operators", need.resource, need.permission); err != nil {
				t.Errorf("operators are asked to type %q, and may not: %v", c, err)
			}
		}
		if !known {
			t.Errorf("operators are asked to type %q, and asked has no row for it", c)
		}
	}
	// The dashboard and its charts are looked at in the console.
	for _, p := range []string{"monitoring.dashboards.get", "monitoring.timeSeries.list"} {
		if err := table.Check("operators", Project, p); err != nil {
			t.Errorf("operators are asked to watch the dashboard: %v", err)
		}
	}
	for begin := range asked {
		if !seen[begin] {
			t.Errorf("docs/run.md does not say %q any more, want it to, or the row gone", begin)
		}
	}
}

// said is one row of the threat model's table.
type said struct{ reads, writes, also string }

// threatRows returns the rows of the table in docs/design.md under the heading "Who may do what", by identity.
func threatRows(t *testing.T) map[string]said {
	t.Helper()
	text := must.Get(os.ReadFile("../docs/design.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n### Who may do what\n")
	section, _, _ = strings.Cut(section, "\n### ")
	rows := map[string]said{}
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 4 || cells[0] == "who" {
			continue
		}
		rows[cells[0]] = said{cells[1], cells[2], cells[3]}
	}
	return rows
}

// TestThreatModelSaysWhoMay: the table of threatRows has a row for every account and group of people of iam.yaml, and
// says of each what iam.yaml permits: which buckets it reads and writes, and what else it may do.
func TestThreatModelSaysWhoMay(t *testing.T) {
	table := load(t)
	rows := threatRows(t)
	var want []string
	for name, identity := range table.Identities {
		if identity.Kind != Agent {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(rows)); !slices.Equal(got, want) {
		t.Errorf("the table is about %q, want the identities of iam.yaml, %q", got, want)
	}
	for name, row := range rows {
		may := func(permission, resource string) bool { return table.Check(name, resource, permission) == nil }
		if reads, writes := inWords(may); row.reads != reads || row.writes != writes {
			t.Errorf("%s: the table says that it reads %q and writes %q, want %q and %q as in iam.yaml", name,
				row.reads, row.writes, reads, writes)
		}
		for words, can := range map[string]bool{
			"publish scores": may("pubsub.topics.publish", ScoresTopic),
			"tell verdicts": may("pubsub.topics.publish", VerdictsTopic) &&
				may("secretmanager.versions.access", Webhook),
			"changes of jobs":     may("pubsub.topics.publish", JobsTopic),
			"take score messages": may("pubsub.subscriptions.consume", ScoresSubscription),
			"create Batch jobs":   may("batch.jobs.create", Project),
			"as task or stager": may("iam.serviceAccounts.actAs", TaskAccount) &&
				may("iam.serviceAccounts.actAs", StagerAccount),
			"ask Batch about jobs":    may("batch.jobs.get", Project) && !may("batch.jobs.create", Project),
			"call the aggregator":     may("run.routes.invoke", "service/aggregator"),
			"call the server":         may("run.routes.invoke", "service/server"),
			"the scheduled launchers": may("run.jobs.run", "job/launcher"),
			"pause them":              may("cloudscheduler.jobs.pause", Project),
			"read logs":               may("logging.logEntries.list", Project),
			"that were given up":      may("pubsub.subscriptions.consume", "subscription/dead_letters"),
			"act as the launcher":     may("iam.serviceAccounts.getAccessToken", "account/launcher"),
		} {
			if strings.Contains(row.also, words) != can {
				t.Errorf("%s: the table says %q; want %q in it: %t, as in iam.yaml", name, row.also, words, can)
			}
		}
	}
}

// inWords returns what an identity reads and writes, in the words of the table in docs/design.md. may says whether the
// identity has a permission on a resource.
func inWords(may func(permission, resource string) bool) (reads, writes string) {
	var read, written []string
	for _, bucket := range []string{DatasetsBucket, SweepsBucket, RegistryBucket, SourceBuckets} {
		name := strings.TrimPrefix(bucket, "bucket/")
		if may("storage.objects.get", bucket) {
			read = append(read, name)
		}
		switch {
		case may("storage.objects.delete", bucket):
			written = append(written, name)
		case may("storage.objects.create", bucket):
			written = append(written, name+" (create only)")
			if bucket == SweepsBucket && may("storage.objects.delete", Checkpoints) {
				written = append(written, "checkpoints")
			}
		}
	}
	if may("artifactregistry.repositories.uploadArtifacts", Images) {
		written = append(written, "images")
	}
	cell := func(names []string) string {
		if len(names) == 0 {
			return "-"
		}
		return strings.Replace(strings.Join(names, ", "), "datasets, sweeps, registry", "all three buckets", 1)
	}
	return cell(read), cell(written)
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

// Check returns nil if the identity has the permission on the resource.
func (t *Table) Check(identity, resource, permission string) error {
	if slices.Contains(t.Permissions(identity, resource), permission) {
		return nil
	}
	return fmt.Errorf("the account %s has no permission %s on %s", identity, permission, resource)
}

// TestWhatANewAccountNeeds: the table "What a new account needs" of docs/run.md has its rows in the order in which they
// matter. It names all quotas that `coppice doctor` compares, and the words of errors as the programs know them or the
// local cloud says them. The section on destroying names all roles that are made, and no other.
func TestWhatANewAccountNeeds(t *testing.T) {
	read := func(name string) string { return string(must.Get(os.ReadFile(name))(t)) }
	_, rest, _ := strings.Cut(read("../docs/run.md"), "What a new account needs")
	table, rest, found := strings.Cut(rest, "## Create it")
	_, destroy, _ := strings.Cut(rest, "## Destroy")
	destroy, _, _ = strings.Cut(destroy, "\n## ")
	if !found || destroy == "" {
		t.Fatal("docs/run.md has no such table, or does not say how to destroy")
	}

	// A row that is missing is at -1, which is before any other.
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
		t.Errorf("doctor compares %q; want at least four quotas", metrics)
	}
	// Two more quotas are no literals where doctor compares them. Addresses are compared only without a private
	// subnetwork, which every deployment of Terraform's has.
	for _, m := range append(metrics, []string{"", "CPUS_ALL_REGIONS", "N2_CPUS"}) {
		for _, metric := range m[1:] {
			if metric != "" && metric != "IN_USE_ADDRESSES" && !strings.Contains(table, "'"+metric+"'") {
				t.Errorf("doctor compares %s, and the table does not name it", metric)
			}
		}
	}

	// By the words of an error, the file whose program knows them, or says them in the local cloud.
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
			t.Errorf("docs/run.md names the role %s, want only roles of roles.yaml", name[0])
		}
	}
}
