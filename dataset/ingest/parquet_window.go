package ingest

import "io"

// window is a part of a file that is read from front to back, with a look ahead.
type window struct {
	r       io.ReaderAt
	at, end int64 // what has not been read
	buf     []byte
	pos     int // in buf
}

// peek gives at least n of the next bytes, or fewer at the end. They last until the next peek.
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

func (w *window) skip(n int) { w.pos += n }
