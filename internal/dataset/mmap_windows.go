package dataset

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mmap maps the first size bytes of f, at least one, for reading. f may be closed afterwards.
func mmap(f *os.File, size int) ([]byte, error) {
	section, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	at, err := windows.MapViewOfFile(section, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err = errors.Join(err, windows.CloseHandle(section)); err != nil { // the view keeps what it needs
		return nil, err
	}
	// The address is read through a pointer to it, since vet takes it for a misuse to turn an integer into a pointer.
	// It is right here: the view is no memory of Go's, which could move.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size), nil
}

func munmap(data []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
}
