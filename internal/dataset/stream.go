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
	// Rows is as Split.RowMajor, but a part may be read only when it has been fetched, and until it is dropped.
	Rows []byte

	file   *os.File // nil: Rows is the mapping
	size   int      // of the file
	copied []byte   // memory for all of the file, of which only the parts in use are there
	reads  sync.WaitGroup
}

// Stream tells the system that the dataset is larger than the memory for it, and opens the rows of a split of it.
func (d *Dataset) Stream(split string) (*Stream, error) {
	i := slices.IndexFunc(d.Splits, func(s Split) bool { return s.Name == split })
	for _, m := range d.mappings {
		willStream(m.data)
	}
	rows, mapped, name := d.Splits[i].RowMajor, d.mappings[3*i], d.mapped[3*i].Name // see open
	memory := reserve(roundUp(len(mapped.data), os.Getpagesize()))
	if memory == nil { // another system, or one that promises no more memory than it has
		return &Stream{Rows: rows}, nil
	}

	s := &Stream{copied: memory, size: len(mapped.data)}
	file, err := openUncached(filepath.Join(d.dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.file = file
	if info, err := s.file.Stat(); err != nil || !os.SameFile(info, mapped.info) {
		return nil, errors.Join(badFile(name, -1, "the file was replaced after it had been opened"), err, s.Close())
	}
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(rows))) - uintptr(unsafe.Pointer(unsafe.SliceData(mapped.data))))
	s.Rows = memory[at : at+len(rows)]
	return s, nil
}

// Close frees the memory and closes the file, once what is being fetched has been read.
func (s *Stream) Close() error {
	s.reads.Wait()
	var errs []error
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	if s.copied != nil {
		errs = append(errs, munmap(s.copied))
	}
	*s = Stream{}
	return errors.Join(errs...)
}

// Fetch begins to read a part of Rows from the disk. wait returns when it has been read.
func (s *Stream) Fetch(part []byte) (wait func() error) {
	if s.file == nil {
		prefetch(part)
		return func() error { return nil }
	}
	from := cap(s.copied) - cap(part)
	page := os.Getpagesize() // which is a multiple of what requests have to begin and end with
	begin, end := from&^(page-1), roundUp(from+len(part), page)
	done := make(chan error, 1)
	// The first and the last page may be in use, as those of other parts, and get the same bytes again.
	s.reads.Go(func() { done <- s.read(begin, end) })
	return sync.OnceValue(func() error { return <-done })
}

// read reads whole pages of the file; the last one may go beyond its end.
func (s *Stream) read(begin, end int) error {
	n, err := s.file.ReadAt(s.copied[begin:end], int64(begin))
	if begin+n < min(end, s.size) && refused(err) && useCache(s.file) == nil {
		n, err = s.file.ReadAt(s.copied[begin:end], int64(begin))
	}
	if begin+n >= min(end, s.size) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %s at byte %d: %w", s.file.Name(), begin+n, err)
}

// Drop frees the memory of a part of Rows, except of pages that are not its alone.
func (s *Stream) Drop(part []byte) {
	if s.file == nil {
		return
	}
	page := os.Getpagesize()
	from := cap(s.copied) - cap(part)
	if begin, end := roundUp(from, page), (from+len(part))&^(page-1); begin < end {
		free(s.copied[begin:end])
	}
}

// Ahead begins to read a part of a mapping from the disk.
func (s *Stream) Ahead(part []byte) { prefetch(part) }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
