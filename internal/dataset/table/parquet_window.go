package table

import (
	"fmt"
	"io"
	"sync"

	"coppice/internal/dataset"
)

// newPacked returns a pool of memory for compressed pages; each goroutine that reads pages needs one.
func newPacked() *sync.Pool { return &sync.Pool{New: func() any { return new([]byte) }} }

// window is a part of a file that is read sequentially, with lookahead.
type window struct {
	r       io.ReaderAt
	at, end int64 // the part not read yet
	buf     []byte
	pos     int // in buf
}

// peek returns at least n of the next bytes, or fewer at the end. They are valid until the next peek.
func (w *window) peek(n int) ([]byte, error) {
	have := len(w.buf) - w.pos
	if have >= n || w.at == w.end {
		return w.buf[w.pos:], nil
	}

	want := int(min(int64(max(n, readAheadBytes)-have), w.end-w.at))
	to := w.buf[:0]
	if cap(to) < have+want {
		to = make([]byte, 0, have+want)
	}
	to = to[:have+want]
	copy(to, w.buf[w.pos:])
	w.buf, w.pos = to, 0

	got, err := w.r.ReadAt(to[have:], w.at)
	w.buf = to[:have+got]
	w.at += int64(got)

	if got == want {
		return w.buf, nil
	}

	if err == io.EOF || err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// read returns the next n bytes and moves past them. They are in the window's memory if already read, and otherwise in
// that of to, which grows if necessary.
func (w *window) read(n int, to *[]byte) ([]byte, error) {
	have := w.buf[w.pos:]
	if len(have) >= n {
		w.skip(n)
		return have[:n], nil
	}

	if missing := int64(n - len(have)); missing > w.end-w.at {
		return nil, fmt.Errorf("a page of %d bytes, of which %d are there", n, int64(len(have))+w.end-w.at)
	}

	*to = dataset.Resize(*to, n)
	copy(*to, have)
	got, err := w.r.ReadAt((*to)[len(have):], w.at)
	w.buf, w.pos = w.buf[:0], 0
	w.at += int64(got)

	if len(have)+got == n {
		return *to, nil
	}

	if err == io.EOF || err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

func (w *window) skip(n int) { w.pos += n }
