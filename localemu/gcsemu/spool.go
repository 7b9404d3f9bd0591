//go:build unix

package gcsemu

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
)

// spoolInMemory is the size above which an upload goes to a temporary file.
const spoolInMemory = 4 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spool collects the bytes of an upload, in memory or in a file without a name, and their checksums.
type spool struct {
	dir  string // for the file; "" is the system's
	buf  bytes.Buffer
	file *os.File
	size int64
	crc  uint32
	md5  hash.Hash
}

func newSpool(dir string) *spool { return &spool{dir: dir, md5: md5.New()} }

// Write appends p.
func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.size+int64(len(p)) > spoolInMemory {
		f, err := os.CreateTemp(s.dir, "localemu-upload-*")
		if err != nil {
			return 0, fmt.Errorf("make room for an upload: %w", err)
		}
		os.Remove(f.Name()) // it exists as long as it is open
		if _, err := f.Write(s.buf.Bytes()); err != nil {
			f.Close()
			return 0, fmt.Errorf("keep an upload: %w", err)
		}
		s.file = f
		s.buf = bytes.Buffer{}
	}

	var n int
	var err error
	if s.file != nil {
		n, err = s.file.Write(p)
	} else {
		n, err = s.buf.Write(p)
	}

	s.size += int64(n)
	s.crc = crc32.Update(s.crc, castagnoli, p[:n])
	s.md5.Write(p[:n])
	return n, err
}

// content returns what was written, from the beginning. Closing it does nothing: the spool may be read again.
func (s *spool) content() io.ReadSeekCloser {
	if s.file != nil {
		return &keepOpen{io.NewSectionReader(s.file, 0, s.size)}
	}
	return &keepOpen{bytes.NewReader(s.buf.Bytes())}
}

// copyTo writes the file's contents to f, without passing them through memory if the system supports that.
func (s *spool) copyTo(f *os.File) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(f, s.file)
	return err
}

type keepOpen struct{ io.ReadSeeker }

func (*keepOpen) Close() error { return nil }

// crc32c and md5sum are the checksums in the service's notation.
func (s *spool) crc32c() string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, s.crc))
}

func (s *spool) md5sum() string { return base64.StdEncoding.EncodeToString(s.md5.Sum(nil)) }

var errChecksum = errors.New("checksum mismatch")

// verify compares the checksums that the client declared; "" is not compared.
func (s *spool) verify(crc32c, md5sum string) error {
	if crc32c != "" && crc32c != s.crc32c() {
		return fmt.Errorf("%w: Provided CRC32C %q doesn't match calculated CRC32C %q", errChecksum, crc32c, s.crc32c())
	}
	if md5sum != "" && md5sum != s.md5sum() {
		return fmt.Errorf("%w: Provided MD5 hash %q doesn't match calculated MD5 hash %q", errChecksum, md5sum,
			s.md5sum())
	}
	return nil
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}
