package cli

import (
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

func TestPushAndPull(t *testing.T) {
	w := newWorld(t)
	w.buckets["other"] = blob.Memory()
	w.threeChampions()
	if out := w.must("registry", "push", "ctr@2", "--to", "gs://other/"); !strings.Contains(out,
		"ctr@2 to gs://other/: it is ctr@1, 1 file with") {
		t.Errorf("push: %s", out)
	}
	w.must("registry", "push", "ctr", "--to", "gs://other")

	// Back again: the same keys, the same versions.
	if out := w.must("registry", "pull", "ctr@2", "--from", "gs://other"); !strings.Contains(out, "it is ctr@3") {
		t.Errorf("pull: %s", out)
	}
	w.refused(sweep.ExitNotFound, "9", "registry", "pull", "ctr@9", "--from", "gs://other")
	w.refused(sweep.ExitUsage, "gs://BUCKET", "registry", "push", "ctr", "--to", "other")
	w.refused(sweep.ExitUsage, "own registry", "registry", "push", "ctr", "--to", "gs://registry")
}
