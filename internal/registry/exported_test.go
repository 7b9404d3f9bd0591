package registry_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// TestExported: a folder that Export has written is a registry of one version, and one that was altered is refused.
func TestExported(t *testing.T) {
	_, r := chained(t)
	ctx := t.Context()
	v := must.Get(r.Get(ctx, "ctr", "3"))(t)
	folder := filepath.Join(t.TempDir(), "version")
	must.Do(t, r.Export(ctx, v, folder))
	again, found, err := registry.Exported(ctx, folder)
	if err != nil || found.Model != "ctr" || found.Number != 3 {
		t.Fatalf("got %s@%d, %v, want ctr@3", found.Model, found.Number, err)
	}
	for _, f := range v.Files {
		want, err1 := r.ReadFile(ctx, v, f.Name)
		got, err2 := again.ReadFile(ctx, found, f.Name)
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes, %v, want %d, %v", f.Name, len(got), err2, len(want), err1)
		}
	}

	name := filepath.Join(folder, v.Files[0].Name)
	text := must.Get(os.ReadFile(name))(t)
	altered := append([]byte{text[0] ^ 1}, text[1:]...)
	for what, data := range map[string][]byte{"a byte changed": altered, "a byte missing": text[1:]} {
		must.Do(t, os.WriteFile(name, data, 0o644))
		again, found, err := registry.Exported(ctx, folder)
		if err == nil {
			_, err = again.ReadFile(ctx, found, v.Files[0].Name)
		}
		if !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: got %v, want an error of kind Damaged", what, err)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "version.json"), []byte("{"), 0o644))
	if _, _, err := registry.Exported(ctx, folder); !problem.Is(err, problem.Damaged) {
		t.Errorf("half a record: got %v, want an error of kind Damaged", err)
	}
	if _, _, err := registry.Exported(ctx, t.TempDir()); !problem.Is(err, problem.NotFound) {
		t.Errorf("an empty folder: got %v, want an error of kind NotFound", err)
	}
}
