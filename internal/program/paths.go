package program

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"coppice/internal/strictyaml"
)

// CheckOutFile returns a usage error unless path, the value of flag, can be written: its folder exists, and it is a
// regular file or does not exist. It is called before any work is done. Devices are refused because an output is
// renamed into its place, which would replace even /dev/null by a file.
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

// CheckOutFolder returns a usage error unless path, the value of flag, is a folder or does not exist.
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
