//go:build unix

package team

import "syscall"

// poll reads what has come, at once. It returns 0 if that is nothing, or if the connection has ended.
func poll(c syscall.RawConn, b []byte) (n int) {
	_ = c.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), b) // the caller's own read then finds the end, if not its reason
		return true
	})
	return max(n, 0)
}
