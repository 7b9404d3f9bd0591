package cli

import (
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

func TestCopyBetweenRegistries(t *testing.T) {
	w := newWorld(t)
	w.buckets["other"] = blob.Memory()
	w.threeChampions()
	if out := w.must("registry", "copy", "ctr@2", "--to", "gs://other/"); !strings.Contains(out,
		"ctr@2 to gs://other/: it is ctr@1, 1 file with") {
		t.Errorf("copy to: %s", out)
	}
	w.must("registry", "copy", "ctr", "--to", "gs://other")

	// Back again: the same keys, the same versions.
	if out := w.must("registry", "copy", "ctr@2", "--from", "gs://other"); !strings.Contains(out, "it is ctr@3") {
		t.Errorf("copy from: %s", out)
	}
	w.refused(sweep.ExitNotFound, "9", "registry", "copy", "ctr@9", "--from", "gs://other")
	w.refused(sweep.ExitUsage, "gs://BUCKET", "registry", "copy", "ctr", "--to", "other")
	w.refused(sweep.ExitUsage, "own registry", "registry", "copy", "ctr", "--to", "gs://registry")
	w.refused(sweep.ExitUsage, "give --to or --from", "registry", "copy", "ctr")
	w.refused(sweep.ExitUsage, "give --to or --from", "registry", "copy", "ctr", "--to", "gs://other", "--from", "gs://other")
}
