//go:build unix && !race

package stager_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/launcher/internal/stager"
)

// size is the size of a table: columns of numbers, rows, and levels of a column of ids, 0 for no such column.
type size struct{ columns, rows, levels int }

// processorTime returns how long this process has computed so far. Unlike time on a clock, it hardly depends on what
// else the machine does.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// stageSize stages a table of random whole numbers, with a column of ids if s has levels, and returns the processor
// time that staging took.
func stageSize(t *testing.T, s size) time.Duration {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.csv")
	f := must.Get(os.Create(path))(t)
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "y")
	if s.levels > 0 {
		fmt.Fprint(w, ",id")
	}
	for c := range s.columns {
		fmt.Fprintf(w, ",c%d", c)
	}
	state := uint32(1)
	random := func(n int) uint32 {
		state = state*1664525 + 1013904223
		return state >> 8 % uint32(n) // the lowest bits of this generator repeat soon
	}
	for range s.rows {
		fmt.Fprintf(w, "\n%d", random(2))
		if s.levels > 0 {
			fmt.Fprintf(w, ",u%d", random(s.levels))
		}
		for range s.columns {
			fmt.Fprintf(w, ",%d", random(100))
		}
	}
	must.Do(t, w.Flush())
	must.Do(t, f.Close())
	spec := must.Get(dataset.ParseSpec("d.yaml",
		[]byte("name: t\nsource: "+path+"\nlabel: y\nsplit: {by: random, train: 0.8, test: 0.2}\n")))(t)

	before := processorTime(t)
	if _, err := (&stager.Stager{}).Stage(t.Context(), spec, stager.Destination{Dir: t.TempDir()}); err != nil {
		t.Fatalf("stage a table of %+v: %v", s, err)
	}
	return processorTime(t) - before
}

// TestStagingIsLinear: twice the columns, rows or levels take about twice the processor time. The bound is four times,
// as times vary; when every pair of columns was looked at, twice the columns took seven times as long.
func TestStagingIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it stages a dozen tables")
	}
	const bound = 4
	for name, c := range map[string]struct{ small, large size }{
		"columns": {size{400, 60, 0}, size{800, 60, 0}},
		"rows":    {size{10, 10_000, 0}, size{10, 20_000, 0}},
		"levels":  {size{2, 50_000, 10_000}, size{2, 50_000, 20_000}},
	} {
		if name == "columns" && os.Getenv("COPPICE_FULL") == "" {
			continue // TestWideTable bounds 10,000
		}
		fastest := func(s size) time.Duration {
			return min(stageSize(t, s), stageSize(t, s))
		}
		small, large := fastest(c.small), fastest(c.large)
		t.Logf("%s: %v for %+v, %v for %+v", name, small, c.small, large, c.large)
		if large > bound*small {
			t.Errorf("staging %+v took %v of processor time, and %+v took %v; expected at most %d times as long",
				c.small, small, c.large, large, bound)
		}
	}
}

// TestWideTable: 10,000 columns are staged in at most 30 seconds of processor time.
func TestWideTable(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it stages 10,000 columns")
	}
	const bound = 30 * time.Second
	took := stageSize(t, size{columns: 10_000, rows: 100})
	t.Logf("10,000 columns and 100 rows: %v of processor time", took)
	if took > bound {
		t.Errorf("staging 10,000 columns and 100 rows took %v of processor time, expected at most %v", took, bound)
	}
}
