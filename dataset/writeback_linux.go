package dataset

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback has the system begin to write a part of a file to the disk, so that Sync need not wait for all of it at the
// end, and that written pages never fill the memory. It promises nothing, so its error does not matter: Sync says what is wrong.
func startWriteback(f *os.File, at, n int64) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SyncFileRange(int(fd), at, n, unix.SYNC_FILE_RANGE_WRITE) })
}
