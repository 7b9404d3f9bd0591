//go:build unix

package atomicfile

import (
	"path/filepath"
	"syscall"
	"testing"

	"coppice/internal/must"
)

// TestAPipeAsALock: a lock on a named pipe works as on a file: taking it does not wait for a writer of the pipe, and a
// second lock is refused.
func TestAPipeAsALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	first, second := NewLock(path), NewLock(path)
	defer first.Close()
	if mine, err := first.TryLock(); !mine || err != nil {
		t.Errorf("the first lock: %v, %v; expected it", mine, err)
	}
	if mine, err := second.TryLock(); mine || err != nil {
		t.Errorf("the second lock: %v, %v; expected none, and no error", mine, err)
	}
}
