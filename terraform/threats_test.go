package terraform

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
)

// said is one row of the threat model's table.
type said struct{ reads, writes, also string }

// threatRows reads the table of docs/design.md under the heading "Who may do what".
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

// TestThreatModelSaysWhoMay holds that table to iam.yaml: accounts and people, what they read and write, and what else.
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
		t.Errorf("the table is about %q, iam.yaml about %q", got, want)
	}
	for name, row := range rows {
		may := func(permission, resource string) bool { return table.Check(name, resource, permission) == nil }
		if reads, writes := inWords(may); row.reads != reads || row.writes != writes {
			t.Errorf("%s: reads %q and writes %q, and by iam.yaml it is %q and %q", name, row.reads, row.writes, reads,
				writes)
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
				t.Errorf("%s: may also %q, and by iam.yaml %q is %t", name, row.also, words, can)
			}
		}
	}
}

// inWords returns what an identity reads and writes, in the table's words.
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
