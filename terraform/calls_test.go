package terraform

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
)

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

// writes are the buckets that each program writes, and whether it overwrites, which the service counts as deleting.
// Whoever reads the sweeps bucket also lists it. From the calls of blob.Store's Put, Create and CreateJSON.
var writes = []struct {
	identity, bucket string
	overwrites       bool
	where            string
}{
	{Launcher, DatasetsBucket, true, "launcher/internal/stager/version.go: the name of the latest version"},
	{Stager, DatasetsBucket, true, "launcher/internal/stager/version.go: the name of the latest version"},
	{Launcher, SweepsBucket, false,
		"internal/sweepstore/sweep.go: plan, cancellation, records of jobs and marks of what was told"},
	{Launcher, RegistryBucket, true, "internal/registry/records.go: promote and rollback"},
	{Task, SweepsBucket, true, "internal/sweepstore/trials.go: heartbeats and checkpoints"},
	{Aggregator, SweepsBucket, false, "internal/sweepstore/sweep.go: ending, conclusion and marks of what was told"},
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

// TestTableCoversTheCalls holds the table against what the programs call.
func TestTableCoversTheCalls(t *testing.T) {
	table := load(t)
	must := func(identity, resource, permission, why string) {
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
							must(identity, resource, p, adapter+" "+c.method)
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
				t.Errorf("%s: %v; where is it written now?", place, err)
			}
		}
		must(w.identity, w.bucket, "storage.objects.create", w.where)
		if err := table.Check(w.identity, w.bucket, "storage.objects.delete"); (err == nil) != w.overwrites {
			t.Errorf("%s: overwrites %t, may delete %t", w.where, w.overwrites, err == nil)
		}
	}
	for _, bucket := range []string{DatasetsBucket, SweepsBucket} {
		for _, p := range []string{"storage.objects.get", "storage.objects.list", "storage.objects.delete"} {
			must("cleaner", bucket, p, "launcher/internal/clean/remove.go: Look and Remove")
		}
	}
	must("cleaner", DatasetsBucket, "storage.objects.create", "launcher/internal/clean/remove.go: lookAgain, write")
	must("cleaner", RegistryBucket, "storage.objects.get", "launcher/internal/clean/clean.go: what is promoted")
	for account, resource := range map[string]string{Task: TaskAccount, Stager: StagerAccount} {
		must(Launcher, resource, "iam.serviceAccounts.actAs", "CreateJob for a job that runs as this account")
		// Not the programs but what carries them.
		must(account, Project, "batch.states.report", "Batch's agent on the machine")
		must(account, Project, "logging.logEntries.create", "the job's logs policy")
		must(account, Images, "artifactregistry.repositories.downloadArtifacts", "the machine pulls the image")
	}
	for _, identity := range []string{Launcher, Aggregator} {
		must(identity, VerdictsTopic, "pubsub.topics.publish", "verdicts: Publish in its wire.go")
		must(identity, Webhook, "secretmanager.versions.access", "Cloud Run puts the secret into its environment")
	}
	must(Task, JobsTopic, "pubsub.topics.publish", "the notifications of a sweep's job; a staging asks for none")
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

// TestCallsAreThoseOfTheAdapters reads the adapters: a call of a service that is not in calls is a right that was not
// considered, and one in calls that is not made is an unneeded right.
func TestCallsAreThoseOfTheAdapters(t *testing.T) {
	for adapter, library := range libraries {
		files, err := filepath.Glob("../" + adapter + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", adapter, err)
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

// text is an expression of names and dots.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	}
	return ""
}
