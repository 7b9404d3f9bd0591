package usage

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestCPUGrows(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: the processor time is not asked for there")
	}
	before, sum := CPU(), 0
	for i := 0; CPU() == before; i++ {
		sum += i
	}
	if before < 0 || CPU() < before {
		t.Errorf("from %v to %v (%d)", before, CPU(), sum)
	}
}

func TestSelf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux tells")
	}
	if m := Self(); m.Private <= 0 || m.PSS < m.Private || m.Shared <= 0 {
		t.Errorf("this process: got %+v; want private and shared memory, and no less PSS than private", m)
	}
	if Available() <= 0 {
		t.Error("no memory left?")
	}
}

// TestGroupRoom: the least room counts, of the process's groups and those around them, in both versions: the limit,
// less what is used beyond pages of files.
func TestGroupRoom(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"memory.max": "max\n", "a/memory.max": "700\n", "a/b/memory.max": "900\n",
		"used/memory.max": "700\n", "used/memory.current": "600\n",
		"used/memory.stat":   "anon 300\ninactive_file 200\nactive_file 90\nslab 10\n",
		"used/up/memory.max": "300\n", "used/up/memory.current": "310\n",
		"memory/used/memory.limit_in_bytes": "600\n", "memory/used/memory.usage_in_bytes": "300\n",
		"memory/used/memory.stat": "inactive_file 1\nactive_file 2\n" +
			"total_inactive_file 100\ntotal_active_file 50\n",
		"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/c/memory.limit_in_bytes": "500\n",
	} {
		file := filepath.Join(root, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	for groups, want := range map[string]int64{
		"":                               math.MaxInt64,
		"0::/\n":                         math.MaxInt64,
		"0::/a/b\n":                      700,
		"0::/not/seen/inside\n":          math.MaxInt64,
		"0::/used\n":                     390,
		"0::/used/up\n":                  0,
		"2:memory:/used/inside\n":        450,
		"3:cpu:/c\n2:memory:/c/d\n":      500,
		"3:cpu:/c\n":                     math.MaxInt64,
		"2:cpu,memory:/\n":               9223372036854771712,
		"2:memory:/c\n0::/a\n":           500,
		"memory:/c\n":                    math.MaxInt64,
		"2:memory:/../../../../../etc\n": 9223372036854771712,
	} {
		if got := groupRoom(groups, root); got != want {
			t.Errorf("groups %q: got room of %d, want %d", groups, got, want)
		}
	}
}
