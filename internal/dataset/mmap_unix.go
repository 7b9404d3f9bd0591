//go:build unix

package dataset

import (
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

func mmap(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func munmap(data []byte) error { return unix.Munmap(data) }

// willStream tells the system that a mapping is larger than memory and read in long passes: what has been read long ago
// goes first.
func willStream(data []byte) { _ = unix.Madvise(data, unix.MADV_SEQUENTIAL) } // advice; nothing depends on it

// prefetch begins to read a part of a mapping from the disk and does not wait. Linux reads no more for each request
// than it would by itself, 128 KiB on most disks.
func prefetch(part []byte) {
	if len(part) == 0 {
		return
	}
	const most = 128 << 10
	start := unsafe.Pointer(unsafe.SliceData(part))
	before := int(uintptr(start)) % os.Getpagesize() // the mapping begins on a page, so these bytes are its own
	part = unsafe.Slice((*byte)(unsafe.Add(start, -before)), before+len(part))
	for request := range slices.Chunk(part, most) {
		if unix.Madvise(request, unix.MADV_WILLNEED) != nil {
			return
		}
	}
}
