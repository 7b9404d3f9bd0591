package dataset

import (
	"errors"
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

// refused reports whether a file system that opened a file uncached does not read it so.
func refused(err error) bool { return errors.Is(err, unix.EINVAL) }

// useCache lets the system keep what is read of an open file in memory.
func useCache(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT)
	return err
}

// hugePage is what the processors map at once on amd64, and on arm64 if small pages have 4 KiB.
const hugePage = 2 << 20

// reserve returns addresses for size bytes, which take memory where they are written, huge pages if there are any; nil
// where there are none.
func reserve(size int) []byte {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // advice; nothing but speed depends on it
	return memory
}
