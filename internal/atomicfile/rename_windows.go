package atomicfile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// Rename is os.Rename, for about two seconds: Windows replaces no file while it is open in another process, such as a
// scanner of viruses.
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
