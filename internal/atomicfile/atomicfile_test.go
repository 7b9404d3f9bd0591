package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWhole: a file is the old one until Commit, and nothing is left of one that was given up.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.txt")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, commit := range []bool{false, true} {
		f, err := Create(path, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); string(text) != "old" || err != nil {
			t.Fatalf("before Commit: got %q (%v), want the old contents", text, err)
		}
		want := "old"
		if commit {
			want = "new"
			if err := f.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Abort(); err != nil {
			t.Errorf("Abort, committed %v: %v", commit, err)
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
