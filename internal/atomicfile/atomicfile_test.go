package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/must"
)

// TestWhole: a file has its old contents until Commit, and keeps them after Abort, which leaves no temporary file. The
// new file has the permissions of the one that it replaces.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.txt")
	must.Do(t, Write(path, []byte("old"), 0o600))
	for _, commit := range []bool{false, true} {
		f := must.Get(Create(path, 0o644))(t)
		must.Get(f.WriteString("new"))(t)
		if text, err := os.ReadFile(path); string(text) != "old" || err != nil {
			t.Fatalf("before Commit: got %q (%v), want the old contents", text, err)
		}
		want := "old"
		if commit {
			want = "new"
			must.Do(t, f.Commit())
		}
		if err := f.Abort(); err != nil {
			t.Errorf("Abort, committed %v: %v; want no error", commit, err)
		}
		if text, err := os.ReadFile(path); string(text) != want || err != nil {
			t.Errorf("committed %v: got %q (%v), want %q", commit, text, err, want)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Errorf("committed %v: got files %v (%v), want the one", commit, files, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("got permissions %v (%v), want those of the file replaced", info.Mode(), err)
	}
}
