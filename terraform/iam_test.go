package terraform

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

// load returns the deployment's own table.
func load(t *testing.T) *Table {
	t.Helper()
	return must.Get(Load())(t)
}

// TestTableHasNoWideRights: the table gives no more than is needed. No role is that of an owner, editor or
// administrator. On the whole project it gives only roles that cannot be given on less. Only the launcher acts as
// another account. People may only read buckets. Every identity may do something, and every role is given to somebody.
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
			t.Errorf("%s: nobody has the role; want it granted, or gone", role)
		}
	}
}

// TestNobodyElseMay: each of these permissions is had by exactly the identities that are listed with it. A change of
// the table that gives one of them to anybody else fails here.
func TestNobodyElseMay(t *testing.T) {
	table := load(t)
	for _, row := range []struct {
		permission, resource string
		holders              []string // the identities that have it
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
			if table.Check(name, row.resource, row.permission) == nil {
				may = append(may, name)
			}
		}
		slices.Sort(may)
		if want := slices.Sorted(slices.Values(row.holders)); !slices.Equal(may, want) {
			t.Errorf("%s on %s: got the identities %q, want %q", row.permission, row.resource, may, want)
		}
	}
}

// TestPermissions: the aggregator's permissions on the sweeps bucket, from all its roles, ascending: it can make and
// read objects, but not delete or replace them.
func TestPermissions(t *testing.T) {
	table := load(t)
	if may := table.Permissions(Aggregator, SweepsBucket); !slices.Equal(may, []string{
		"batch.jobs.get", "batch.jobs.list", "batch.tasks.get", "batch.tasks.list", "logging.logEntries.create",
		"monitoring.timeSeries.create",
		"storage.objects.create", "storage.objects.get", "storage.objects.list", "telemetry.metrics.write",
	}) {
		t.Errorf("the aggregator on the sweeps bucket may %q; want to make and read objects, not to delete them", may)
	}
}

// TestWrongTablesAreRefused: parseTable refuses a wrong table with the place of the fault, or with what was probably
// meant. Each case changes one thing of the right table that is called "good".
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
		_, err := parseTable([]byte(tc.iam), rolesYAML)
		var bad *strictyaml.Error
		if tc.want == "" && err != nil || tc.want != "" &&
			(!errors.As(err, &bad) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got error %v, want one with %q, or none if that is empty", name, err, tc.want)
		}
	}
}

