//go:build unix

package team

import (
	"io"
	"syscall"
)

// poll reads what has already been received into b, without waiting, and returns how many bytes these are; 0 if nothing
// has come. If the other end has closed the connection, it returns io.EOF. Any other error is returned as well, because
// the operating system reports an error of a connection only once.
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
