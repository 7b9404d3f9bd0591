//go:build !race

// Large tables: what runs at the same time in staging is tested under the race detector by small ones.

package ingest

import (
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// Memory depends on columns, batches and samples, not on rows. The smaller table has several batches and row groups
// too. Four times the rows take less than half of the bytes that the larger file has more: whoever keeps rows takes more
// than all of them.
func TestMemoryDoesNotGrowWithRows(t *testing.T) {
	for ext, rows := range map[string]int{".csv": 150_000, ".parquet": 140_000} {
		if ext == ".csv" && os.Getenv("COPPICE_FULL") == "" {
			continue
		}
		peak := func(rows int) (int64, int64) {
			file := bigTable(t, filepath.Join(t.TempDir(), "t"+ext), rows)
			before, most := live(), int64(0)
			must.Get(tryStage(t,
				"label: y\nsample_rows_for_bins: 2000\nsample: 1000\nsplit: {by: hash, key: x0, train: 0.8, test: "+
					"0.2}\n",
				[]table.File{file}, Options{Threads: 2, Progress: func(Progress) {
					most = max(most, live()-before)
				}}))(t)
			return most, file.Bytes
		}
		small, bytes := peak(rows)
		large, moreBytes := peak(4 * rows)
		t.Logf("%s: %d MB live for %d MB of table, %d MB live for %d MB", ext, small>>20, bytes>>20, large>>20,
			moreBytes>>20)
		if most := small + (moreBytes-bytes)/2; large > most {
			t.Errorf("%s: %d bytes live for 4 times the rows, %d before, want at most %d", ext, large, small, most)
		}
	}
}
