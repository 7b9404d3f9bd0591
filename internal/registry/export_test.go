package registry_test

import (
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestExport: a folder has what the registry has, and appears only if all of it is intact.
func TestExport(t *testing.T) {
	s, r := chained(t)
	ctx := t.Context()
	v := must.Get(r.Get(ctx, "ctr", "3"))(t)
	folder := filepath.Join(t.TempDir(), "new", "version")
	must.Do(t, r.Export(ctx, v, folder))
	record := must.Get(v.Record())(t)
	want := map[string]string{"version.json": string(record)}
	for _, f := range v.Files {
		data := must.Get(r.ReadFile(ctx, v, f.Name))(t)
		want[f.Name] = string(data)
	}
	for name, text := range want {
		if data, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(data) != text {
			t.Errorf("%s has %d bytes (%v), want the registry's %d", name, len(data), err, len(text))
		}
	}
	if err := r.Export(ctx, v, folder); err == nil {
		t.Error("a version was written into a folder with files in it; want an error")
	}

	overwrite(t, s, "registry/ctr/versions/3/model.txt", "model x")
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := r.Export(ctx, v, damaged); !problem.Is(err, problem.Damaged) {
		t.Errorf("of a damaged version: got %v, want an error of kind Damaged", err)
	}
	if left, err := os.ReadDir(filepath.Dir(damaged)); err != nil || len(left) > 0 {
		t.Errorf("%v is left of a damaged version (%v); want nothing", left, err)
	}
}
