//go:build unix

package atomicfile

import (
	"path/filepath"
	"syscall"
	"testing"

	"coppice/internal/must"
)

// TestAPipeAsALock locks like a file: opening it waits for nobody.
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
