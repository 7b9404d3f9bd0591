package atomicfile

import (
	"os"

	"github.com/gofrs/flock"
)

// NewLock returns the lock on the file at path, not yet taken; taking it makes the file if it does not exist. The file
// is opened for reading and writing: if it is a pipe, opening it for reading alone would wait for a writer.
func NewLock(path string) *flock.Flock { return flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR)) }
