package residency

import (
	"bytes"
	"errors"
	"fmt"
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

// Held returns how many bytes of memory a process holds outside the files that it has mapped, 0 if it has ended.
func Held(pid int) (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}

	var size, resident, shared int64 // pages
	if _, err := fmt.Fscan(bytes.NewReader(text), &size, &resident, &shared); err != nil {
		return 0, fmt.Errorf("read the memory of process %d from %q: %w", pid, text, err)
	}
	return (resident - shared) * int64(os.Getpagesize()), nil
}
