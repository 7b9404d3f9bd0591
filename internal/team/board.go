package team

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"coppice/internal/atomicfile"
	"coppice/internal/blob"
)

// Board is where workers find each other: small objects that are created once and never changed. Names are slashed
// paths.
type Board interface {
	// Create writes an object, and does nothing if there is one of that name.
	Create(ctx context.Context, name string, data []byte) error
	// Read returns an object, or an error that is fs.ErrNotExist.
	Read(ctx context.Context, name string) ([]byte, error)
	// List returns the names of all objects below a folder, which ends in a slash, in any order.
	List(ctx context.Context, folder string) ([]string, error)
}

// maxObject bounds an object of a board in a bucket: the names of 256 workers.
const maxObject = 64 << 10

// Bucket is a Board below a folder of object storage, which ends in a slash.
func Bucket(s blob.Store, folder string) Board { return bucket{s, folder} }

type bucket struct {
	blob.Store
	folder string
}

func (b bucket) Create(ctx context.Context, name string, data []byte) error {
	_, err := blob.Create(ctx, b.Store, b.folder+name, data)
	return err
}

func (b bucket) Read(ctx context.Context, name string) ([]byte, error) {
	data, _, err := blob.ReadAll(ctx, b.Store, b.folder+name, maxObject)
	return data, err
}

func (b bucket) List(ctx context.Context, folder string) (names []string, err error) {
	for a, err := range b.Store.List(ctx, b.folder+folder) {
		if err != nil {
			return nil, err
		}
		names = append(names, strings.TrimPrefix(a.Name, b.folder))
	}
	return names, nil
}

// Folder is a Board of processes on one machine.
func Folder(dir string) Board { return folder(dir) }

type folder string

func (f folder) Create(_ context.Context, name string, data []byte) error {
	path := filepath.Join(string(f), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	whole, err := atomicfile.Create(path, 0o600)
	if err != nil {
		return err
	}
	defer whole.Abort() //nolint:errcheck // it removes the temporary file, whose link is what counts
	if _, err := whole.Write(data); err != nil {
		return err
	}

	// A link cannot replace a file, as a rename would, and appears with all its contents.
	err = os.Link(whole.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (f folder) Read(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(f), filepath.FromSlash(name)))
}

func (f folder) List(_ context.Context, dir string) (names []string, err error) {
	root := filepath.Join(string(f), filepath.FromSlash(dir))
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // not yet, or a temporary file that has gone
		}
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			return err
		}
		below, err := filepath.Rel(string(f), path)
		names = append(names, filepath.ToSlash(below))
		return err
	})
	return names, err
}