// FuzzParse: whatever the two texts, if parseTable accepts them, then Check grants every permission of every binding.
func FuzzParse(f *testing.F) {
	f.Add(iamYAML, rolesYAML)
	f.Add([]byte("identities: {a: {kind: account, why: x}}\nbindings: []\n"), []byte("roles/viewer: []\n"))
	f.Fuzz(func(t *testing.T, iam, roles []byte) {
		table, err := parseTable(iam, roles)
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

// TestAgentsAreMade: prepare.sh makes the service account of every Google service to which the table gives rights. The
// first apply would fail without it. makes has for each account's domain what stands in the script.
func TestAgentsAreMade(t *testing.T) {
	script := must.Get(os.ReadFile("prepare.sh"))(t)
	makes := map[string]string{"gcp-sa-pubsub": " pubsub ", "serverless-robot-prod": " run ",
		"gcp-sa-artifactregistry": " artifactregistry ", "gcp-sa-cloudbatch": " batch;",
		"gs-project-accounts": "storage service-agent"}
	table := must.Get(Load())(t)
	for name, i := range table.Identities {
		domain, _, _ := strings.Cut(i.Domain, ".")
		if i.Kind == Agent && (makes[domain] == "" || !strings.Contains(string(script), makes[domain])) {
			t.Errorf("%s (%s) is given rights, and prepare.sh does not make it; want it made there", name, i.Domain)
		}
	}
}

// call is a call of a service that an adapter makes, with what the service asks for it.
type call struct {
	method   string
	needs    []string
	of       string // kind of resource: project, bucket, topic
	launcher bool   // which program makes it
	task     bool
	agg      bool
}

// calls are the calls of each adapter, by the names of Google's libraries. Sources of the permissions:
// https://cloud.google.com/storage/docs/access-control/iam-json, https://cloud.google.com/pubsub/docs/access-control,
// https://cloud.google.com/batch/docs/get-started#prerequisites, read 2026-11-21.
var calls = map[string][]call{
	"internal/cloud/batch": {
		// and to act as the job's account: below
		{"CreateJob", []string{"batch.jobs.create"}, "project", true, false, false},
		{"GetJob", []string{"batch.jobs.get"}, "project", true, false, true},
		{"CancelJob", []string{"batch.jobs.delete"}, "project", true, false, false},
		{"DeleteJob", []string{"batch.jobs.delete"}, "project", true, false, false},
	},
	"internal/cloud/gcs": {
		{"Attrs", []string{"storage.objects.get"}, "bucket", true, true, true},
		{"NewRangeReader", []string{"storage.objects.get"}, "bucket", true, true, true},
		{"Objects", []string{"storage.objects.list"}, "bucket", true, true, true},
		{"Delete", []string{"storage.objects.delete"}, "bucket", false, false, false}, // for the cleaner: below
		// and delete, where it overwrites: below
		{"NewWriter", []string{"storage.objects.create"}, "bucket", true, true, true},
	},
	"internal/cloud/pubsub": {
		// and launcher and aggregator, verdicts: below
		{"Publish", []string{"pubsub.topics.publish"}, "topic", false, true, false},
	},
}

// writes are the buckets that each program writes, and whether it overwrites objects, which the service counts as
// deleting. where names the files with the calls of blob.Store's Put, Create and CreateJSON, and says what is written.
// Whoever reads the sweeps bucket also lists it.
var writes = []struct {
	identity, bucket string
	overwrites       bool
	where            string
}{
	{Launcher, DatasetsBucket, true, "launcher/internal/stager/version.go: the name of the latest version"},
	{Stager, DatasetsBucket, true, "launcher/internal/stager/version.go: the name of the latest version"},
	{Launcher, SweepsBucket, false,
		"internal/sweepstore/sweepstore.go: plan, cancellation, records of jobs and marks of what was told"},
	{Launcher, RegistryBucket, true, "internal/registry/records.go: promote and rollback"},
	{Task, SweepsBucket, true, "internal/sweepstore/trials.go: heartbeats and checkpoints"},
	{Aggregator, SweepsBucket, false, "internal/sweepstore/sweepstore.go: ending, conclusion, marks of what was told"},
	{Aggregator, Checkpoints, true, "internal/sweepstore/trials.go: those that remain when the sweep has ended"},
	{Aggregator, RegistryBucket, true, "internal/registry/records.go: the champion"},
}

// reads are the buckets that each program reads.
var reads = map[string][]string{
	Launcher:   {DatasetsBucket, SourceBuckets, SweepsBucket, RegistryBucket},
	Stager:     {DatasetsBucket, SourceBuckets},
	Task:       {DatasetsBucket, SweepsBucket},
	Aggregator: {DatasetsBucket, SweepsBucket, RegistryBucket},
}

// TestTableCoversTheCalls: the table permits each program every call of a service that its code makes, as listed in
// calls, writes and reads, and permits deleting only where the program overwrites objects.
func TestTableCoversTheCalls(t *testing.T) {
	table := load(t)
	// require reports an error unless the table gives the identity this permission.
	require := func(identity, resource, permission, why string) {
		t.Helper()
		if err := table.Check(identity, resource, permission); err != nil {
			t.Errorf("%s: %v, expected that %s may use %s on %s", why, err, identity, permission, resource)
		}
	}
	for adapter, list := range calls {
		for _, c := range list {
			for identity, makes := range map[string]bool{Launcher: c.launcher, Stager: c.launcher && c.of == "bucket",
				Task: c.task, Aggregator: c.agg} {
				resources := map[string][]string{"project": {Project}, "bucket": reads[identity],
					"topic": {ScoresTopic}}[c.of]
				if c.method == "NewWriter" {
					resources = nil // see writes
				}
				for _, resource := range resources {
					for _, p := range c.needs {
						if makes {
							require(identity, resource, p, adapter+" "+c.method)
						}
					}
				}
			}
		}
	}
	for _, w := range writes {
		for place := range strings.SplitSeq(w.where, "; ") {
			file, _, _ := strings.Cut(place, ":")
			if source, err := os.ReadFile("../" + file); err != nil || !strings.Contains(string(source), "Put(") &&
				!strings.Contains(string(source), "CreateJSON(") {
				t.Errorf("%s: got error %v or a file that writes nothing, want the place where this is written now",
					place, err)
			}
		}
		require(w.identity, w.bucket, "storage.objects.create", w.where)
		if err := table.Check(w.identity, w.bucket, "storage.objects.delete"); (err == nil) != w.overwrites {
			t.Errorf("%s: overwrites %t, may delete %t; want both or none", w.where, w.overwrites, err == nil)
		}
	}
	for _, bucket := range []string{DatasetsBucket, SweepsBucket} {
		for _, p := range []string{"storage.objects.get", "storage.objects.list", "storage.objects.delete"} {
			require("cleaner", bucket, p, "launcher/internal/clean/remove.go: Look and Remove")
		}
	}
	require("cleaner", DatasetsBucket, "storage.objects.create", "launcher/internal/clean/remove.go: lookAgain, write")
	require("cleaner", RegistryBucket, "storage.objects.get", "launcher/internal/clean/clean.go: what is promoted")
	for account, resource := range map[string]string{Task: TaskAccount, Stager: StagerAccount} {
		require(Launcher, resource, "iam.serviceAccounts.actAs", "CreateJob for a job that runs as this account")
		// Not the programs but what carries them.
		require(account, Project, "batch.states.report", "Batch's agent on the machine")
		require(account, Project, "logging.logEntries.create", "the job's logs policy")
		require(account, Images, "artifactregistry.repositories.downloadArtifacts", "the machine pulls the image")
	}
	for _, identity := range []string{Launcher, Aggregator} {
		require(identity, VerdictsTopic, "pubsub.topics.publish", "verdicts: Publish in its wire.go")
		require(identity, Webhook, "secretmanager.versions.access", "Cloud Run puts the secret into its environment")
	}
	require(Task, JobsTopic, "pubsub.topics.publish", "the notifications of a sweep's job; a staging asks for none")
}

// libraries are the calls of a client library in an adapter that reach the service. Everything else that the adapters
// call on the library's values happens in memory, or goes through one of these.
var libraries = map[string]struct {
	receivers []string // last parts of the expressions on which the calls are made
	local     []string // calls on them that do not reach the service
}{
	"internal/cloud/batch": {receivers: []string{"c.c"}, local: []string{"Close"}},
	"internal/cloud/gcs": {receivers: []string{"o", "b.b", "c.c", "p.object"},
		local: []string{"Object", "Bucket", "Generation", "If", "Close", "SetRetry"}},
	"internal/cloud/pubsub": {receivers: []string{"p.p", "c.c"}, local: []string{"Stop", "Close", "Publisher"}},
}

// TestCallsAreThoseOfTheAdapters: the adapters' source makes exactly the calls of services that are listed in calls.
// One that is missing there needs a right that nobody has considered, and one too many there has led to a right that is
// not needed.
func TestCallsAreThoseOfTheAdapters(t *testing.T) {
	for adapter, library := range libraries {
		files, err := filepath.Glob("../" + adapter + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: found %d files of Go and the error %v, want some files", adapter, len(files), err)
		}
		made := map[string]string{}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
			ast.Inspect(file, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(library.receivers, text(sel.X)) &&
					sel.Sel.IsExported() && !slices.Contains(library.local, sel.Sel.Name) {
					made[sel.Sel.Name] = name
				}
				return true
			})
		}
		var known []string
		for _, c := range calls[adapter] {
			known = append(known, c.method)
		}
		slices.Sort(known)
		if got := slices.Sorted(maps.Keys(made)); !slices.Equal(got, known) {
			t.Errorf("%s calls %q, calls has %q: add or drop a row, with who makes the call and what it needs", adapter,
				got, known)
		}
	}
}

// text returns the source of an expression of names and dots, such as c.c, and "" for any other.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	}
	return ""
}

