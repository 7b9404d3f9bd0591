package atomicfile

import (
	"os"

	"github.com/gofrs/flock"
)

// NewLock is the lock on the file at path, which is made if it is absent. It is opened for writing, too, since opening
// a pipe for reading waits for a writer, which no signal ends.
func NewLock(path string) *flock.Flock { return flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR)) }
