package doctor

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// What the examples take, roughly; less is a warning, since a larger table needs more anyway.
const (
	leastMemory = 1 << 30
	leastDisk   = 2 << 30
)

// here adds what the local cloud's machine has: its processors, memory and disk are those of the pretend machines, too.
func (d *Doctor) here() {
	const where = "this machine"
	d.add("local cloud", OK, where, "", "it answers at %s", d.Deployment.InspectEndpoint)
	d.add("machine", OK, where, "", "%s", english.Plural(runtime.NumCPU(), "processor", ""))

	text, err := os.ReadFile("/proc/meminfo")
	var free uint64
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &free); err == nil {
			break
		}
	}
	d.room("machine", where, "memory", free<<10, leastMemory, err)

	var disk syscall.Statfs_t
	err = syscall.Statfs(os.TempDir(), &disk)
	d.room("machine", where, "disk in "+os.TempDir(), disk.Bavail*uint64(disk.Bsize), leastDisk, err)
}

func (d *Doctor) room(check, where, what string, free, least uint64, err error) {
	switch {
	case err != nil:
		d.add(check, NotChecked, where, "", "%s: %v", what, err)
	case free < least:
		d.add(check, Warning, where, "", "%s of %s is free: the examples need about %s", humanize.IBytes(free), what,
			humanize.IBytes(least))
	default:
		d.add(check, OK, where, "", "%s of %s is free", humanize.IBytes(free), what)
	}
}
