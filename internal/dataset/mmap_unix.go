//go:build unix

package dataset

import (
	"os"

	"golang.org/x/sys/unix"
)

// mmap maps the first size bytes of f, at least one, for reading. f may be closed afterwards.
func mmap(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func munmap(data []byte) error { return unix.Munmap(data) }
