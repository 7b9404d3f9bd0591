package residency

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Mapping is one region of a process's memory as /proc/PID/smaps describes it. Sizes are in bytes.
type Mapping struct {
	Size    int64
	Offset  int64  // where in the file the region begins
	Device  string // with Inode, the file behind the region; Inode is 0 for anonymous memory
	Inode   uint64
	Path    string // "" for anonymous memory, "[heap]" and the like for special regions
	Deleted bool   // the file was deleted
	RSS     int64
	PSS     int64
	Private int64 // Private_Clean + Private_Dirty
}

// maxLine bounds one line of smaps: a path of 4,096 bytes with every byte escaped stays below.
const maxLine = 64 << 10

// ParseSmaps reads the text of /proc/PID/smaps. An error names the line.
func ParseSmaps(r io.Reader) ([]Mapping, error) {
	var all []Mapping
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 4096), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		key, value, isField := strings.Cut(line, ":")
		if isField && !strings.Contains(key, " ") && !strings.Contains(key, "-") {
			if len(all) == 0 {
				return nil, fmt.Errorf("smaps line %d: %.40q comes before any mapping", n, line)
			}
			if err := all[len(all)-1].field(key, value); err != nil {
				return nil, fmt.Errorf("smaps line %d: %w", n, err)
			}
			continue
		}

		m, err := parseHeader(line)
		if err != nil {
			return nil, fmt.Errorf("smaps line %d: %w", n, err)
		}
		all = append(all, m)
	}

	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read smaps: %w", err)
	}
	return all, nil
}

// parseHeader reads "7f52-7f53 r--s 00000000 fe:00 1234    /path".
func parseHeader(line string) (Mapping, error) {
	var m Mapping
	rest := line
	field := func() string {
		var f string
		f, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		return f
	}

	addresses, _, offset, device, inode := field(), field(), field(), field(), field()
	low, high, ok := strings.Cut(addresses, "-")
	from, err1 := strconv.ParseUint(low, 16, 64)
	to, err2 := strconv.ParseUint(high, 16, 64)
	if !ok || err1 != nil || err2 != nil || to < from || to-from > 1<<61 {
		return m, fmt.Errorf("%.40q is not an address range", addresses)
	}
	m.Size = int64(to - from)

	o, err := strconv.ParseUint(offset, 16, 62)
	if err != nil {
		return m, fmt.Errorf("offset %.40q", offset)
	}
	m.Offset = int64(o)
	if m.Inode, err = strconv.ParseUint(inode, 10, 64); err != nil {
		return m, fmt.Errorf("inode %.40q", inode)
	}

	m.Device = device
	m.Path, m.Deleted = strings.CutSuffix(strings.TrimLeft(rest, " "), " (deleted)")
	m.Path = strings.ReplaceAll(m.Path, `\012`, "\n") // the one byte that the kernel escapes
	return m, nil
}

// field reads one "Name:   123 kB" line; irrelevant and unknown names are skipped.
func (m *Mapping) field(key, value string) error {
	var into *int64
	switch key {
	case "Rss":
		into = &m.RSS
	case "Pss":
		into = &m.PSS
	case "Private_Clean", "Private_Dirty":
		into = &m.Private
	default:
		return nil
	}

	number, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
	kib, err := strconv.ParseInt(number, 10, 52)
	if !ok || err != nil || kib < 0 {
		return fmt.Errorf("%s is %.40q, not a number of kB", key, value)
	}
	*into += kib << 10
	return nil
}
