//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"

	"coppice/internal/must"
)

// TestE2EPushAloneConcludes: where the schedule's calls are refused, what tasks publish has a sweep concluded, and
// where pushes are, the schedule does, so that each is seen without the other.
func TestE2EPushAloneConcludes(t *testing.T) {
	t.Parallel()
	calm := newLocal(t)
	want := calm.outcome(calm.smallSweep(6))
	const both = "coppice-push@local-project.iam.gserviceaccount.com," +
		"coppice-scheduler@local-project.iam.gserviceaccount.com"
	for _, caller := range strings.Split(both, ",") {
		t.Run(caller, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t)
			file := l.smallSweep(6)
			only := l.file("aggregator.sh", "#!/bin/sh\n[ \"$COPPICE_CALLERS\" = "+both+" ] || exit 1\n"+
				"COPPICE_CALLERS="+caller+" exec "+binaryOf(t, "aggregator")+" \"$@\"\n")
			must.Do(t, os.Chmod(only, 0o755))
			l.args = append(l.args, "--aggregator", only)
			// Without word of the job's end, which calls /reconcile as well.
			l.script(`unset COPPICE_JOBS_TOPIC; "$1" sweep "$2"`, file).ok(t)
			if got := l.outcome(file); got != want {
				t.Errorf("got %+v, and with both %+v", got, want)
			}
		})
	}
}
