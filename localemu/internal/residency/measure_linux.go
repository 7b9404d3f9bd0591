package residency

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Measure samples the processes pids, which keep their shared data below dir (an absolute path without symbolic links).
// A process that has ended meanwhile is left out.
func Measure(dir string, pids []int) (Sample, error) {
	s := Sample{At: time.Now().UTC()}
	mapped := extents{}
	for _, pid := range pids {
		f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/smaps")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Sample{}, err
		}

		maps, err := parseSmaps(f)
		f.Close()
		if errors.Is(err, syscall.ESRCH) || err == nil && len(maps) == 0 { // it ended while being read, or is a zombie
			continue
		}
		if err != nil {
			return Sample{}, err
		}
		s.add(maps, dir, mapped)
	}

	s.Dataset = mapped.bytes()
	return s, nil
}
