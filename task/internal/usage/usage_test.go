package usage

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"coppice/internal/must"
)

// TestCPUGrows: the processor time of this process grows while it computes. If it did not, the test would not end.
func TestCPUGrows(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: the processor time is not asked for there")
	}
	before, sum := CPU(), 0
	for i := 0; CPU() == before; i++ {
		sum += i
	}
	if before < 0 || CPU() < before {
		t.Errorf("processor time from %v to %v (%d); want it above 0, and never less", before, CPU(), sum)
	}
}

// TestSelf: this process has private and shared memory, its proportional share is no less than its private memory, and
// the machine has memory available. Only Linux tells.
func TestSelf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux tells")
	}
	if m := Self(); m.Private <= 0 || m.PSS < m.Private || m.Shared <= 0 {
		t.Errorf("this process: got %+v; want private and shared memory, and no less PSS than private", m)
	}
	if Available() <= 0 {
		t.Errorf("%d bytes are available, want more than 0", Available())
	}
}

// TestGroupRoom: the room of a group is its limit less what it uses, pages of files not counted, in both versions of
// control groups. Of a process's groups and those around them the least room counts. Each case has the files of a root
// folder and the lines of /proc/self/cgroup.
func TestGroupRoom(t *testing.T) {
	const unlimited, largest = math.MaxInt64, 9223372036854771712 // what version 1 says for no limit
	version1 := map[string]string{
		"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/c/memory.limit_in_bytes": "500\n"}
	parents := map[string]string{"memory.max": "max\n", "a/memory.max": "700\n", "a/b/memory.max": "900\n"}
	for name, c := range map[string]struct {
		files  map[string]string
		groups string
		want   int64
	}{
		"none":                      {parents, "", unlimited},
		"v2: the root, no limit":    {parents, "0::/\n", unlimited},
		"v2: the parent's is lower": {parents, "0::/a/b\n", 700},
		"v2: not seen from inside":  {parents, "0::/not/seen/inside\n", unlimited},
		"v2: used beyond file pages": {map[string]string{"used/memory.max": "700\n", "used/memory.current": "600\n",
			"used/memory.stat": "anon 300\ninactive_file 200\nactive_file 90\nslab 10\n"},
			"0::/used\n", 700 - (600 - 200 - 90)},
		"v2: used beyond the limit": {map[string]string{"full/memory.max": "300\n", "full/memory.current": "310\n"},
			"0::/full\n", 0},

		"v1: used beyond file pages, in the parent": {map[string]string{"memory/used/memory.limit_in_bytes": "600\n",
			"memory/used/memory.usage_in_bytes": "300\n", "memory/used/memory.stat": "inactive_file 1\n" +
				"active_file 2\ntotal_inactive_file 100\ntotal_active_file 50\n"},
			"2:memory:/used/inside\n", 600 - (300 - 100 - 50)},
		"v1: the parent of memory's":  {version1, "3:cpu:/c\n2:memory:/c/d\n", 500},
		"v1: another controller's":    {version1, "3:cpu:/c\n", unlimited},
		"v1: the root, with others":   {version1, "2:cpu,memory:/\n", largest},
		"v1: not beyond the root":     {version1, "2:memory:/../../../../../etc\n", largest},
		"v1: a line without a number": {version1, "memory:/c\n", unlimited},
		"both: the lower": {map[string]string{"memory/c/memory.limit_in_bytes": "500\n", "a/memory.max": "700\n"},
			"2:memory:/c\n0::/a\n", 500},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			file := filepath.Join(root, name)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)))
		}
		if got := groupRoom(c.groups, root); got != c.want {
			t.Errorf("%s: the room of groups %q: got %d, want %d", name, c.groups, got, c.want)
		}
	}
}
