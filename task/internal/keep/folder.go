package keep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"coppice/gbt"
)

// FolderPrefix is the Prefix of a keeper in a folder.
const FolderPrefix = "checkpoint-"

const lockFile = ".lock"

// Folder is a Place for one training at a time: a directory of files.
type Folder struct {
	dir  string
	lock *flock.Flock
}

// BusyError is a folder in which another process keeps its checkpoints.
type BusyError struct{ Dir string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("another training keeps its checkpoints in %s now; wait for its end or use another folder", e.Dir)
}

// IsConflict says that somebody else is at it.
func (*BusyError) IsConflict() bool { return true }

// OpenFolder makes the folder if it is not there and locks it; the lock ends with the process, however that ends. It is a
// *BusyError when another process has it.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, lock: flock.New(filepath.Join(dir, lockFile))}
	locked, err := f.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the folder of checkpoints: %w", err)
	}
	if !locked {
		return nil, &BusyError{dir}
	}
	return f, nil
}

// Close unlocks the folder.
func (f *Folder) Close() error { return f.lock.Close() }

// List names the checkpoints, and removes what a killed process has left half written.
func (f *Folder) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}

	var names []string
	for _, e := range entries {
		switch name := e.Name(); {
		case unfinished(name):
			if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}

		case ours(name) && e.Type().IsRegular():
			names = append(names, name)
		}
	}

	slices.Sort(names)
	return names, nil
}

// ours says whether a keeper in a folder may have given a file this name. Others' files stay as they are.
func ours(name string) bool {
	slot, ok := strings.CutPrefix(name, FolderPrefix)
	return ok && len(slot) == 1 && slot >= "0" && slot < strconv.Itoa(slots)
}

// unfinished says whether it is the name of one that was being written: a dot in front, random digits behind.
func unfinished(name string) bool {
	rest, ok := strings.CutPrefix(name, "."+FolderPrefix)
	return ok && len(rest) > 1 && ours(FolderPrefix+rest[:1]) && strings.Trim(rest[1:], "0123456789") == ""
}

// Read reads the file, if it is not longer than a checkpoint can be.
func (f *Folder) Read(_ context.Context, name string) ([]byte, error) {
	path := filepath.Join(f.dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > gbt.MaxCheckpointBytes {
		return nil, nil // which is no checkpoint
	}
	return os.ReadFile(path)
}

// Write replaces the file when the whole of it is on the disk, makes the new name last, and reads it again.
func (f *Folder) Write(_ context.Context, name string, data []byte) error {
	path := filepath.Join(f.dir, name)
	if err := renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(f.dir)); err != nil {
		return err
	}
	if err := f.sync(); err != nil {
		return err
	}
	written, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	if !bytes.Equal(written, data) {
		return fmt.Errorf("%s: the disk gives other bytes than were written", path)
	}
	return nil
}

func (f *Folder) sync() error {
	d, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Drop removes the file.
func (f *Folder) Drop(_ context.Context, name string) error {
	err := os.Remove(filepath.Join(f.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
