// Package atomicfile replaces files whole: whoever opens one, even after a crash, sees the old contents or all of the
// new ones. Renaming does that on Unix and on Windows; there, readers can hold it up (see Rename).
package atomicfile

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// Pending is a file that is being written, in the same folder as the one that it will replace. Commit or Abort ends it.
type Pending struct {
	*os.File
	path  string
	ended bool
}

// Create begins to write the file at path, whose folder must exist, under a temporary name in the same folder: with a
// dot in front and random digits at the end. If a regular file is there already, the new one gets its permissions;
// otherwise they are perm, without what the user's umask takes away. The caller ends it by Commit or Abort.
func Create(path string, perm fs.FileMode) (*Pending, error) {
	old, err := os.Lstat(path)
	kept := err == nil && old.Mode().IsRegular()
	if kept {
		perm = old.Mode().Perm()
	}
	for {
		name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+strconv.FormatUint(rand.Uint64(), 10))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if errors.Is(err, fs.ErrExist) {
			continue // another file has drawn the same digits
		}
		if err == nil && kept {
			err = f.Chmod(perm) // OpenFile has applied the umask
		}
		if err != nil && f != nil {
			err = errors.Join(err, f.Close(), os.Remove(name))
		}
		if inner, ok := errors.AsType[*fs.PathError](err); ok {
			inner.Path = path // the caller does not know the temporary name
		}
		if err != nil {
			return nil, err
		}
		return &Pending{File: f, path: path}, nil
	}
}

// Commit makes sure that the contents are on disk, closes the file and renames it to its place. After an error the old
// file is still there, and Abort removes the new one.
func (f *Pending) Commit() error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := Rename(f.Name(), f.path); err != nil {
		return err
	}
	f.ended = true
	return nil
}

// Abort closes and removes the temporary file. After a successful Commit, or a second time, it does nothing, so that it
// can be deferred.
func (f *Pending) Abort() error {
	if f.ended {
		return nil
	}
	f.ended = true
	_ = f.Close() // Commit may have closed it
	return os.Remove(f.Name())
}

// Write replaces the file at path, as Create and Commit do.
func Write(path string, data []byte, perm fs.FileMode) (err error) {
	f, err := Create(path, perm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Abort()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}
