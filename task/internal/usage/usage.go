// Package usage reports a process's resource use, as the kernel accounts for it.
package usage

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Memory of this process in bytes. All fields are 0 where the system does not report them (anything but Linux).
type Memory struct {
	Private int64 // anonymous memory: heap and stacks
	Shared  int64 // resident file pages, of the dataset and the program, including those other processes share
	PSS     int64 // proportional set size: private memory and this process's share of shared pages
}

// Self returns the memory of this process, which it reads from /proc/self/smaps_rollup.
func Self() Memory {
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return Memory{}
	}
	kb := fields(data, 1<<10)
	return Memory{Private: kb["Anonymous"], Shared: max(kb["Rss"]-kb["Anonymous"], 0), PSS: kb["Pss"]}
}

// Available returns the memory in bytes that this process can use without swapping: what the system has available, but
// at most what the limits of the process's control groups leave. It is -1 where the system does not report it.
func Available() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return -1
	}
	v, ok := fields(data, 1<<10)["MemAvailable"]
	if !ok {
		return -1
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return v
	}
	return min(v, groupRoom(string(groups), "/sys/fs/cgroup"))
}

// account names the files and fields in which a version of control groups tells what memory a group may have, how much
// it uses, and how much of that are pages of files, which the kernel can take back.
type account struct{ limit, used, inactive, active string }

// accounts has those of versions 1 and 2.
var accounts = [...]account{
	{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"},
	{"memory.max", "memory.current", "inactive_file", "active_file"},
}

// room returns how many bytes the group with this folder may use in addition; false if it has no limit. Pages of files
// do not count as used.
func (a *account) room(dir string) (int64, bool) {
	number := func(file string) (int64, error) {
		data, err := os.ReadFile(path.Join(dir, file))
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	}
	limit, err := number(a.limit)
	if err != nil { // none: the file is not there, or says "max"
		return 0, false
	}
	used, err := number(a.used)
	if err != nil {
		return limit, true
	}
	data, _ := os.ReadFile(path.Join(dir, "memory.stat")) // nothing can be taken back then
	stat := fields(data, 1)
	return max(limit-max(used-stat[a.inactive]-stat[a.active], 0), 0), true
}

// groupRoom returns the least memory, in bytes, that is left to any of the control groups of a process and to the
// groups that these are in; MaxInt64 if none has a limit. groups is the text of /proc/self/cgroup, with a line for each
// group, and root is the folder where control groups are mounted. In a container that is the container's own.
func groupRoom(groups, root string) int64 {
	least := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(part) < 3 {
			continue
		}
		// A group of version 2 has no controllers. Of version 1, only the groups of the memory controller matter, which
		// has a folder of its own.
		in, a := root, &accounts[1]
		if part[1] != "" {
			if !slices.Contains(strings.Split(part[1], ","), "memory") {
				continue
			}
			in, a = path.Join(root, "memory"), &accounts[0]
		}

		// The group itself, and all groups above it.
		for at := path.Clean("/" + part[2]); ; at = path.Dir(at) {
			if v, limited := a.room(path.Join(in, at)); limited {
				least = min(least, v)
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// fields parses lines such as "Pss:   123 kB" or "anon 300" and returns the numbers by name, times unit. Other lines
// are left out.
func fields(data []byte, unit int64) map[string]int64 {
	out := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if v, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			out[strings.TrimSuffix(words[0], ":")] = v * unit
		}
	}
	return out
}
