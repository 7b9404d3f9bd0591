package keep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"coppice/internal/atomicfile"
	"coppice/internal/gbt"
	"coppice/internal/problem"
)

// FolderPrefix is the Prefix of a Keeper that saves to a Folder.
const FolderPrefix = "checkpoint-"

const lockFile = ".lock"

// Folder is a Place on the local disk, for one training at a time.
type Folder struct {
	dir  string
	lock *flock.Flock
}

// OpenFolder creates the folder if necessary and locks it until Close or the end of the process. A
// folder that another process is saving to is a conflict.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, lock: atomicfile.NewLock(filepath.Join(dir, lockFile))}
	locked, err := f.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the folder of checkpoints: %w", err)
	}
	if !locked {
		return nil, problem.New(problem.Conflict, "another training is using %s for its checkpoints; wait until it "+
			"ends or use another folder", dir)
	}
	return f, nil
}

// Close unlocks the folder.
func (f *Folder) Close() error { return f.lock.Close() }

// List names the checkpoints, and removes files that a killed process left half written.
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

// ours reports whether name has the form that a Keeper gives its files here. Other files are left alone.
func ours(name string) bool {
	slot, ok := strings.CutPrefix(name, FolderPrefix)
	return ok && len(slot) == 1 && slot >= "0" && slot < strconv.Itoa(slots)
}

// unfinished reports whether name is that of a file being written: a leading dot and random trailing digits.
func unfinished(name string) bool {
	rest, ok := strings.CutPrefix(name, "."+FolderPrefix)
	return ok && len(rest) > 1 && ours(FolderPrefix+rest[:1]) && strings.Trim(rest[1:], "0123456789") == ""
}

// Read reads the file, unless it is too long to be a checkpoint.
func (f *Folder) Read(_ context.Context, name string) ([]byte, error) {
	path := filepath.Join(f.dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > gbt.MaxCheckpointBytes {
		return nil, nil // too long: not a checkpoint
	}
	return os.ReadFile(path)
}

// Write replaces the file atomically, syncs file and folder, and reads the file back.
func (f *Folder) Write(_ context.Context, name string, data []byte) error {
	path := filepath.Join(f.dir, name)
	if err := atomicfile.Write(path, data, 0o644); err != nil {
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
		return fmt.Errorf("%s: the disk returns other bytes than were written", path)
	}
	return nil
}

func (f *Folder) sync() error {
	if runtime.GOOS == "windows" { // it looks after folders itself
		return nil
	}
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