// usersOwn are the files that a user's own deployment of an example has beside its main.tf. With any of them, a copy
// that is made to try something is not the project's: it would deploy their images, change their names, or act on what
// they have in the cloud.
var usersOwn = []string{
	".terraform/environment", ".terraform.lock.hcl", "terraform.tfstate", "terraform.tfstate.backup",
	"terraform.tfstate.d/other/terraform.tfstate", "terraform.tfvars",
	"terraform.tfvars.json", "mine.auto.tfvars", "my_override.tf", "my_override.tf.json", "override.tf",
}

// own makes the files of usersOwn beside the minimal example.
func (r *run) own() {
	r.t.Helper()
	for _, name := range usersOwn {
		path := filepath.Join("terraform/examples/minimal", name)
		must.Do(r.t, os.MkdirAll(filepath.Join(r.dir, filepath.Dir(path)), 0o755))
		r.write(path, "somebody's own")
	}
}

// checkNothingOfTheUsers fails the test if a file that own made is in the folder or below it, or if the example's own
// main.tf is not.
func (r *run) checkNothingOfTheUsers(folder string) {
	r.t.Helper()
	seen := false
	err := filepath.WalkDir(filepath.Join(r.dir, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen = seen || d.Name() == "main.tf"
		if text, err := os.ReadFile(path); err != nil || string(text) == "somebody's own" {
			r.t.Errorf("%s is in the copy (%v); want nothing of the user's there", path, err)
		}
		return nil
	})
	if err != nil || !seen {
		r.t.Errorf("%s: found main.tf: %t, error %v; want the example copied", folder, seen, err)
	}
}

