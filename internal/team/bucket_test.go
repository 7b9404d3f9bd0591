package team

import (
	"context"

	"coppice/internal/blob"
)

// maxObject bounds an object of a board: a list of a thousand workers.
const maxObject = 64 << 10

// Bucket is a Board in object storage.
func Bucket(s blob.Store) Board { return bucket{s} }

type bucket struct{ blob.Store }

func (b bucket) Create(ctx context.Context, name string, data []byte) error {
	_, err := blob.Create(ctx, b.Store, name, data)
	return err
}

func (b bucket) Read(ctx context.Context, name string) ([]byte, error) {
	data, _, err := blob.ReadAll(ctx, b.Store, name, maxObject)
	return data, err
}

func (b bucket) List(ctx context.Context, folder string) (names []string, err error) {
	for a, err := range b.Store.List(ctx, folder) {
		if err != nil {
			return nil, err
		}
		names = append(names, a.Name)
	}
	return names, nil
}
