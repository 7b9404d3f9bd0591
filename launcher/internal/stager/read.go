package stager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/sweep"
)

// maxRead bounds a file of a dataset that is read into memory.
const maxRead = 8 << 30

// File reads one file of a dataset version in the datasets bucket and verifies its checksums. A mismatch with the
// manifest is a
// *dataset.FormatError.
func File(ctx context.Context, store blob.Store, m *dataset.Manifest, name string) ([]byte, error) {
	for _, f := range m.Files {
		if f.Name != name {
			continue
		}
		data, _, err := blob.ReadAll(ctx, store, sweep.DatasetDir(m.Name, m.Version)+name, min(f.Bytes, maxRead))
		if err != nil {
			return nil, err
		}

		if int64(len(data)) != f.Bytes {
			return nil, &dataset.FormatError{File: name, Offset: -1,
				Msg: fmt.Sprintf("%d bytes where the manifest says %d", len(data), f.Bytes)}
		}

		for i := range f.Blocks {
			offset, length := f.Block(i)
			if err := f.VerifyBlock(i, data[offset:offset+length]); err != nil {
				return nil, err
			}
		}

		return data, nil
	}
	return nil, fmt.Errorf("dataset %s@%s has no %s: %w", m.Name, m.Version, name, blob.ErrNotExist)
}

// FetchTo copies a whole dataset version from the bucket into an existing folder, and verifies it. The caller opens it.
func FetchTo(ctx context.Context, store blob.Store, m *dataset.Manifest, dir string) error {
	names := []string{}
	for _, f := range m.Files {
		names = append(names, f.Name)
	}
	for _, name := range append(names, dataset.ManifestFile) { // the manifest last: it makes the folder complete
		if err := fetchFile(ctx, store, sweep.DatasetDir(m.Name, m.Version)+name,
			filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	_, err := dataset.Check(ctx, dir, nil)
	return err
}

func fetchFile(ctx context.Context, store blob.Store, object, path string) (err error) {
	r, _, err := store.Open(ctx, object, blob.Range{})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, r); err != nil {
		return fmt.Errorf("fetch %s: %w", object, err)
	}
	return nil
}
