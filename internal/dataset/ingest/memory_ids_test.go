//go:build !race

// Large tables: what runs at the same time in staging is tested under the race detector by small ones.

package ingest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// With many columns that are parts of keys, statistics keep much for each row: for each of idColumns 8 bytes of a hash
// and one byte of a range, and 8 bytes more. Already the rows of the smaller table need more than what stays in memory
// (memoryRows) before they go to a file. The larger table has twice as many.
const (
	idColumns  = 16
	idLevels   = 5000 // of each column
	idRowsFew  = 460_000
	idRowsMany = 920_000
)

// idTable writes CSV with a label and columns of ids. All ids of a row follow from one number, so that several columns
// together have as many levels as each alone.
func idTable(t *testing.T, rows int) table.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.csv")
	f := must.Get(os.Create(path))(t)
	w := bufio.NewWriterSize(f, 1<<20)
	var line []byte
	for i := range idColumns {
		line = append(line, "id"...)
		line = strconv.AppendInt(line, int64(i), 10)
		line = append(line, ',')
	}
	line = append(line, "y\n"...)
	for r := range rows + 1 {
		must.Get(w.Write(line))(t)
		h := encode.Mix(uint64(r))
		line = line[:0]
		for i := range uint64(idColumns) {
			line = strconv.AppendUint(line, (h%idLevels+i)*1001, 10)
			line = append(line, ',')
		}
		line = append(line, '0'+byte(h>>63), '\n')
	}
	must.Do(t, w.Flush())
	info := must.Get(f.Stat())(t)
	must.Do(t, f.Close())
	return table.File{URI: "t.csv", Path: path, Bytes: info.Size()}
}

// idKeys returns a spec that asks for the statistics of columns joined in pairs, with each column's numbers and ranges,
// and for nothing else.
func idKeys() string {
	var b strings.Builder
	b.WriteString("label: y\nsample_rows_for_bins: 2000\nsample: 1000\nencodings:\n  back_off: none\n  budget: 0\n" +
		"  order: {by: random, copies: 1}\n  columns:\n")
	for i := range idColumns {
		fmt.Fprintf(&b, "    id%d: none\n", i)
	}
	b.WriteString("  keys:\n")
	for i := 0; i < idColumns; i += 2 {
		fmt.Fprintf(&b, "    - [id%d, id%d~, id%d, id%d~]\n", i, i, i+1, i+1)
	}
	return b.String()
}

// TestMemoryOfStatisticsDoesNotGrowWithRows: the memory for statistics depends on the number of levels and on
// memoryRows, not on the rows. Twice the rows may take more memory, but at most half of the bytes that the additional
// rows need: if rows stayed in memory, it would be all of those.
func TestMemoryOfStatisticsDoesNotGrowWithRows(t *testing.T) {
	if os.Getenv("COPPICE_FULL") == "" {
		t.Skip("it stages 1.4 million rows of ids: make test FULL=1")
	}
	const width = 9*idColumns + 8
	if idRowsFew*width < memoryRows {
		t.Fatalf("%d rows of %d bytes stay in memory, which holds %d", idRowsFew, width, memoryRows)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(40))

	// peak stages a table and returns the most bytes that are live meanwhile.
	peak := func(rows int) (most int64) {
		file := idTable(t, rows)
		calls, before := map[Phase]int{}, live()
		s := stageFiles(t, idKeys(), []table.File{file}, Options{Threads: 2, Progress: func(p Progress) {
			calls[p.Phase]++
			if p.Phase != PhaseEncode || calls[p.Phase]%4 == 1 { // the progress of encoding is told at every block
				most = max(most, live()-before)
			}
		}})
		if n, levels := len(s.Manifest.Tables), s.Manifest.Tables[0].Levels; n != idColumns/2 || levels != idLevels ||
			calls[PhaseEncode] == 0 {
			t.Fatalf("%d tables, the first of %d levels; want %d of %d; looked into %v", n, levels, idColumns/2,
				idLevels, calls)
		}
		return most
	}
	few, many := peak(idRowsFew), peak(idRowsMany)
	const more = (idRowsMany - idRowsFew) * width
	t.Logf("%d rows: %d MB live, %d rows: %d MB live; they have %d MB more", idRowsFew, few>>20, idRowsMany, many>>20,
		more>>20)
	if few < memoryRows {
		t.Errorf("%d bytes live for %d rows are fewer than those of the rows that stay in memory: the peak was missed",
			few, idRowsFew)
	}
	if many > few+more/2 {
		t.Errorf("%d bytes live for twice the rows, want at most %d: those for half the rows, %d, and half of %d more",
			many, few+more/2, few, more)
	}
}

// TestMemoryDoesNotGrowWithRows: the memory for staging depends on columns, batches and samples, not on the rows.
// Already the smaller table has several batches and row groups. Four times the rows may take more memory, but at most
// half of the bytes by which the file is larger: if rows stayed in memory, it would be more than all of those.
func TestMemoryDoesNotGrowWithRows(t *testing.T) {
	for ext, rows := range map[string]int{".csv": 150_000, ".parquet": 140_000} {
		if ext == ".csv" && os.Getenv("COPPICE_FULL") == "" {
			continue
		}
		// peak stages a table and returns the most bytes that are live meanwhile, and the size of the file.
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
