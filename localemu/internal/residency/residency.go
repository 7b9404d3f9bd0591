// Package residency measures what the processes of one pretend machine hold in memory, and above all what they hold
// together: pages of one file that several processes have mapped are in memory once. It is the proof, or the
// refutation, of "one copy of the data per machine".
//
// Rss counts a shared page in every process that has touched it, so the sum over processes is what private copies would
// cost. Pss divides a shared page by the number of processes that map it, so the sum is the memory actually used.
package residency

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"coppice/internal/atomicfile"
)

// ErrUnsupported means that this system does not report how processes share memory; only Linux does (/proc/PID/smaps).
var ErrUnsupported = errors.New("shared memory can only be measured on Linux")

// Sample is one look at the processes of one machine. Sizes are in bytes.
type Sample struct {
	At        time.Time `json:"at"`
	Processes int       `json:"processes"`
	// Dataset is the number of distinct bytes of files in the machine's SSD folder that any of the processes maps.
	Dataset int64 `json:"dataset_bytes"`
	RSS     int64 `json:"sum_rss_bytes"` // of those mappings, over all processes
	PSS     int64 `json:"sum_pss_bytes"` // of those mappings, over all processes
	// Private is what each process holds outside of those mappings.
	Private []int64 `json:"private_bytes"`
}

// Supersedes reports whether s should replace old: it shows more processes at once, or as many with more of the data in
// memory, or the same with less memory for it. Less is better because processes are looked at one after another: a page
// that others map later or have already unmapped is divided by too few, so a sum of PSS can be too high, but not too
// low.
func (s Sample) Supersedes(old Sample) bool {
	switch {
	case s.Processes != old.Processes:
		return s.Processes > old.Processes
	case s.RSS != old.RSS:
		return s.RSS > old.RSS
	}
	return s.PSS < old.PSS
}

// add accounts for one process. extents collects the parts of files that are mapped.
func (s *Sample) add(maps []mapping, dir string, extents extents) {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	var private int64
	for _, m := range maps {
		if m.Inode == 0 || !strings.HasPrefix(m.Path, prefix) {
			private += m.Private
			continue
		}

		s.RSS += m.RSS
		s.PSS += m.PSS
		extents.add(m)
	}

	s.Processes++
	s.Private = append(s.Private, private)
}

// file is a mapped file, identified by device and inode rather than by name.
type file struct {
	device string
	inode  uint64
}

// extents are the mapped parts of each file, as offsets [from, to).
type extents map[file][][2]int64

func (e extents) add(m mapping) {
	key := file{m.Device, m.Inode}
	e[key] = append(e[key], [2]int64{m.Offset, m.Offset + m.Size})
}

// bytes returns how many distinct bytes the extents cover.
func (e extents) bytes() int64 {
	var sum int64
	for _, parts := range e {
		slices.SortFunc(parts, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
		var end int64
		for _, p := range parts {
			if from := max(p[0], end); p[1] > from {
				sum += p[1] - from
				end = p[1]
			}
		}
	}
	return sum
}

// Machine is the best sample of one machine of a job.
type Machine struct {
	Machine string `json:"machine"`
	Sample
}

// Report holds the measurements of one Batch job. It is stored in the data folder as machines-report/JOB.json.
type Report struct {
	Job      string    `json:"job"`
	Finished bool      `json:"finished"` // the job has ended; before that, the report covers what was seen so far
	Error    string    `json:"error,omitempty"`
	Machines []Machine `json:"machines"`
}

// Folder returns where the reports of a data folder are.
func Folder(data string) string { return filepath.Join(data, "machines-report") }

// maxReport bounds a report's size: one of 2,000 machines with 20 processes each has about a megabyte.
const maxReport = 16 << 20

// Write writes the report into its folder atomically.
func (r *Report) Write(folder string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write machine report: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write machine report: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(folder, r.Job+".json"), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write machine report: %w", err)
	}
	return nil
}

var jobPattern = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Read reads the report of one job. The error wraps fs.ErrNotExist if there is none.
func Read(folder, job string) (*Report, error) {
	if !jobPattern.MatchString(job) {
		return nil, fmt.Errorf("%.80q is not a job id", job)
	}

	path := filepath.Join(folder, job+".json")
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read machine report: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > maxReport {
		return nil, fmt.Errorf("read machine report: %s is larger than the %d bytes that a report may have", path,
			maxReport)
	}

	var r Report
	if err := json.NewDecoder(f).Decode(&r); err != nil {
		return nil, fmt.Errorf("read machine report %s: %w", path, err)
	}
	return &r, nil
}

// List returns the ids of the jobs that have a report, the most recently written first.
func List(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list machine reports: %w", err)
	}
	type found struct {
		job string
		at  time.Time
	}

	var all []found
	for _, e := range entries {
		job, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !jobPattern.MatchString(job) {
			continue
		}

		info, err := e.Info()
		if err != nil {
			continue // replaced while being read
		}
		all = append(all, found{job, info.ModTime()})
	}

	slices.SortFunc(all, func(a, b found) int {
		if c := b.at.Compare(a.at); c != 0 {
			return c
		}
		return strings.Compare(a.job, b.job)
	})

	jobs := make([]string, len(all))
	for i, f := range all {
		jobs[i] = f.job
	}
	return jobs, nil
}
