//go:build unix

package atomicfile

import "os"

// Rename is os.Rename.
func Rename(from, to string) error { return os.Rename(from, to) }
