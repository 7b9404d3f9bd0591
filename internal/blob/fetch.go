package blob

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Fetch copies the object that o describes, at exactly that generation, to a file, which it creates or overwrites.
// report is called with the number of bytes of each piece that arrives. After an error the file may hold a part of the
// object.
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

	n, err := io.Copy(f, io.TeeReader(r, Reported(report)))
	if err == nil && n != o.Size {
		err = fmt.Errorf("it ended after %d of %d bytes", n, o.Size)
	}
	if err != nil {
		return err
	}
	return f.Close() // which may report that the disk is full; the deferred one does nothing then
}

// Reported is told of how many bytes are written to it.
type Reported func(int64)

// Write implements io.Writer.
func (r Reported) Write(p []byte) (int, error) {
	r(int64(len(p)))
	return len(p), nil
}
