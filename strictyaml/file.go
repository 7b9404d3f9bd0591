package strictyaml

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ReadFile reads a file written by a person: a regular file of at most MaxBytes. A folder, a pipe or a device is an *Error, and so is a
// file that cannot be opened; a missing file is fs.ErrNotExist.
func ReadFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, unreadable(file, err)
	}
	if !info.Mode().IsRegular() { // opening a pipe waits for a writer, and a device may never end
		return nil, &Error{File: file, Msg: fmt.Sprintf("it is %s, not a file that can be read whole", kindOf(info.Mode()))}
	}

	f, err := os.Open(file)
	if err != nil {
		return nil, unreadable(file, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, unreadable(file, err)
	}
	if len(text) > MaxBytes {
		return nil, tooLong(file)
	}
	return text, nil
}

func tooLong(file string) error {
	return &Error{File: file, Msg: fmt.Sprintf("more than the %d bytes that a specification may have", MaxBytes)}
}

// unreadable is the reason why a file cannot be read, without the name of the failed call.
func unreadable(file string, err error) error {
	var path *fs.PathError
	if errors.Is(err, fs.ErrNotExist) || !errors.As(err, &path) {
		return err
	}
	return &Error{File: file, Msg: path.Err.Error()}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
