package dataset

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"coppice/internal/problem"
)

// streamed returns a dataset and the stream of its train split.
func streamed(t *testing.T) (*Dataset, *Stream) {
	t.Helper()
	f := newFixture(1, map[string]int{"train": 20_000, "valid": 3})
	dir := filepath.Join(t.TempDir(), "d")
	f.write(t, dir, 7, 2)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Stream("train")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(s.Close(), d.Close()) })
	return d, s
}

// TestStream: parts of the rows, which begin and end anywhere, are those of the mapping once they are fetched, also
// again and beside others that have been dropped, whose memory is free.
func TestStream(t *testing.T) {
	d, s := streamed(t)
	want := d.Split("train").RowMajor
	page := os.Getpagesize()
	if len(s.Rows) != len(want) || len(want) < 12*page {
		t.Fatalf("%d bytes, want %d, at least 12 pages", len(s.Rows), len(want))
	}

	first, last := 3*page+7, len(want)-2*page-1
	parts := [][2]int{{0, first}, {first, last}, {last, len(want)}}
	for range 2 {
		for _, p := range parts {
			part := s.Rows[p[0]:p[1]]
			if err := s.Fetch(part)(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(part, want[p[0]:p[1]]) {
				t.Errorf("bytes %d to %d differ from the mapping's", p[0], p[1])
			}
		}
		s.Drop(s.Rows[first:last])
		dropped := s.Rows[first+page : last-page]
		if runtime.GOOS == "linux" && bytes.ContainsFunc(dropped, func(r rune) bool { return r != 0 }) {
			t.Error("a part is still in memory after it was dropped")
		}
		for _, p := range [][2]int{parts[0], parts[2]} {
			if !bytes.Equal(s.Rows[p[0]:p[1]], want[p[0]:p[1]]) {
				t.Errorf("bytes %d to %d are not there any more after others were dropped", p[0], p[1])
			}
		}
	}
}

// TestStreamReadsAsItMay: what a file system does not read past its cache is read with it. Here, such a read begins and
// ends where it must not.
func TestStreamReadsAsItMay(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // nothing is opened
	}
	d, s := streamed(t)
	if err := s.read(1, len(s.copied)-1); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.Rows, d.Split("train").RowMajor) {
		t.Error("other rows than the mapping's")
	}
}

// TestStreamOfReplacedFile: a file that has taken the mapped one's place is not read, nor one that ends early.
func TestStreamOfReplacedFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // nothing is opened
	}
	d, s := streamed(t)
	path := s.file.Name()
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, mustRead(t, filepath.Dir(path), filepath.Base(path)+".old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Stream("train"); !problem.Is(err, problem.Damaged) {
		t.Errorf("a file in the place of the mapped one: %v, want it to be damaged", err)
	}

	if err := os.Truncate(path+".old", int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	if err := s.Fetch(s.Rows[len(s.Rows)/2:])(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a part behind the end of the file: %v, want %v", err, io.ErrUnexpectedEOF)
	}
}
