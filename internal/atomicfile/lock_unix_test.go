//go:build unix

package atomicfile

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestAPipeAsALock locks like a file: opening it waits for nobody.
func TestAPipeAsALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := NewLock(path), NewLock(path)
	defer first.Close()
	if mine, err := first.TryLock(); !mine || err != nil {
		t.Errorf("the first lock: %v, %v; expected it", mine, err)
	}
	if mine, err := second.TryLock(); mine || err != nil {
		t.Errorf("the second lock: %v, %v; expected none, and no error", mine, err)
	}
}
