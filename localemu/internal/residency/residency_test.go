package residency

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const smaps = `55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
Rss:                  40 kB
Pss:                  40 kB
Pss_Dirty:            40 kB
Private_Clean:         8 kB
Private_Dirty:        32 kB
VmFlags: rd wr mr mw me ac
7f0000000000-7f0000010000 r--s 00001000 fe:00 77                         /data/vm-0/ssd/rows file.arrow
Rss:                  64 kB
Pss:                  21 kB
Private_Clean:         4 kB
Private_Dirty:         0 kB
7f0000020000-7f0000030000 r--s 00002000 fe:00 77                         /data/vm-0/ssd/rows file.arrow (deleted)
Rss:                  64 kB
Pss:                  32 kB
7f0000040000-7f0000041000 r-xp 00000000 fe:00 78                         /data/vm-0/ssdx/program
Private_Dirty:         4 kB
`

func TestParseSmaps(t *testing.T) {
	maps, err := parseSmaps(strings.NewReader(smaps))
	if err != nil {
		t.Fatal(err)
	}
	want := []mapping{
		{Size: 0x21000, Device: "00:00", Path: "[heap]", RSS: 40 << 10, PSS: 40 << 10, Private: 40 << 10},
		{Size: 0x10000, Offset: 0x1000, Device: "fe:00", Inode: 77, Path: "/data/vm-0/ssd/rows file.arrow",
			RSS: 64 << 10, PSS: 21 << 10, Private: 4 << 10},
		{Size: 0x10000, Offset: 0x2000, Device: "fe:00", Inode: 77, Path: "/data/vm-0/ssd/rows file.arrow (deleted)",
			RSS: 64 << 10, PSS: 32 << 10},
		{Size: 0x1000, Device: "fe:00", Inode: 78, Path: "/data/vm-0/ssdx/program", Private: 4 << 10},
	}
	if d := cmp.Diff(want, maps); d != "" {
		t.Errorf("the mappings (-expected +got):\n%s", d)
	}
}

func TestSample(t *testing.T) {
	maps, err := parseSmaps(strings.NewReader(smaps))
	if err != nil {
		t.Fatal(err)
	}
	var s Sample
	mapped := extents{}
	s.add(maps, "/data/vm-0/ssd", mapped)
	s.add(maps, "/data/vm-0/ssd/", mapped)
	s.Dataset = mapped.bytes()
	want := Sample{
		Processes: 2,
		Dataset:   0x11000, // offsets 0x1000 to 0x11000 and 0x2000 to 0x12000 overlap
		RSS:       2 * 128 << 10,
		PSS:       2 * 53 << 10,
		Private:   []int64{44 << 10, 44 << 10},
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("the sample (-expected +got):\n%s", d)
	}
	worse := []Sample{{Processes: 1, RSS: 1 << 40}, {Processes: 2, RSS: 1}, {Processes: 2, RSS: s.RSS, PSS: s.PSS + 1}}
	for _, w := range worse {
		if !s.Supersedes(w) || w.Supersedes(s) {
			t.Errorf("%+v against %+v: more processes count first, then more of the data in memory, then less "+
				"memory for it", s, w)
		}
	}
	if s.Supersedes(s) {
		t.Error("a sample supersedes itself")
	}
}

func TestParseSmapsRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"field first":   "Rss: 4 kB\n",
		"no range":      "zz-7f r--s 0 fe:00 1 /x\n",
		"reversed":      "8f-7f r--s 0 fe:00 1 /x\n",
		"bad inode":     "7f-8f r--s 0 fe:00 x /x\n",
		"unit":          "7f-8f r--s 0 fe:00 1 /x\nRss: 4 MB\n",
		"negative":      "7f-8f r--s 0 fe:00 1 /x\nRss: -4 kB\n",
		"too long line": "7f-8f r--s 0 fe:00 1 /" + strings.Repeat("x", maxLine) + "\n",
	} {
		if _, err := parseSmaps(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParseSmaps(f *testing.F) {
	f.Add(smaps)
	f.Fuzz(func(t *testing.T, text string) {
		maps, err := parseSmaps(strings.NewReader(text))
		if err != nil {
			return
		}
		var s Sample
		e := extents{}
		s.add(maps, "/data", e)
		if b := e.bytes(); b < 0 && s.RSS >= 0 {
			t.Fatalf("%d bytes", b)
		}
	})
}

// TestMeasureShared maps one file in two processes and expects its pages once in the sum of PSS.
func TestMeasureShared(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: shared memory can only be measured on Linux")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const size = 4 << 20
	path := filepath.Join(dir, "data")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	pids := []int{mapInto(t, path), mapInto(t, path)}
	s, err := Measure(dir, append(pids, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	if s.Processes != 2 || s.Dataset != size || s.RSS != 2*size || s.PSS != size || len(s.Private) != 2 ||
		s.Private[0] <= 0 {
		t.Errorf("%+v, want 2 processes, %d mapped, RSS %d, PSS %d", s, size, 2*size, size)
	}
}

// mapInto starts a process that maps the file, reads every page of it and waits.
func mapInto(t *testing.T, path string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RESIDENCY_MAP="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestMain(m *testing.M) {
	if path := os.Getenv("RESIDENCY_MAP"); path != "" {
		os.Exit(mapAndWait(path))
	}
	os.Exit(m.Run())
}

func mapAndWait(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 1
	}
	info, err := f.Stat()
	if err != nil {
		return 1
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return 1
	}
	var sum byte
	for i := 0; i < len(data); i += 4096 {
		sum += data[i]
	}
	os.Stdout.Write([]byte{sum + 1})
	if _, err := os.Stdin.Read(make([]byte, 1)); err != io.EOF { // the test closes it
		return 1
	}
	return 0
}

func TestReports(t *testing.T) {
	folder := Folder(t.TempDir())
	if jobs, err := List(folder); err != nil || len(jobs) != 0 {
		t.Fatalf("a folder without reports lists %v, %v; expected none", jobs, err)
	}
	if _, err := Read(folder, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reading a report that does not exist: got %v, expected %v", err, fs.ErrNotExist)
	}
	if _, err := Read(folder, "../none"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reading a report outside of the folder: got %v, expected a refusal", err)
	}
	r := &Report{Job: "nightly-1", Finished: true,
		Machines: []Machine{{"vm-0", Sample{Processes: 3, Dataset: 7, Private: []int64{1, 2, 3}}}}}
	if err := r.Write(folder); err != nil {
		t.Fatal(err)
	}
	got, err := Read(folder, "nightly-1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, got); d != "" {
		t.Errorf("the report as read (-written +read):\n%s", d)
	}
	jobs, err := List(folder)
	if err != nil || !cmp.Equal(jobs, []string{"nightly-1"}) {
		t.Fatalf("listed %v, %v; expected nightly-1", jobs, err)
	}
}
