package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"
)

// mapping is a file's contents in read-only memory, shared with all processes that map the same file. It belongs to its
// creator until close, after which its bytes must not be touched. Meanwhile the file must not be truncated, since
// touching the missing part crashes the process: datasets are replaced by renaming folders, never rewritten in place.
// (Windows refuses to do either while the file is mapped.)
type mapping struct {
	data []byte
}

// mapFile maps the file at path. It must be there and have exactly size bytes, at least one; otherwise the error is of
// kind Damaged. name is the file's name in errors.
func mapFile(path, name string, size int64) (*mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, badFile(name, -1, "the file is missing")
		}
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}

	switch {
	case !info.Mode().IsRegular():
		return nil, badFile(name, -1, "not a regular file")
	case info.Size() != size:
		return nil, badFile(name, min(size, info.Size()),
			fmt.Sprintf("the file has %d bytes where the manifest says %d", info.Size(), size))
	case size == 0:
		return nil, badFile(name, 0, "the file is empty")
	case int64(int(size)) != size:
		return nil, badFile(name, -1, "the file is too large for this machine's addresses")
	}

	data, err := mmap(f, int(size))
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", name, err)
	}
	return &mapping{data: data}, nil
}

// close unmaps the file. It does nothing the second time, or on nil.
func (m *mapping) close() error {
	if m == nil || m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return munmap(data)
}

// view returns the bytes s of a mapping as values of T, without copying; nil if there are none. The values are aligned:
// s starts at a multiple of 64 bytes in the mapping, and a mapping at the beginning of a page.
func view[T uint8 | uint32 | uint64 | float32 | float64](data []byte, s span) []T {
	var zero T
	if s.n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&data[s.off])), s.n/int64(unsafe.Sizeof(zero)))
}