// TestAcceptanceTakesNothingAlong: a user's own state, variables and overrides are not copied into the run's folder.
func TestAcceptanceTakesNothingAlong(t *testing.T) {
	t.Parallel()
	r := newRun(t)
	r.own()
	r.do("")
	if r.code != 0 {
		t.Fatalf("the run ended with exit code %d, want 0:\n%s", r.code, r.out)
	}
	r.checkNothingOfTheUsers(work + "terraform")
}

// keeping is a shell script that stands for Terraform: it writes down how it is called, and keeps in $KEPT a copy of
// every folder for which it is called.
const keeping = `#!/bin/sh
set -e
at=.
for a; do case $a in -chdir=*) at=${a#-chdir=} ;; esac; done
echo "terraform $* with ${TF_CLI_CONFIG_FILE:-no stand-in}" >>"$CALLS"
case $1 in version | fmt) exit 0 ;; esac # asked from anywhere
mkdir -p "$KEPT"
cp -R "$at/." "$KEPT"
`

// walking returns a run in which keeping stands for Terraform, in a copy of the project with a user's own files. The
// run also has what docs/run.md needs to deploy without a cloud: a program in place of Terraform's Google provider.
// That is installed by the shell command install.
func walking(t *testing.T, install string) *run {
	t.Helper()
	r := newRun(t)
	r.own()
	for _, folder := range []string{"standin", "docs"} {
		must.Do(t, os.Mkdir(filepath.Join(r.dir, folder), 0o755))
	}
	for name, text := range map[string]string{
		"stubs/terraform": keeping, "standin/install": "#!/bin/sh\n" + install + "\n",
		"standin/cli":   "#!/bin/sh\necho " + filepath.Join(r.dir, "stubs/terraform") + "\n",
		"stubs/coppice": "#!/bin/sh\necho COPPICE_PROJECT=local-project\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o755))
	}
	for _, name := range []string{"Makefile", "docs/run.md"} {
		text := must.Get(os.ReadFile(filepath.Join("..", name)))(t)
		r.write(name, string(text))
	}
	r.env = append(r.env, "KEPT="+filepath.Join(r.dir, "kept"), "STANDIN="+filepath.Join(r.dir, "standin"))
	return r
}

