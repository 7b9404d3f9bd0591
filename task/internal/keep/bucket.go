package keep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"coppice/blob"
	"coppice/gbt"
)

// Bucket is a Place below a folder of an object store. A store cannot delete (package blob), so an object that is dropped
// becomes empty, and names are used again.
type Bucket struct {
	Store  blob.Store
	Folder string // with the slash
}

// List names the objects that hold something.
func (b Bucket) List(ctx context.Context) ([]string, error) {
	var names []string
	for attrs, err := range b.Store.List(ctx, b.Folder) {
		if err != nil {
			return nil, err
		}
		if attrs.Size > 0 {
			names = append(names, attrs.Name)
		}
	}
	return names, nil
}

// Read gives the object, if it is not longer than a checkpoint can be.
func (b Bucket) Read(ctx context.Context, name string) ([]byte, error) {
	data, _, err := blob.ReadAll(ctx, b.Store, name, gbt.MaxCheckpointBytes)
	if errors.Is(err, blob.ErrTooLong) {
		return nil, nil // which is no checkpoint
	}
	return data, err
}

// Write replaces the object and asks the store what it has there now: as many bytes, with the same checksum.
func (b Bucket) Write(ctx context.Context, name string, data []byte) error {
	if _, err := b.Store.Put(ctx, name, blob.Any, bytes.NewReader(data)); err != nil {
		return err
	}
	attrs, err := b.Store.Stat(ctx, name)
	if err != nil {
		return err
	}
	if sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); attrs.Size != int64(len(data)) || attrs.CRC32C != sum {
		return fmt.Errorf("%s: the store has %d bytes with checksum %08x, written were %d with %08x", name, attrs.Size, attrs.CRC32C, len(data), sum)
	}
	return nil
}

// Drop empties the object.
func (b Bucket) Drop(ctx context.Context, name string) error {
	_, err := b.Store.Put(ctx, name, blob.Any, bytes.NewReader(nil))
	return err
}
