package atomicfile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// Rename is os.Rename, which it repeats for about one second while the file is in use: Windows does not replace a file
// that another process has open, as virus scanners do.
func Rename(from, to string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := os.Rename(from, to)
		held := errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION)
		if !held || wait > time.Second {
			return err
		}
		time.Sleep(wait)
	}
}