// shell runs a program in the run's folder and keeps its output, exit code and calls, as do does for the acceptance
// run.
func (r *run) shell(program string, args ...string) {
	r.t.Helper()
	path := must.Get(exec.LookPath(program))(r.t)
	cmd := exec.CommandContext(r.t.Context(), path, args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		r.t.Fatalf("%s %q was not started: %v; want it run to some end", program, args, err)
	}
	r.out, r.code, r.calls = string(out), cmd.ProcessState.ExitCode(), nil
	if text, err := os.ReadFile(filepath.Join(r.dir, "calls")); err == nil {
		r.calls = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// TestDeployWalk: make deploy-walk, which runs the commands of docs/run.md's "Without a cloud", runs Terraform only in
// build/deploy, a copy without the user's state, and only with the stand-in of the provider.
func TestDeployWalk(t *testing.T) {
	t.Parallel()
	r := walking(t, "echo the-stand-in.rc")
	r.shell("make", "deploy-walk")
	if r.code != 0 {
		t.Fatalf("make deploy-walk: exit code %d, want 0:\n%s", r.code, r.out)
	}
	for _, word := range []string{"init", "apply .*image_tag=v1", "destroy"} {
		if r.called("^terraform .*"+word) < 0 {
			t.Errorf("make deploy-walk: got calls %q, want %s among them", r.calls, word)
		}
	}
	for _, call := range r.calls {
		if !strings.HasPrefix(call, "terraform ") {
			continue
		}
		if !strings.HasPrefix(call, "terraform -chdir=build/deploy/") ||
			!strings.HasSuffix(call, " with the-stand-in.rc") {
			t.Errorf("make deploy-walk calls %q; want -chdir=build/deploy/..., with the-stand-in.rc", call)
		}
	}
	r.checkNothingOfTheUsers("kept")
}

// TestCheckTakesNothingAlong: terraform/check.sh tests the module in a copy without the files of a user's own
// deployment, whose variables would override those that the tests set.
func TestCheckTakesNothingAlong(t *testing.T) {
	t.Parallel()
	r := walking(t, "echo the-stand-in.rc")
	r.shell("sh", "terraform/check.sh")
	if r.code != 0 || r.called("^terraform test") < 0 {
		t.Fatalf("check.sh ended with exit code %d, calls %q; want 0, with terraform test:\n%s", r.code, r.calls, r.out)
	}
	r.checkNothingOfTheUsers("kept")
}

// TestCheckSaysWhichVersion: if Terraform or OpenTofu is too old, check.sh fails with a message that names its version
// and the one that is needed, before it calls the tool for anything else. Versions from 1.9 on pass.
func TestCheckSaysWhichVersion(t *testing.T) {
	t.Parallel()
	for version, says := range map[string]string{
		"Terraform v1.8.5": "is version 1.8.5, and terraform/versions.tf asks for 1.9 or later",
		"OpenTofu v1.7.10": "is version 1.7.10", "Terraform v1.9.0": "", "Terraform v1.11.4": "", "OpenTofu v2.0.0": "",
	} {
		r := walking(t, "echo the-stand-in.rc")
		answering := strings.Replace(keeping, "case $1 in version", "[ \"$1\" != version ] || echo \""+version+
			"\"\ncase $1 in version", 1)
		must.Do(t, os.WriteFile(filepath.Join(r.dir, "stubs/terraform"), []byte(answering), 0o755))
		r.shell("sh", "terraform/check.sh")
		if (r.code == 0) != (says == "") || !strings.Contains(r.out, says) || says != "" &&
			r.called("^terraform (init|test)") >= 0 {
			t.Errorf("with %s: got exit code %d, calls %q and output\n%s\nexpected it to fail first and say %q, or to "+
				"pass if that is empty", version, r.code, r.calls, r.out, says)
		}
	}
}

// TestDeployWalkNeedsAStandIn: if what replaces the Google provider cannot be installed, make deploy-walk fails before
// it calls Terraform, which could otherwise reach a real cloud. Where $STANDIN is not there, it fails before it does
// anything, and says what it needs.
func TestDeployWalkNeedsAStandIn(t *testing.T) {
	t.Parallel()
	r := walking(t, "exit 1")
	r.shell("make", "deploy-walk")
	if r.code == 0 || r.called("^terraform") >= 0 {
		t.Errorf("with a stand-in that cannot be installed: exit code %d, calls %q; want a failure before any of "+
			"terraform", r.code, r.calls)
	}

	r = walking(t, "echo the-stand-in.rc")
	r.env = append(r.env, "STANDIN="+filepath.Join(r.dir, "nowhere"))
	r.shell("make", "deploy-walk")
	if r.code == 0 || r.called("^(terraform|go|make|localemu) ") >= 0 || r.exists("build") {
		t.Errorf("without a stand-in: exit code %d, calls %q, build made: %t; want a failure and nothing done", r.code,
			r.calls, r.exists("build"))
	}
	r.says("deploy-walk: nothing was done", "STANDIN=FOLDER")
}
