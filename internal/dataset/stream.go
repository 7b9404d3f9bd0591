package dataset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"
)

// Stream reads the row-major bins of a split that is larger than memory. Where the system can, they go past its cache
// of files, which cannot tell what will be read again; elsewhere they are read from the mapping.
type Stream struct {
	Block  int // most bytes of a part
	Blocks int // how many parts may be in memory at once; at least two

	rows   []byte   // the mapping's
	file   *os.File // nil: the mapping is read
	at     int      // where the rows begin in the file
	size   int      // of the file
	memory []byte   // of all buffers
	free   [][]byte // buffers that hold no part
	reads  sync.WaitGroup
}

// bufferBytes is the memory of a part: several times what a disk reads at once, and whole huge pages, in which the disk
// reads three times as fast, since a request has few pieces.
const bufferBytes = 2 * hugePage

// Stream tells the system that the dataset is larger than the memory for it, and opens the rows of a split of it, for
// which there are so many bytes of memory. Two buffers are always taken, which stay until Close.
func (d *Dataset) Stream(split string, memory int) (*Stream, error) {
	i := slices.IndexFunc(d.Splits, func(s Split) bool { return s.Name == split })
	for _, m := range d.mappings {
		willStream(m.data)
	}
	rows, mapped, name := d.Splits[i].RowMajor, d.mappings[3*i], d.mapped[3*i].Name // see open
	s := &Stream{Block: bufferBytes - 2*os.Getpagesize(), Blocks: max(memory/bufferBytes, 2), rows: rows}
	s.memory = reserve(s.Blocks*bufferBytes + hugePage)
	if s.memory == nil { // another system, or one that promises no more memory than it has
		return s, nil
	}
	first := -int(uintptr(unsafe.Pointer(unsafe.SliceData(s.memory)))) & (hugePage - 1)
	for n := range s.Blocks {
		s.free = append(s.free, s.memory[first+n*bufferBytes:][:bufferBytes:bufferBytes])
	}

	file, err := openUncached(filepath.Join(d.dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.file, s.size = file, len(mapped.data)
	if info, err := s.file.Stat(); err != nil || !os.SameFile(info, mapped.info) {
		return nil, errors.Join(badFile(name, -1, "the file was replaced after it had been opened"), err, s.Close())
	}
	s.at = int(uintptr(unsafe.Pointer(unsafe.SliceData(rows))) - uintptr(unsafe.Pointer(unsafe.SliceData(mapped.data))))
	return s, nil
}

// Close frees the memory and closes the file, once what is being fetched has been read.
func (s *Stream) Close() error {
	s.reads.Wait()
	var errs []error
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	if s.memory != nil {
		errs = append(errs, munmap(s.memory))
	}
	*s = Stream{}
	return errors.Join(errs...)
}

// Fetch begins to read a part of the split's RowMajor from the disk. Its bytes are in fetched, from when wait has
// returned until they are dropped.
func (s *Stream) Fetch(part []byte) (fetched []byte, wait func() error) {
	if s.file == nil {
		prefetch(part)
		return part, func() error { return nil }
	}
	from := s.at + cap(s.rows) - cap(part)
	page := os.Getpagesize() // which is a multiple of what requests have to begin and end with
	begin, end := from&^(page-1), roundUp(from+len(part), page)
	last := len(s.free) - 1
	buffer := s.free[last]
	s.free = s.free[:last]
	done := make(chan error, 1)
	s.reads.Go(func() { done <- s.read(buffer[:end-begin], begin) })
	return buffer[from-begin:][:len(part)], sync.OnceValue(func() error { return <-done })
}

// read reads whole pages of the file; the last one may go beyond its end.
func (s *Stream) read(pages []byte, begin int) error {
	n, err := s.file.ReadAt(pages, int64(begin))
	end := min(begin+len(pages), s.size)
	if begin+n < end && refused(err) && useCache(s.file) == nil {
		n, err = s.file.ReadAt(pages, int64(begin))
	}
	if begin+n >= end {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %s at byte %d: %w", s.file.Name(), begin+n, err)
}

// Drop ends the use of what was fetched and waited for. Its memory is for another part then.
func (s *Stream) Drop(fetched []byte) {
	if s.file == nil {
		return
	}
	before := bufferBytes - cap(fetched) // of its buffer
	start := unsafe.Add(unsafe.Pointer(unsafe.SliceData(fetched)), -before)
	s.free = append(s.free, unsafe.Slice((*byte)(start), bufferBytes))
}

// Ahead begins to read a part of a mapping from the disk.
func (s *Stream) Ahead(part []byte) { prefetch(part) }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
