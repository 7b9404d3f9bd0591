package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// cleanReader passes valid UTF-8 text on and rejects everything else, naming the line. It drops a byte order mark, and
// rejects more than limit bytes; its user moves the limit on. It reads into its own memory, so that the user may ask
// for single bytes, although a character may have four.
type cleanReader struct {
	r     io.Reader
	uri   string
	line  int   // line at the end of what has been read
	n     int64 // bytes passed on
	limit int64
	began bool
	buf   []byte
	ready []byte // valid text in buf, not passed on yet
	tail  []byte // the beginning of a character cut off by the last read
	err   error  // what follows ready
}

// cleanBytes is the size of a read.
const cleanBytes = 1 << 18

func (c *cleanReader) Read(p []byte) (int, error) {
	if c.n > c.limit {
		return 0, c.fail(c.line, fmt.Sprintf("a row of more than %d bytes; is a quote never closed?", maxRecord))
	}
	if len(p) == 0 {
		return 0, nil
	}

	for len(c.ready) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		c.fill()
	}

	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	c.n += int64(n)
	return n, nil
}

// fill reads and checks the next bytes.
func (c *cleanReader) fill() {
	if c.buf == nil {
		c.buf = make([]byte, cleanBytes)
	}

	p := c.buf
	n := copy(p, c.tail)
	m, err := c.r.Read(p[n:])
	n += m

	// The first bytes tell the encoding.
	if !c.began {
		for err == nil && n < 4 {
			m, err = c.r.Read(p[n:])
			n += m
		}
		c.began = true
		if bytes.HasPrefix(p[:n], []byte("\xff\xfe")) || bytes.HasPrefix(p[:n], []byte("\xfe\xff")) {
			_ = c.fail(1, "UTF-16 text; convert it to UTF-8")
			return
		}
		if bytes.HasPrefix(p[:n], []byte("\xef\xbb\xbf")) {
			n = copy(p, p[3:n])
		}
	}

	good, bad := check(p[:n], err != nil)
	c.ready = p[:good]
	c.tail = append(c.tail[:0], p[good:n]...)
	c.line += bytes.Count(c.ready, []byte{'\n'})

	switch {
	case bad != "":
		_ = c.fail(c.line, bad)
	case err == nil || err == io.EOF || errors.As(err, new(*InputError)):
		c.err = err
	default:
		c.err = &InputError{File: c.uri, Msg: "the file cannot be read to its end; it may be truncated", Err: err}
	}
}

func (c *cleanReader) fail(line int, msg string) error {
	c.err = &InputError{File: c.uri, Line: line, Msg: msg}
	return c.err
}

// check returns the number of valid bytes at the start of p, and what is wrong with the next one. A character cut off
// at the end of p counts as neither valid nor wrong, unless p ends the file.
func check(p []byte, end bool) (good int, bad string) {
	if i := bytes.IndexByte(p, 0); i >= 0 {
		if good, bad := check(p[:i], true); bad != "" {
			return good, bad
		}
		return i, "a NUL byte; this is not a text file, or a damaged one"
	}

	if utf8.Valid(p) {
		return len(p), ""
	}

	for good < len(p) {
		r, size := utf8.DecodeRune(p[good:])
		if r == utf8.RuneError && size <= 1 {
			if !end && !utf8.FullRune(p[good:]) {
				return good, ""
			}
			return good, fmt.Sprintf("the byte %#02x is not UTF-8; convert the file to UTF-8", p[good])
		}
		good += size
	}
	return good, ""
}

// TextCheck is written the bytes of a text file, from At on, that are hashed before anything reads their meaning: a
// sparse file of 100 GB, or a row without an end, is an error before its last byte is read.
type TextCheck struct {
	File  string
	At    int64
	lines int
}

// Write fails at a NUL byte.
func (c *TextCheck) Write(p []byte) (int, error) {
	if i := bytes.IndexByte(p, 0); i >= 0 {
		return 0, &InputError{File: c.File, Msg: fmt.Sprintf("byte %d is NUL; this is not a text file, or a damaged one",
			c.At+int64(i)+1)}
	}
	c.At += int64(len(p))
	c.lines += bytes.Count(p, []byte{'\n'})
	return len(p), nil
}

// Line fails if the bytes, as many as a row may have, hold no end of a line.
func (c *TextCheck) Line() error {
	if c.lines > 0 {
		return nil
	}
	return &InputError{File: c.File, Msg: fmt.Sprintf("bytes %d to %d hold no end of a line, and a row has at most %d "+
		"bytes", c.At-maxRecord+1, c.At, maxRecord)}
}

// IsPlainText reports whether a file is uncompressed text.
func IsPlainText(f File) (bool, error) {
	head, err := sniff(f)
	isBinary := unsupported(head) != ""
	for _, magic := range []string{magicParquet, magicSecret, magicGzip, magicZstd} {
		isBinary = isBinary || strings.HasPrefix(head, magic)
	}
	return !isBinary, err
}
