package encode

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"coppice/internal/dataset"
)

// spool stores fixed-size records in piles, each of which is read back in whole or in pieces, in the order of its
// records. Small amounts stay in memory; larger ones go to one temporary file, in chunks of one pile each.
type spool struct {
	width int // bytes per record
	piles []pile
	dir   string // for the temporary file
	keep  int64  // bytes that may stay in memory before a file is used

	file  *os.File
	held  int64 // bytes in memory
	ended int64 // bytes in the file
}

// pile is the records of one pile: first those in chunks of the file, in the order of chunks, then those in tail.
type pile struct {
	chunks []chunk
	tail   []byte
	bytes  int64
}

// chunk is n bytes of the file from offset at on.
type chunk struct {
	at int64
	n  int
}

// chunkBytes is how much of a pile is written at a time.
const chunkBytes = 64 << 10

// newSpool returns an empty spool of records of width bytes. It makes a temporary file in dir once all piles together
// hold more than keep bytes. The caller must close it.
func newSpool(width, piles int, dir string, keep int64) *spool {
	return &spool{width: width, piles: make([]pile, piles), dir: dir, keep: keep}
}

// addRecords appends records, of which there may be several, to pile number to. They are copied.
func (s *spool) addRecords(to int, records []byte) error {
	p := &s.piles[to]

	// With a file, large pieces go to it at once, after what the pile has in memory.
	if s.file != nil && len(records) >= chunkBytes {
		if err := s.flushPile(p); err != nil {
			return err
		}
		p.bytes += int64(len(records))
		return s.writeChunk(p, records)
	}

	// Others are collected in memory first.
	if s.file != nil && cap(p.tail) == 0 {
		p.tail = make([]byte, 0, 2*chunkBytes)
	}

	p.tail = append(p.tail, records...)
	p.bytes += int64(len(records))
	s.held += int64(len(records))

	if s.file == nil && s.held > s.keep {
		return s.toFile()
	}
	if s.file != nil && len(p.tail) >= chunkBytes {
		return s.flushPile(p)
	}
	return nil
}

// toFile makes the temporary file and moves all records from memory to it. The file is removed from its folder at once,
// so that nothing is left of it however the process ends.
func (s *spool) toFile() error {
	f, err := os.CreateTemp(s.dir, ".spool-")
	if err != nil {
		return fmt.Errorf("make a temporary file: %w", err)
	}
	s.file = f

	// Windows removes no open file: there, close does it.
	if err := os.Remove(f.Name()); err != nil && runtime.GOOS != "windows" {
		return fmt.Errorf("make a temporary file: %w", err)
	}

	for i := range s.piles {
		if err := s.flushPile(&s.piles[i]); err != nil {
			return err
		}
	}
	return nil
}

// flushPile writes a pile's records from memory to the file.
func (s *spool) flushPile(p *pile) error {
	if len(p.tail) == 0 {
		return nil
	}
	if err := s.writeChunk(p, p.tail); err != nil {
		return err
	}
	s.held -= int64(len(p.tail))
	if cap(p.tail) > 2*chunkBytes { // it grew before there was a file; free its memory
		p.tail = nil
	}
	p.tail = p.tail[:0]
	return nil
}

// writeChunk appends records to the file as the next chunk of the pile.
func (s *spool) writeChunk(p *pile, records []byte) error {
	if _, err := s.file.WriteAt(records, s.ended); err != nil {
		return fmt.Errorf("write a temporary file: %w", err)
	}
	p.chunks = append(p.chunks, chunk{s.ended, len(records)})
	s.ended += int64(len(records))
	return nil
}

// records returns how many records a pile has.
func (s *spool) records(of int) int { return int(s.piles[of].bytes / int64(s.width)) }

// loadRecords returns at most count records of a pile, from record number first on. They are the spool's own memory if
// the pile is in memory; otherwise they are read into *buffer, which is made larger if need be. They are valid until
// the next addRecords and the next use of the buffer.
func (s *spool) loadRecords(of, first, count int, buffer *[]byte) ([]byte, error) {
	p := &s.piles[of]
	count = min(count, s.records(of)-first)
	from, to := int64(first)*int64(s.width), int64(first+count)*int64(s.width)
	if len(p.chunks) == 0 {
		return p.tail[from:to], nil
	}

	// Read bytes from up to to of the pile. at is where the current chunk begins in the pile.
	*buffer = dataset.Resize(*buffer, int(to-from))
	at, done := int64(0), 0
	for _, c := range p.chunks {
		if lo, hi := max(from, at), min(to, at+int64(c.n)); lo < hi {
			part := (*buffer)[done : done+int(hi-lo)]
			if n, err := s.file.ReadAt(part, c.at+lo-at); n < len(part) {
				return nil, fmt.Errorf("read a temporary file: %w", err)
			}
			done += len(part)
		}
		at += int64(c.n)
	}

	// The rest is in memory.
	if to > at {
		copy((*buffer)[done:], p.tail[max(from-at, 0):to-at])
	}
	return *buffer, nil
}

// close closes the temporary file, if there is one, which frees its space.
func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if runtime.GOOS == "windows" {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	s.file = nil
	return err
}
