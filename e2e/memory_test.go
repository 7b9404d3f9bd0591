//go:build e2e

package e2e

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
)

// mapped is what the tasks of one pretend machine hold of its dataset at one moment.
type mapped struct {
	processes       int
	files, rss, pss int64 // bytes: of the files that any maps, and of what all have in memory of them
}

// watchMachines looks at the tasks of a local cloud from now on. The function that it returns ends that, and checks that
// several tasks ran at once on each of at least two machines, with one copy of the dataset in memory. Rss counts a page
// in every process that has touched it, Pss divides it by how many map it.
func watchMachines(t *testing.T, data string) (check func()) {
	t.Helper()
	data = must.Get(filepath.Abs(data))(t)
	quit, ended, best := make(chan struct{}), make(chan struct{}), map[string]mapped{}
	go func() {
		defer close(ended)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-quit:
				tick.Stop()
				return
			case <-tick.C:
			}
			for vm, m := range lookAtMachines(data) {
				// Of as many processes, the one with most of the data in memory; processes are read one after another, so
				// that a sum of PSS can be too high, but not too low.
				old := best[vm]
				if c := cmp.Or(cmp.Compare(m.processes, old.processes), cmp.Compare(m.rss, old.rss),
					cmp.Compare(old.pss, m.pss)); c > 0 {
					best[vm] = m
				}
			}
		}
	}()

	return func() {
		close(quit)
		<-ended
		if len(best) < 2 {
			t.Errorf("tasks were seen on %d machines: %+v; expected two", len(best), best)
		}
		for vm, m := range best {
			t.Logf("%s: %d tasks at once, files of %d bytes, sum RSS %d, sum PSS %d", vm, m.processes, m.files, m.rss, m.pss)
			if m.processes < 2 || m.files == 0 || m.pss > m.files+m.files/50 || m.rss < m.pss*3/2 {
				t.Errorf("%s: not one shared copy: %+v", vm, m)
			}
		}
	}
}

var (
	smapsRegion = regexp.MustCompile(`^[0-9a-f]+-[0-9a-f]+ +\S+ +\S+ +\S+ +\d+ *(.*)$`)
	smapsSize   = regexp.MustCompile(`^(Rss|Pss): +(\d+) kB$`)
)

// lookAtMachines measures the processes that map files below machines/JOB/VM/ssd/ of the data folder, by JOB/VM.
func lookAtMachines(data string) map[string]mapped {
	found, seen := map[string]mapped{}, map[string]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*") // a malformed pattern would be the only error
	for _, p := range processes {
		if exe, err := os.Readlink(p + "/exe"); err != nil || filepath.Base(exe) != "task" {
			continue
		}
		text, err := fs.ReadFile(os.DirFS(p), "smaps")
		if err != nil { // it has ended
			continue
		}
		at, counted := "", false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if m := smapsRegion.FindStringSubmatch(line); m != nil {
				at = ""
				below, ok := strings.CutPrefix(m[1], data+"/machines/")
				words := strings.SplitN(below, "/", 4)
				if !ok || len(words) < 4 || words[2] != "ssd" {
					continue
				}
				at = words[0] + "/" + words[1]
				now := found[at]
				if !counted {
					now.processes, counted = now.processes+1, true
				}
				if info, err := os.Stat(m[1]); err == nil && !seen[m[1]] {
					now.files, seen[m[1]] = now.files+info.Size(), true
				}
				found[at] = now
			}
			if m := smapsSize.FindStringSubmatch(line); m != nil && at != "" {
				kib, _ := strconv.ParseInt(m[2], 10, 64)
				now := found[at]
				if m[1] == "Rss" {
					now.rss += kib << 10
				} else {
					now.pss += kib << 10
				}
				found[at] = now
			}
		}
	}
	return found
}
