package table

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// gzipReader reads the concatenated members of a gzip file. Like the gzip program, it skips trailing zeros, with which
// tapes and block devices pad their blocks.
type gzipReader struct {
	in *bufio.Reader
	z  *gzip.Reader
}

// newGzipReader reads the header of the first member. An error says that r does not begin with one.
func newGzipReader(r io.Reader) (*gzipReader, error) {
	g := &gzipReader{in: bufio.NewReaderSize(r, 1<<18)}
	var err error
	if g.z, err = gzip.NewReader(g.in); err != nil {
		return nil, err
	}
	g.z.Multistream(false)
	return g, nil
}

// Read reads decompressed bytes. Where a member ends, it skips zeros and goes on with the next member, until the file
// ends.
func (g *gzipReader) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}

	// Some writers pad the last block with zeros. The file ends after them, or another member follows.
	for {
		c, err := g.in.ReadByte()
		if err != nil { // io.EOF at the end of the file
			return n, err
		}
		if c != 0 {
			break
		}
	}

	if err := g.in.UnreadByte(); err != nil {
		return n, err
	}
	if err := g.z.Reset(g.in); err != nil {
		return n, err
	}

	g.z.Multistream(false)
	return n, nil
}

// unsupportedCompression returns the name of a file's compression if that cannot be read, otherwise "". head is the
// file's first bytes.
func unsupportedCompression(head string) string {
	for magic, name := range map[string]string{
		"\xfd7zXZ\x00":     "xz",
		"BZh":              "bzip2",
		"\x04\x22\x4d\x18": "LZ4",
		"PK\x03\x04":       "ZIP, as spreadsheets are, too",
	} {
		if !strings.HasPrefix(head, magic) {
			continue
		}

		// BZh may begin a column's name, but not followed by the magic number of the first block or of the end.
		if magic == "BZh" && !strings.HasPrefix(head[min(4, len(head)):], "1AY&SY") &&
			!strings.HasPrefix(head[min(4, len(head)):], "\x17\x72\x45\x38\x50\x90") {
			continue
		}
		return name
	}
	return ""
}
