package page_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestWriteFile writes a page into a folder that does not exist yet, and again.
func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pages", "night.html")
	for n := 1; n <= 2; n++ {
		var want bytes.Buffer
		if err := sample(n).Write(&want); err != nil {
			t.Fatal(err)
		}
		if err := sample(n).WriteFile(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("page of %d trials: the file has %d bytes, %v; want the %d of Write", n, len(got), err, want.Len())
		}
	}
}
