package stager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"coppice/internal/atomicfile"
)

// workspace is a folder for temporary files. Its owner holds a lock in it until remove. The folder of a killed process
// is not locked; the next workspace in the same parent removes it.
type workspace struct {
	dir  string
	lock *flock.Flock
	made []string // parent folders that did not exist before, the deepest first
}

const lockFile = "lock"

// newWorkspace creates a workspace in parent, which is made if it does not exist. Its name begins with prefix. It also
// removes the workspaces of killed processes. The caller calls remove.
func newWorkspace(parent, prefix string) (*workspace, error) {
	w := &workspace{made: absent(parent)}
	sweepStale(parent, prefix)

	// Another process may remove the new folder before it is locked, as it does with a killed process's folder. Then
	// try again; a hundred times in a row nobody is that unlucky.
	for range 100 {
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

		// It is ours once it is locked, unless another process has removed it before.
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

// path returns the path of a file or folder in the workspace.
func (w *workspace) path(name string) string { return filepath.Join(w.dir, name) }

// remove removes the workspace, and the parent folders made for it if nothing else is in them. What cannot be removed
// is left to the next newWorkspace. w.made begins with the deepest folder: once one is not empty, those above are not.
func (w *workspace) remove() {
	_ = w.lock.Close()
	_ = os.RemoveAll(w.dir)
	for _, dir := range w.made {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// absent returns those of dir and the folders above it that do not exist, the deepest first.
func absent(dir string) []string {
	var out []string
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			return out
		}
		out = append(out, dir)
	}
}

// sweepStale removes the workspaces of killed processes from parent: folders with the prefix whose lock exists and is
// free. It never makes a lock itself. A folder without a lock may be anybody's, so it stays unless it is empty.
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
		// An empty folder has not been locked yet: its owner was killed before, or is about to do so and will notice.
		if os.Remove(dir) == nil {
			continue
		}

		lock := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_RDWR))
		if stale, err := lock.TryLock(); err == nil && stale {
			_ = os.RemoveAll(dir) // while the lock is held, so that no process begins to use it
		}
		_ = lock.Close()
	}
}
