//go:build unix

package team

import (
	"io"
	"syscall"
)

// poll reads what has come, at once. It returns 0 if that is nothing. An error of a connection is told only once, so
// what ends it is returned here.
func poll(c syscall.RawConn, b []byte) (n int, err error) {
	closed := c.Read(func(fd uintptr) bool {
		n, err = syscall.Read(int(fd), b)
		return true
	})
	switch {
	case closed != nil:
		return 0, closed
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return 0, nil
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return max(n, 0), err
}
