package terraform

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
)

// asked are the permissions that commands of docs/run.md need, by how the command begins, and on what. Source:
// "Required roles" of each command's page in the documentation of its service, read 2026-11-22.
var asked = map[string]struct {
	permission, resource string
}{
	"gcloud logging read":                {"logging.logEntries.list", Project},
	"gcloud batch jobs list":             {"batch.jobs.list", Project},
	"gcloud scheduler jobs pause":        {"cloudscheduler.jobs.pause", Project},
	"gcloud pubsub subscriptions pull":   {"pubsub.subscriptions.consume", "subscription/dead_letters"},
	"gcloud run jobs execute":            {"run.jobs.run", "job/launcher"},
	"gcloud monitoring dashboards list":  {"monitoring.dashboards.list", Project},
	"gcloud scheduler jobs resume":       {"cloudscheduler.jobs.enable", Project},
	"gcloud scheduler jobs run":          {"cloudscheduler.jobs.run", Project},
	"gcloud auth application-default":    {"iam.serviceAccounts.getAccessToken", "account/launcher"},
	"gcloud auth print-access-token | d": {"artifactregistry.repositories.uploadArtifacts", Images},
}

// TestOperatorsMayDoWhatTheyAreAskedTo reads the commands of docs/run.md from the first sweep on, which operators
// type, not owners.
func TestOperatorsMayDoWhatTheyAreAskedTo(t *testing.T) {
	table := load(t)
	text := must.Get(os.ReadFile("../docs/run.md"))(t)
	_, run, found := strings.Cut(string(text), "## Every night")
	run, _, ended := strings.Cut(run, "## Destroy")
	if !found || !ended {
		t.Fatal("docs/run.md has no part from \"Every night\" to \"Destroy\" any more")
	}

	commands := regexp.MustCompile("(?m)gcloud [a-z][^`\n]*").FindAllString(run, -1)
	if len(commands) < 6 {
		t.Errorf("%d gcloud commands were found, expected at least 6: %q", len(commands), commands)
	}
	var seen []string
	for _, c := range commands {
		known := false
		for begin, need := range asked {
			if !strings.HasPrefix(c, begin) {
				continue
			}
			known = true
			seen = append(seen, begin)
			if err := table.Check("operators", need.resource, need.permission); err != nil {
				t.Errorf("operators are asked to type %q: %v", c, err)
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
	for _, begin := range []string{"gcloud logging read", "gcloud batch jobs list", "gcloud scheduler jobs pause",
		"gcloud pubsub subscriptions pull"} {
		if !slices.Contains(seen, begin) {
			t.Errorf("docs/run.md does not say %q any more", begin)
		}
	}
}
