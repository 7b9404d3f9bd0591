//go:build !unix

package team

import "syscall"

// poll does nothing here; Read then waits without polling.
func poll(syscall.RawConn, []byte) (int, error) { return 0, nil }
