package dataset

import (
	"os"

	"golang.org/x/sys/unix"
)

// openUncached opens a file whose contents the system does not keep in memory, if its file system can.
func openUncached(path string) (*os.File, error) {
	if f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0); err == nil {
		return f, nil
	}
	return os.Open(path)
}

// reserve returns addresses for size bytes, which take memory where they are written; nil where there are none.
func reserve(size int) []byte {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	return memory
}

// free gives the memory of a part of what reserve returned back to the system. It is zero afterwards.
func free(part []byte) { _ = unix.Madvise(part, unix.MADV_DONTNEED) } // fails for wrong arguments only
