//go:build e2e

package table

import (
	"os"
	"os/exec"
	"testing"
)

// TestInteropParquet: a table that pyarrow, DuckDB and Polars write, in every combination of encoding, codec and page
// version that they have, is read with the bits that pyarrow reads.
func TestInteropParquet(t *testing.T) {
	python := os.Getenv("COPPICE_PYTHON")
	if python == "" {
		t.Fatal("COPPICE_PYTHON is not set: run `make interop`")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), python, foreign+"/make.py", dir, "3000",
		"--all").CombinedOutput(); err != nil {
		t.Fatalf("make.py: %v\n%s", err, out)
	}
	checkForeign(t, dir, 70)
}
