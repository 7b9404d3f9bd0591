package blob

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Fetch copies an object, of exactly this generation, to a file. report is told of bytes as they come. After an error
// the file may hold a part of it.
func Fetch(ctx context.Context, s Store, o Attrs, file string, report func(int64)) error {
	r, _, err := s.Open(ctx, o.Name, Range{Generation: o.Generation})
	if err != nil {
		return err
	}
	defer r.Close()

	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()

	n, err := io.Copy(f, io.TeeReader(r, reported(report)))
	if err == nil && n != o.Size {
		err = fmt.Errorf("it ended after %d of %d bytes", n, o.Size)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// reported is told of what is written to it.
type reported func(int64)

// Write implements io.Writer.
func (r reported) Write(p []byte) (int, error) {
	r(int64(len(p)))
	return len(p), nil
}
