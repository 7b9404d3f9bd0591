package team

import (
	"context"
	"strings"

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
