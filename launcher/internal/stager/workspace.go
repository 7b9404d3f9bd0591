package stager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"coppice/internal/atomicfile"
)

// workspace is a folder for temporary files. Its owner holds a lock in it; the folder of a killed process is not
// locked, and the next workspace in the same place removes it.
type workspace struct {
	dir  string
	lock *flock.Flock
	made []string // created parent folders, deepest first
}

const lockFile = "lock"

// newWorkspace creates a workspace in parent, which need not exist, with a name that begins with prefix.
func newWorkspace(parent, prefix string) (*workspace, error) {
	w := &workspace{made: absent(parent)}
	sweepStale(parent, prefix)

	for range 100 { // a sweeper may take a fresh folder before it is locked
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return nil, fmt.Errorf("make a folder to work in: %w", err)
		}
		dir, err := os.MkdirTemp(parent, prefix)
		if os.IsNotExist(err) {
			continue // another process removed the empty parent
		}
		if err != nil {
			return nil, fmt.Errorf("make a folder to work in: %w", err)
		}

		// It is ours once it is locked, unless a sweeper was faster.
		w.dir = dir
		w.lock = atomicfile.NewLock(filepath.Join(dir, lockFile))
		if mine, err := w.lock.TryLock(); err == nil && mine {
			if _, err := os.Stat(w.lock.Path()); err == nil {
				return w, nil
			}
		} else if err != nil && !os.IsNotExist(err) {
			w.remove()
			return nil, fmt.Errorf("lock the folder to work in: %w", err)
		}
		_ = w.lock.Close()
	}
	return nil, fmt.Errorf("make a folder to work in: others keep removing those in %s", parent)
}

// path is a file or folder in the workspace.
func (w *workspace) path(name string) string { return filepath.Join(w.dir, name) }

// remove removes the workspace, and the folders made for it where nothing else is in them. What cannot be removed is
// left to the next sweep.
func (w *workspace) remove() {
	_ = w.lock.Close()
	_ = os.RemoveAll(w.dir)
	for _, dir := range w.made {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// absent lists dir and the folders above it that do not exist, the deepest first.
func absent(dir string) []string {
	var out []string
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			return out
		}
		out = append(out, dir)
	}
}

// sweepStale removes the workspaces of processes that are gone: those whose lock is there and free. It never makes a
// lock itself, so a folder without one, which may be anybody's, stays unless it is empty.
func sweepStale(parent, prefix string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}

	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}

		dir := filepath.Join(parent, e.Name())
		if os.Remove(dir) == nil { // made, and not yet locked when its owner was killed, or about to: the owner notices
			continue
		}

		lock := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_RDWR))
		if stale, err := lock.TryLock(); err == nil && stale {
			_ = os.RemoveAll(dir) // while the lock is held, so that no process begins to use it
		}
		_ = lock.Close()
	}
}
