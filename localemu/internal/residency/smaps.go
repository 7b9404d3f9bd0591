package residency

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// mapping is one region of a process's memory as /proc/PID/smaps describes it. Sizes are in bytes.
type mapping struct {
	Size, Offset      int64  // of the region, and where in the file it begins
	Device            string // with Inode, the file behind the region; Inode is 0 for anonymous memory
	Inode             uint64
	Path              string
	RSS, PSS, Private int64 // Private is clean and dirty
}

// maxLine bounds one line of smaps: a path of 4,096 bytes with every byte escaped stays below.
const maxLine = 64 << 10

// parseSmaps reads the text of /proc/PID/smaps: a line such as "7f52-7f53 r--s 00000000 fe:00 1234    /path" for each
// region, and below it its fields, of which most are of no interest here.
func parseSmaps(r io.Reader) ([]mapping, error) {
	var all []mapping
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 4096), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		key, value, isField := strings.Cut(line, ":")
		if !isField || strings.ContainsAny(key, " -") {
			m, err := parseRegion(line)
			if err != nil {
				return nil, fmt.Errorf("smaps line %d, %.40q: %w", n, line, err)
			}
			all = append(all, m)
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("smaps line %d: %.40q comes before any mapping", n, line)
		}

		m := &all[len(all)-1]
		into := map[string]*int64{"Rss": &m.RSS, "Pss": &m.PSS, "Private_Clean": &m.Private,
			"Private_Dirty": &m.Private}[key]
		if into == nil {
			continue
		}
		number, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		kib, err := strconv.ParseInt(number, 10, 52)
		if !ok || err != nil || kib < 0 {
			return nil, fmt.Errorf("smaps line %d: %s is %.40q, not a number of kB", n, key, value)
		}
		*into += kib << 10
	}
	return all, lines.Err()
}

func parseRegion(line string) (m mapping, err error) {
	var from, to uint64
	var mode string
	if _, err = fmt.Sscanf(line, "%x-%x %s %x %s %d", &from, &to, &mode, &m.Offset, &m.Device, &m.Inode); err != nil {
		return m, err
	}
	if to < from || to-from > 1<<61 || m.Offset < 0 {
		return m, fmt.Errorf("not an address range")
	}
	m.Size = int64(to - from)

	// The path is the sixth field, and may contain spaces.
	rest := line
	for range 5 {
		_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	m.Path = strings.ReplaceAll(strings.TrimLeft(rest, " "), `\012`, "\n") // the one byte that the kernel escapes
	return m, nil
}
