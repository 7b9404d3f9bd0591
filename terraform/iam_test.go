package terraform

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

func load(t *testing.T) *Table {
	t.Helper()
	table := must.Get(Load())(t)
	return table
}

func TestTableHasNoWideRights(t *testing.T) {
	table := load(t)
	onProject := []string{"roles/batch.agentReporter", "roles/batch.jobsEditor", "roles/batch.jobsViewer",
		"roles/logging.logWriter", "roles/monitoring.metricWriter",
		"roles/logging.viewer", "roles/monitoring.viewer", "custom/schedules"}
	for _, b := range table.Bindings {
		role := strings.ToLower(b.Role)
		if !strings.Contains(role, ".") && !strings.HasPrefix(role, "custom/") || strings.HasSuffix(role, "admin") ||
			strings.Contains(role, "owner") || strings.HasSuffix(role, ".editor") ||
			strings.HasSuffix(role, "serviceagent") {
			t.Errorf("%s: a role this wide gives away everything", b)
		}
		if b.Resource == Project && !slices.Contains(onProject, b.Role) {
			t.Errorf("%s: on the whole project only what cannot be given on less", b)
		}
		if strings.HasSuffix(b.Role, "serviceAccountUser") && (b.Identity != Launcher || b.Resource != TaskAccount &&
			b.Resource != StagerAccount) {
			t.Errorf("%s: only the launcher acts as somebody, and only as a job's account", b)
		}
	}
	for name, identity := range table.Identities {
		if len(table.Of(name)) == 0 {
			t.Errorf("%s: an identity that may do nothing", name)
		}
		if identity.Kind == People {
			for _, b := range table.Of(name) {
				if strings.HasPrefix(b.Resource, "bucket/") && b.Role != "roles/storage.objectViewer" {
					t.Errorf("%s: people write as the launcher, not by themselves", b)
				}
			}
		}
	}
	for role := range table.Roles {
		if !slices.ContainsFunc(table.Bindings, func(b Binding) bool { return b.Role == role }) {
			t.Errorf("%s: nobody has the role", role)
		}
	}
}

// TestNobodyElseMay is what the table must never come to permit.
func TestNobodyElseMay(t *testing.T) {
	table := load(t)
	for _, never := range []struct {
		permission, resource string
		but                  []string
	}{
		{"storage.objects.create", DatasetsBucket, []string{Launcher, Stager, "cleaner"}},
		{"storage.objects.delete", DatasetsBucket, []string{Launcher, Stager, "cleaner"}},
		{"storage.objects.get", SourceBuckets, []string{Launcher, Stager}},
		{"storage.objects.create", SourceBuckets, nil},
		{"storage.objects.delete", SourceBuckets, nil},
		{"storage.objects.get", SweepsBucket, []string{Launcher, Task, Aggregator, "cleaner"}},
		{"storage.objects.create", SweepsBucket, []string{Launcher, Task, Aggregator}},
		{"storage.objects.delete", SweepsBucket, []string{Task, "cleaner"}},
		{"storage.objects.delete", Checkpoints, []string{Aggregator}},
		{"storage.objects.get", RegistryBucket, []string{Launcher, Aggregator, "server", "model_readers", "cleaner"}},
		{"storage.objects.create", RegistryBucket, []string{Launcher, Aggregator}},
		{"storage.objects.delete", RegistryBucket, []string{Launcher, Aggregator}},
		{"pubsub.topics.publish", ScoresTopic, []string{Task}},
		{"pubsub.topics.publish", JobsTopic, []string{Task}},
		{"pubsub.topics.publish", VerdictsTopic, []string{Launcher, Aggregator}},
		{"secretmanager.versions.access", Webhook, []string{Launcher, Aggregator}},
		{"pubsub.topics.publish", "topic/dead_letters", []string{"pubsub_agent"}},
		{"pubsub.subscriptions.consume", ScoresSubscription, []string{"pubsub_agent"}},
		{"batch.jobs.create", Project, []string{Launcher}},
		{"batch.jobs.delete", Project, []string{Launcher}},
		{"iam.serviceAccounts.actAs", TaskAccount, []string{Launcher}},
		{"iam.serviceAccounts.actAs", StagerAccount, []string{Launcher}},
		{"iam.serviceAccounts.actAs", "account/aggregator", nil},
		{"iam.serviceAccounts.actAs", "account/launcher", nil},
		{"iam.serviceAccounts.getAccessToken", "account/launcher", []string{"operators"}},
		{"iam.serviceAccounts.getAccessToken", TaskAccount, nil},
		{"iam.serviceAccounts.getAccessToken", "account/aggregator", nil},
		{"run.routes.invoke", "service/aggregator", []string{"push", "scheduler"}},
		{"run.routes.invoke", "service/server", []string{"model_callers"}},
		{"iam.serviceAccounts.actAs", "account/server", nil},
		{"iam.serviceAccounts.actAs", "account/cleaner", nil},
		{"iam.serviceAccounts.getAccessToken", "account/cleaner", nil},
		{"run.jobs.run", "job/launcher", []string{"scheduler", "operators"}},
		{"artifactregistry.repositories.uploadArtifacts", Images, []string{"operators"}},
		{"compute.subnetworks.use", "subnetwork/machines", []string{"batch_agent"}},
	} {
		var may []string
		for name := range table.Identities {
			if table.Check(name, never.resource, never.permission) == nil {
				may = append(may, name)
			}
		}
		slices.Sort(may)
		if want := slices.Sorted(slices.Values(never.but)); !slices.Equal(may, want) {
			t.Errorf("%s on %s: %q may, %q should", never.permission, never.resource, may, want)
		}
	}
}

