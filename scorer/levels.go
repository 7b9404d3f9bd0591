package scorer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"coppice/dataset"
	"coppice/registry"
)

// The cache keeps levels that were not used for long, or the longest ago when it is full, no longer.
const (
	cacheAge   = 30 * 24 * time.Hour
	cacheBytes = 4 << 30
	cacheEnd   = ".arrow" // of a file's name, behind its checksum
)

// mapLevels maps the levels of a version from a file in the folder cache, which it fetches first where it is not there: they may be
// hundreds of megabytes, and later predictions, or others at the same time, share them. The file's name is its checksum. Where the
// cache cannot be written, the levels are in the memory of this process alone.
func mapLevels(ctx context.Context, r *registry.Registry, v registry.Version, cache string, e *dataset.Encoding) (*dataset.Levels, error) {
	f, ok := v.File(FileLevels)
	if !ok {
		return nil, nil
	}

	path := filepath.Join(cache, f.SHA256+cacheEnd)
	defer sweepCache(cache, path, time.Now())
	if whole(path, f) {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // a cache that cannot be written is not swept either
		l, err := dataset.OpenLevels(path, e.Tables)
		if !errors.Is(err, fs.ErrNotExist) { // swept by another process since
			return l, err
		}
	}

	data, err := r.ReadFile(ctx, v, FileLevels)
	if err != nil {
		return nil, err
	}
	if !keep(path, data) {
		return dataset.ReadLevels(data, e.Tables)
	}
	l, err := dataset.OpenLevels(path, e.Tables)
	if errors.Is(err, fs.ErrNotExist) {
		return dataset.ReadLevels(data, e.Tables)
	}
	return l, err
}

// keep writes a file of the cache, and reports whether it could.
func keep(path string, data []byte) bool {
	return os.MkdirAll(filepath.Dir(path), 0o700) == nil && renameio.WriteFile(path, data, 0o600) == nil
}

// sweepCache removes levels that were not used for cacheAge, and beyond cacheBytes those that were not used for the longest, but not the
// file in use. Who has mapped one keeps it. What cannot be looked at or removed stays: another process may be at it.
func sweepCache(cache, inUse string, now time.Time) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	type file struct {
		path string
		info fs.FileInfo
	}
	var files []file
	for _, entry := range entries {
		info, err := entry.Info()
		mine := strings.Contains(entry.Name(), cacheEnd) // the temporary file of a write has more behind it
		if err != nil || !mine || !info.Mode().IsRegular() {
			continue
		}
		files = append(files, file{filepath.Join(cache, entry.Name()), info})
	}
	slices.SortFunc(files, func(a, b file) int { return b.info.ModTime().Compare(a.info.ModTime()) })

	held := int64(0)
	for _, f := range files {
		held += f.info.Size()
		if f.path != inUse && (held > cacheBytes || now.Sub(f.info.ModTime()) > cacheAge) {
			held -= f.info.Size()
			os.Remove(f.path)
		}
	}
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
