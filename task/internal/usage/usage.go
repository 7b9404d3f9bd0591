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

// Self reads /proc/self/smaps_rollup.
func Self() Memory {
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return Memory{}
	}
	kb := fields(data, 1<<10)
	return Memory{Private: kb["Anonymous"], Shared: max(kb["Rss"]-kb["Anonymous"], 0), PSS: kb["Pss"]}
}

// Available is the memory available without swapping, at most what the process's control groups have left, in bytes; -1
// where the system does not report it.
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

// account is where a version of control groups tells what one may have, what it has, and how much of that are pages of
// files, which can be taken back.
type account struct{ limit, used, inactive, active string }

var accounts = [...]account{
	{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"},
	{"memory.max", "memory.current", "inactive_file", "active_file"},
}

// room is what a group may have in addition, if it has a limit.
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

// groupRoom is the least memory that is left to the control groups of a process, of either version, and the groups that
// they are in. In a container, the root is the container's own.
func groupRoom(groups, root string) int64 {
	least := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(part) < 3 {
			continue
		}
		in, a := root, &accounts[1]
		if part[1] != "" {
			if !slices.Contains(strings.Split(part[1], ","), "memory") {
				continue
			}
			in, a = path.Join(root, "memory"), &accounts[0]
		}
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

// fields parses lines such as "Pss:   123 kB" into bytes, of which a unit has so many.
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
