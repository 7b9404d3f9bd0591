package stager

import (
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// TestPointersOfAnotherBuild: what a dataset's name, or an input, refers to is neither followed nor overwritten if
// another build wrote it.
func TestPointersOfAnotherBuild(t *testing.T) {
	ctx, store := t.Context(), blob.Memory()
	d := Destination{Store: store}
	const theirs = `{"format":2,"version":"0123456789abcdef"}`
	for name, follow := range map[string]func() error{
		sweep.DatasetLatest("clicks"):      func() error { _, err := Resolve(ctx, store, "clicks"); return err },
		sweep.DatasetInput("clicks", "ab"): func() error { _, err := d.knownInBucket(ctx, "clicks", "ab"); return err },
	} {
		if err := d.point(ctx, name, pointer{Format: 1, Version: "fedcba9876543210"}); err != nil {
			t.Fatalf("the first pointer: %v", err)
		}
		must.Get(store.Put(ctx, name, blob.Any, strings.NewReader(theirs)))(t)
		for what, err := range map[string]error{"following": follow(),
			"overwriting": d.point(ctx, name, pointer{Format: 1, Version: "fedcba9876543210"})} {
			if !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "2, and this build reads 1") {
				t.Errorf("%s %s: %v, expected a refusal that names the formats", what, name, err)
			}
		}
		if text, _, err := blob.ReadAll(ctx, store, name, 1<<10); err != nil || string(text) != theirs {
			t.Errorf("%s is now %q (%v)", name, text, err)
		}
	}
}
