//go:build unix

package program

import (
	"fmt"
	"syscall"
)

// Become replaces this program by another, so that signals and exit code are the other's. It returns only if that is
// impossible.
func Become(path string, argv, env []string) error {
	return fmt.Errorf("start %s: %w", path, syscall.Exec(path, argv, env))
}
