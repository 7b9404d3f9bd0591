//go:build !unix

package team

import "syscall"

// poll would read what has come, at once.
func poll(syscall.RawConn, []byte) (int, error) { return 0, nil }
