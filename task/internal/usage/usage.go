// Package usage reports a process's resource use, as the kernel accounts for it.
package usage

import (
	"bufio"
	"bytes"
	"os"
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

// Available is the memory available without swapping, in bytes; -1 where the system does not report it.
func Available() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return -1
	}
	if v, ok := fields(data)["MemAvailable"]; ok {
		return v
	}
	return -1
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
