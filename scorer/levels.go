package scorer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"coppice/dataset"
	"coppice/registry"
)

// mapLevels maps the levels of a version from a file in the folder cache, which it fetches first where it is not there: they may be
// hundreds of megabytes, and later predictions, or others at the same time, share them. The file's name is its checksum.
func mapLevels(ctx context.Context, r *registry.Registry, v registry.Version, cache string, e *dataset.Encoding) (*dataset.Levels, error) {
	f, ok := v.File(FileLevels)
	if !ok {
		return nil, nil
	}
	path := filepath.Join(cache, f.SHA256+".arrow")
	if !whole(path, f) {
		data, err := r.ReadFile(ctx, v, FileLevels)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(cache, 0o700); err != nil {
			return nil, err
		}
		if err := renameio.WriteFile(path, data, 0o600); err != nil {
			return nil, err
		}
	}
	return dataset.OpenLevels(path, e.Tables)
}

// whole reports whether the file at path is what was registered.
func whole(path string, f registry.File) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	return err == nil && n == f.Bytes && hex.EncodeToString(hash.Sum(nil)) == f.SHA256
}
