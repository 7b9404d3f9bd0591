package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// cleanReader passes valid UTF-8 text on and rejects everything else with an error that names the line. It drops a byte
// order mark. It fails once more than limit bytes have been passed on; its user raises limit after each row, so a row
// without an end is an error.
//
// It reads into memory of its own, in large pieces: its user may ask for single bytes, although a character may have
// four.
type cleanReader struct {
	r     io.Reader
	uri   string // for errors
	line  int    // line at the end of what has been read
	n     int64  // bytes passed on
	limit int64  // most bytes to pass on
	began bool   // the first bytes have been looked at
	buf   []byte
	ready []byte // valid text in buf, not passed on yet
	tail  []byte // the beginning of a character cut off by the last read
	err   error  // what follows ready
}

// cleanBytes is the size of a read.
const cleanBytes = 1 << 18

// Read passes valid text on. It fails if limit is exceeded, which is within a row that does not end.
func (c *cleanReader) Read(p []byte) (int, error) {
	if c.n > c.limit {
		c.fail(c.line, fmt.Sprintf("a row of more than %d bytes; is a quote never closed?", maxRecord))
		return 0, c.err
	}
	if len(p) == 0 {
		return 0, nil
	}

	for len(c.ready) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		c.readMore()
	}

	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	c.n += int64(n)
	return n, nil
}

// readMore reads and checks the next bytes, and sets c.ready to the valid ones. A character that is cut off waits in
// c.tail for the next call. If an error, or the end of the file, follows the valid text, it is kept in c.err until that
// text has been passed on.
func (c *cleanReader) readMore() {
	if c.buf == nil {
		c.buf = make([]byte, cleanBytes)
	}

	p := c.buf
	n := copy(p, c.tail)
	m, err := c.r.Read(p[n:])
	n += m

	// The first bytes, four if the file has as many, tell the encoding and may be a byte order mark.
	if !c.began {
		for err == nil && n < 4 {
			m, err = c.r.Read(p[n:])
			n += m
		}
		c.began = true
		if isUTF16(p[:n]) {
			c.fail(1, adviceUTF16)
			return
		}
		if bytes.HasPrefix(p[:n], []byte("\xef\xbb\xbf")) {
			n = copy(p, p[3:n])
		}
	}

	// Divide what was read into valid text and the rest.
	good, bad := checkText(p[:n], err != nil)
	c.ready = p[:good]
	c.tail = append(c.tail[:0], p[good:n]...)
	c.line += bytes.Count(c.ready, []byte{'\n'})

	switch {
	case bad != "":
		c.fail(c.line, bad)
	case err == nil || err == io.EOF || errors.As(err, new(*InputError)):
		c.err = err
	default:
		c.err = &InputError{File: c.uri, Msg: "the file cannot be read to its end; it may be truncated", Err: err}
	}
}

// isUTF16 reports whether the first bytes of a file are text in UTF-16. It looks for a mark of the byte order, or for
// two ASCII characters in either order of bytes.
func isUTF16(head []byte) bool {
	if len(head) < 4 {
		return len(head) >= 2 && (string(head[:2]) == "\xff\xfe" || string(head[:2]) == "\xfe\xff")
	}
	a, b, c, d := head[0], head[1], head[2], head[3]
	return isUTF16(head[:2]) || a != 0 && b == 0 && c != 0 && d == 0 || a == 0 && b != 0 && c == 0 && d != 0
}

const adviceUTF16 = "text in UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"

// fail sets c.err to an error at a line.
func (c *cleanReader) fail(line int, msg string) {
	c.err = &InputError{File: c.uri, Line: line, Msg: msg}
}

// checkText returns the number of valid bytes at the start of p, and what is wrong with the byte after them; bad is
// empty if nothing is. A character that is cut off at the end of p is neither valid nor wrong, unless p ends the file.
func checkText(p []byte, end bool) (good int, bad string) {
	if i := bytes.IndexByte(p, 0); i >= 0 {
		if good, bad := checkText(p[:i], true); bad != "" {
			return good, bad
		}
		return i, "a NUL byte; this is not a text file, or a damaged one"
	}

	// Nearly all text is valid, which is checked fast. If not, look for the first wrong byte.
	if utf8.Valid(p) {
		return len(p), ""
	}
	for good < len(p) {
		r, size := utf8.DecodeRune(p[good:])
		if r == utf8.RuneError && size <= 1 {
			if !end && !utf8.FullRune(p[good:]) {
				return good, ""
			}
			return good, notUTF8(p[good])
		}
		good += size
	}
	return good, ""
}

// notUTF8 returns what is wrong with a byte that is not UTF-8, and which character was likely meant: nearly all such
// text is in Latin-1, or in Windows' extension of it.
func notUTF8(b byte) string {
	meant := ""
	if b >= 0xa0 {
		meant = fmt.Sprintf(" (in Latin-1 it is %c)", b)
	}
	return fmt.Sprintf("the byte %#02x is not UTF-8%s; convert the file to UTF-8: iconv -f WINDOWS-1252 -t UTF-8 "+
		"FILE > NEW", b, meant)
}

// TextCheck checks the bytes of a text file while they are hashed, before anything reads their meaning. So a sparse
// file of 100 GB, or a row without an end, is an error before its last byte is read. It checks one part of the file;
// the bytes are written to it.
type TextCheck struct {
	File  string // the file's URI, for errors
	At    int64  // position in the file of the next byte that is written
	lines int    // ends of lines so far
}

// Write takes the next bytes of the part. It fails if they hold a NUL byte, or are the beginning of UTF-16.
func (c *TextCheck) Write(p []byte) (int, error) {
	if c.At == 0 && isUTF16(p) {
		return 0, &InputError{File: c.File, Line: 1, Msg: adviceUTF16}
	}
	if i := bytes.IndexByte(p, 0); i >= 0 {
		return 0, &InputError{File: c.File, Msg: fmt.Sprintf("byte %d is NUL; this is not a text file, or a damaged "+
			"one", c.At+int64(i)+1)}
	}
	c.At += int64(len(p))
	c.lines += bytes.Count(p, []byte{'\n'})
	return len(p), nil
}

// Line returns an error if the bytes written so far hold no end of a line. It is called after maxRecord bytes, which is
// as many as a row may have.
func (c *TextCheck) Line() error {
	if c.lines > 0 {
		return nil
	}
	return &InputError{File: c.File, Msg: fmt.Sprintf("bytes %d to %d hold no end of a line, and a row has at most %d "+
		"bytes", c.At-maxRecord+1, c.At, maxRecord)}
}

// IsPlainText reports whether a file's first bytes are neither those of a compression nor those of Parquet.
func IsPlainText(f File) (bool, error) {
	head, err := readHead(f)
	isBinary := unsupportedCompression(head) != ""
	for _, magic := range []string{magicParquet, magicSecret, magicGzip, magicZstd} {
		isBinary = isBinary || strings.HasPrefix(head, magic)
	}
	return !isBinary, err
}