func TestPermissions(t *testing.T) {
	table := load(t)
	if may := table.Permissions(Aggregator, SweepsBucket); !slices.Equal(may, []string{
		"batch.jobs.get", "batch.jobs.list", "batch.tasks.get", "batch.tasks.list", "logging.logEntries.create",
		"monitoring.timeSeries.create",
		"storage.objects.create", "storage.objects.get", "storage.objects.list", "telemetry.metrics.write",
	}) {
		t.Errorf("the aggregator on the sweeps bucket: %q", may)
	}
}

func TestWrongTablesAreRefused(t *testing.T) {
	const who = "identities:\n  task: {kind: account, why: trains}\n"
	const good = "  - {identity: task, resource: topic/scores, role: roles/pubsub.publisher, why: says so}\n"
	for name, tc := range map[string]struct{ iam, want string }{
		"good": {who + "bindings:\n" + good, ""},
		"twice": {who + "bindings:\n" + good + good,
			"5:6: roles/pubsub.publisher on topic/scores for task: it is there twice"},
		"role": {who + "bindings:\n" + strings.Replace(good, "roles/pubsub.publisher", "roles/editor", 1),
			"roles/owner, roles/editor"},
		"unknown": {who + "bindings:\n" + strings.Replace(good, "pubsub.publisher", "pubsub.publishers", 1),
			`did you mean "roles/pubsub.publisher"`},
		"resource": {who + "bindings:\n" + strings.Replace(good, "topic/scores", "topic/score", 1),
			`did you mean "topic/scores"`},
		"account": {who + "bindings:\n" + strings.Replace(good, "topic/scores", "account/nobody", 1),
			"there is no such resource"},
		"nobody": {who + "bindings:\n" + strings.Replace(good, "identity: task", "identity: tusk", 1),
			`did you mean "task"`},
		"no reason": {who + "bindings:\n" + strings.Replace(good, ", why: says so", "", 1), "why is missing"},
		"kind": {strings.Replace(who, "account", "robot", 1) + "bindings:\n" + good,
			"one of account, agent, people"},
		"domain":   {strings.Replace(who, "account", "agent", 1) + "bindings:\n" + good, "an agent has one"},
		"stranger": {strings.Replace(who, "why", "because", 1) + "bindings:\n" + good, "because"},
	} {
		_, err := parse([]byte(tc.iam), rolesYAML)
		var bad *strictyaml.Error
		if tc.want == "" && err != nil || tc.want != "" &&
			(!errors.As(err, &bad) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(iamYAML, rolesYAML)
	f.Add([]byte("identities: {a: {kind: account, why: x}}\nbindings: []\n"), []byte("roles/viewer: []\n"))
	f.Fuzz(func(t *testing.T, iam, roles []byte) {
		table, err := parse(iam, roles)
		if err != nil {
			return
		}
		for _, b := range table.Bindings {
			for _, p := range table.Roles[b.Role] {
				if err := table.Check(b.Identity, b.Resource, p); err != nil {
					t.Fatalf("%v gives %s, but asked for it the table says: %v", b, p, err)
				}
			}
		}
	})
}

// TestAgentsAreMade: of each service whose account gets rights, prepare.sh makes the account before the first apply.
func TestAgentsAreMade(t *testing.T) {
	script := must.Get(os.ReadFile("prepare.sh"))(t)
	makes := map[string]string{"gcp-sa-pubsub": " pubsub ", "serverless-robot-prod": " run ",
		"gcp-sa-artifactregistry": " artifactregistry ", "gcp-sa-cloudbatch": " batch;",
		"gs-project-accounts": "storage service-agent"}
	table := must.Get(Load())(t)
	for name, i := range table.Identities {
		domain, _, _ := strings.Cut(i.Domain, ".")
		if i.Kind == Agent && (makes[domain] == "" || !strings.Contains(string(script), makes[domain])) {
			t.Errorf("%s (%s) is given rights, and prepare.sh does not make it", name, i.Domain)
		}
	}
}
