package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a regular file that a person named. A folder, a pipe or a device is an *Error, and so is a file that
// cannot be opened; a missing file is fs.ErrNotExist.
func Open(file string) (*os.File, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, unreadable(file, err)
	}
	if !info.Mode().IsRegular() { // opening a pipe waits for a writer, and a device may never end
		return nil, &Error{File: file, Msg: fmt.Sprintf("it is %s, not a file that can be read whole",
			Kind(info.Mode()))}
	}

	f, err := os.Open(file)
	if err != nil {
		return nil, unreadable(file, err)
	}
	return f, nil
}

// ReadFile reads a file written by a person, of at most MaxBytes, with the errors of Open.
func ReadFile(file string) ([]byte, error) { return readFile(file, MaxBytes, tooLong(file)) }

// ReadUpTo reads a file of at most limit bytes, with the errors of Open.
func ReadUpTo(file string, limit int64) ([]byte, error) {
	return readFile(file, limit, &Error{File: file, Msg: fmt.Sprintf("more than %d bytes", limit)})
}

// readFile reads a file of at most limit bytes, with the errors of Open; for a longer file it returns the error long.
func readFile(file string, limit int64, long error) ([]byte, error) {
	f, err := Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	// Room for the whole file at once: growing would take several times its size.
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(file, err)
	}
	if info.Size() > limit {
		return nil, long
	}
	text := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := text.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, unreadable(file, err)
	}
	if int64(text.Len()) > limit { // it has grown, or has no size, as in /proc
		return nil, long
	}
	return text.Bytes(), nil
}

func tooLong(file string) error {
	return &Error{File: file, Msg: fmt.Sprintf("more than the %d bytes that a specification may have", MaxBytes)}
}

// unreadable returns the error of a file that cannot be read, without the name of the failed call: a missing file stays
// fs.ErrNotExist, and all others are an *Error.
func unreadable(file string, err error) error {
	var path *fs.PathError
	switch {
	case !errors.As(err, &path):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", file, path.Err)
	}
	return &Error{File: file, Msg: path.Err.Error()}
}

// Kind names what is not a regular file: "a folder", "a pipe".
func Kind(mode fs.FileMode) string {
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
