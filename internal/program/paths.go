package program

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"coppice/internal/strictyaml"
)

// CheckOutFile checks the path that flag names, before any work: its folder exists, and it is a regular file or absent.
// An output is renamed into place, which would replace a device, /dev/null even, by a file.
func CheckOutFile(flag, path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return Usagef("%s %s is a folder; give the file's name, too", flag, path)
	case err == nil && !info.Mode().IsRegular():
		return Usagef("%s %s is %s; give the name of a file", flag, path, strictyaml.Kind(info.Mode()))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Usagef("%s %s: %w", flag, path, cause(err))
	}

	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return Usagef("%s %s: folder %s does not exist", flag, path, filepath.Dir(path))
	}
	return nil
}

// CheckOutFolder checks the path that flag names: it is a folder, or absent.
func CheckOutFolder(flag, path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.Mode().IsRegular():
		return Usagef("%s %s is a file; give a folder", flag, path)
	case err == nil && !info.IsDir():
		return Usagef("%s %s is %s; give a folder", flag, path, strictyaml.Kind(info.Mode()))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Usagef("%s %s: %w", flag, path, cause(err))
	}
	return nil
}

// cause is the reason of a failed call without its name and path.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
