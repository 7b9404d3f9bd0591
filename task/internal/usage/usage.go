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
	kb := fields(data)
	return Memory{Private: kb["Anonymous"], Shared: max(kb["Rss"]-kb["Anonymous"], 0), PSS: kb["Pss"]}
}

// Available is the memory available without swapping, at most what the process's control groups may have, in bytes; -1
// where the system does not report it.
func Available() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return -1
	}
	v, ok := fields(data)["MemAvailable"]
	if !ok {
		return -1
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return v
	}
	return min(v, groupLimit(string(groups), "/sys/fs/cgroup"))
}

// groupLimit is the least memory limit among the control groups of a process, of either version, and the groups that
// they are in. In a container, the root is the container's own.
func groupLimit(groups, root string) int64 {
	least := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(part) < 3 {
			continue
		}
		in, file := root, "memory.max"
		if part[1] != "" {
			if !slices.Contains(strings.Split(part[1], ","), "memory") {
				continue
			}
			in, file = path.Join(root, "memory"), "memory.limit_in_bytes"
		}
		for at := path.Clean("/" + part[2]); ; at = path.Dir(at) {
			if data, err := os.ReadFile(path.Join(in, at, file)); err == nil {
				if v, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil { // else "max"
					least = min(least, v)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// fields parses lines such as "Pss:   123 kB" into bytes.
func fields(data []byte) map[string]int64 {
	out := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if v, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			out[strings.TrimSuffix(words[0], ":")] = v << 10
		}
	}
	return out
}
