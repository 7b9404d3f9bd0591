//go:build unix

package team

import "syscall"

// poll reads what has come, at once. It returns 0 if that is nothing.
func poll(c syscall.RawConn, b []byte) (n int) {
	_ = c.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), b) // an error, or the end, comes again when the caller waits
		return true
	})
	return max(n, 0)
}
