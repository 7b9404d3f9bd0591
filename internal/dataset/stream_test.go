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

// streamed returns a dataset and the stream of its train split, with two buffers.
func streamed(t *testing.T) (*Dataset, *Stream) {
	t.Helper()
	f := newFixture(1, map[string]int{"train": 20_000, "valid": 3})
	dir := filepath.Join(t.TempDir(), "d")
	f.write(t, dir, 7, 2)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Stream("train", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(s.Close(), d.Close()) })
	return d, s
}

// TestStream: parts of the rows, which begin and end anywhere, are those of the mapping once they are fetched, also
// when others have been read, and in memory that others have had.
func TestStream(t *testing.T) {
	d, s := streamed(t)
	rows := d.Split("train").RowMajor
	page := os.Getpagesize()
	if s.Block < 12*page || len(rows) < 12*page || s.Blocks != 2 {
		t.Fatalf("%d rows, %d blocks of %d bytes, want at least 12 pages, and two", len(rows), s.Blocks, s.Block)
	}

	first, last := 3*page+7, len(rows)-2*page-1
	parts := [][]byte{rows[:first], rows[first:last], rows[last:]}
	before, wait := s.Fetch(parts[2])
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		part := parts[i%3]
		fetched, wait := s.Fetch(part)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, parts[(i+2)%3]) {
			t.Errorf("part %d has changed before it was dropped", (i+2)%3)
		}
		if !bytes.Equal(fetched, part) {
			t.Errorf("part %d differs from the mapping's", i%3)
		}
		s.Drop(before)
		before = fetched
	}
	if runtime.GOOS == "linux" && len(s.free) != 1 {
		t.Errorf("%d free buffers with one part in memory, want one", len(s.free))
	}
}

// TestStreamReadsAsItMay: what a file system does not read past its cache is read with it. Here, such a read begins
// and ends where it must not.
func TestStreamReadsAsItMay(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // nothing is opened
	}
	d, s := streamed(t)
	whole, err := os.ReadFile(s.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	buffer := s.free[0][1 : len(whole)-1]
	if err := s.read(buffer, 1); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buffer, whole[1:len(whole)-1]) || !bytes.Contains(whole, d.Split("train").RowMajor) {
		t.Error("other bytes than the file's")
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
	if _, err := d.Stream("train", 0); !problem.Is(err, problem.Damaged) {
		t.Errorf("a file in the place of the mapped one: %v, want it to be damaged", err)
	}

	if err := os.Truncate(path+".old", int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	rows := d.Split("train").RowMajor
	_, wait := s.Fetch(rows[len(rows)/2:])
	if err := wait(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a part behind the end of the file: %v, want %v", err, io.ErrUnexpectedEOF)
	}
}
