// Package usage says what a process uses of its machine, as the kernel accounts for it.
package usage

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Memory of this process in bytes. All are 0 where the system does not tell (anything but Linux).
type Memory struct {
	Private int64 // anonymous memory: heap and stacks
	Shared  int64 // resident file pages: the dataset and the program, whoever else has them mapped
	PSS     int64 // proportional set size: private memory and this process's share of what it shares
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

// Available is the machine's memory that can be had without swapping, in bytes; -1 where the system does not tell.
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

// fields reads lines such as "Pss:   123 kB" into bytes.
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
