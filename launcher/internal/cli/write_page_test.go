package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/must"
	"coppice/internal/page"
)

// TestWritePage writes a page into a folder that does not exist yet, and another over it.
func TestWritePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pages", "night.html")
	for n := 1; n <= 2; n++ {
		view, want := &page.Index{More: n}, bytes.Buffer{}
		must.Do(t, view.Write(&want))
		if size, err := writePage(path, view); err != nil || size != want.Len() {
			t.Fatalf("page %d: %d bytes were written, %v; want %d", n, size, err, want.Len())
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("page %d: the file has %d bytes, %v; want the %d of Write", n, len(got), err, want.Len())
		}
	}
}
