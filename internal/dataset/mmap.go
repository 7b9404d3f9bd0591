package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"
)

// mapping is a file's contents, read-only and shared with every process that maps the same file. Its creator owns it
// until close; its bytes must not be touched afterwards. The file must not be truncated meanwhile, since touching the
// missing part kills the process: datasets are replaced by renaming folders, never rewritten in place. (Windows refuses
// either while the file is mapped.)
type mapping struct {
	data []byte
}

// mapFile maps the file at path, which must have exactly size bytes, at least one; otherwise, or without the file, the
// error is of kind Damaged. name is its name in errors.
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

// close unmaps the file. It does nothing for a nil mapping, or a second time.
func (m *mapping) close() error {
	if m == nil || m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	return munmap(data)
}

// view returns a part of a mapping as values of T, without copying. s starts at a multiple of 64 within the mapping,
// and mappings begin on a page, so the values are aligned.
func view[T uint8 | uint32 | uint64 | float32 | float64](data []byte, s span) []T {
	var zero T
	if s.n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&data[s.off])), s.n/int64(unsafe.Sizeof(zero)))
}
