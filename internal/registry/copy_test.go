package registry_test

import (
	"reflect"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

func TestCopy(t *testing.T) {
	s, from := chained(t)
	ctx := t.Context()
	v := must.Get(from.Get(ctx, "ctr", "3"))(t)
	there := blob.Memory()
	to := registry.New(there)
	if v := register(t, to, "ctr", "own"); v.Number != 1 {
		t.Fatalf("the first version in the other registry has number %d; want 1", v.Number)
	}
	got, err := to.Copy(ctx, from, v, act(9, "to production"))
	if err != nil || got.Number != 2 || got.Key != v.Key || !strings.HasPrefix(got.Info.Labels[registry.LabelCopied],
		"ctr@3, record ") || got.Info.By != "ada" {
		t.Fatalf("copied: %+v, %v, want version 2 with the key of the other, and where it came from", got, err)
	}
	for i, f := range got.Files {
		if f.Name != v.Files[i].Name || f.SHA256 != v.Files[i].SHA256 {
			t.Errorf("file %s has another checksum than in the registry that it came from", f.Name)
		}
	}
	before := snapshot(t, there)
	if again, err := to.Copy(ctx, from, v, act(10, "again")); err != nil || again.Number != 2 ||
		!reflect.DeepEqual(before, snapshot(t, there)) {
		t.Errorf("copied again: %+v, %v, want the same version and nothing written", again, err)
	}

	overwrite(t, s, "registry/ctr/versions/2/model.txt", "model x")
	v = must.Get(from.Get(ctx, "ctr", "2"))(t)
	if _, err := to.Copy(ctx, from, v, act(11, "damaged")); !problem.Is(err, problem.Damaged) {
		t.Errorf("copying a damaged version: got %v, want a CorruptError", err)
	}
	if all, err := to.Versions(ctx, "ctr"); err != nil || len(all) != 2 {
		t.Errorf("a damaged version was registered: %d versions, %v", len(all), err)
	}
}
