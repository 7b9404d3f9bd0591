package dataset

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback makes the system start writing a part of a file to disk, so that Sync need not wait for all of it at
// the end, and that dirty pages do not fill the memory. It is only a hint, so its error is ignored: Sync reports any
// problem.
func startWriteback(f *os.File, at, n int64) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SyncFileRange(int(fd), at, n, unix.SYNC_FILE_RANGE_WRITE) })
}
