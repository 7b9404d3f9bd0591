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

	"coppice/internal/atomicfile"
	"coppice/internal/dataset"
	"coppice/internal/registry"
)

// The cache drops levels that have not been used for cacheAge or, if it is full, the least recently used ones.
const (
	cacheAge   = 30 * 24 * time.Hour
	cacheBytes = 4 << 30
	cacheEnd   = ".arrow" // suffix of a file's name, after its checksum
)

// mapLevels maps the levels of a version from a file in the folder cache, fetching it first if necessary: they may be
// hundreds of megabytes, and are shared with later and concurrent predictions. The file's name is its checksum. If the
// cache cannot be written, the levels are kept in this process's memory.
func mapLevels(ctx context.Context, r *registry.Registry, v registry.Version, cache string,
	e *dataset.Encoding) (*dataset.Levels, error) {
	f, ok := v.File(FileLevels)
	if !ok {
		return nil, nil
	}

	path := filepath.Join(cache, f.SHA256+cacheEnd)
	defer sweepCache(cache, path, time.Now())
	if isWhole(path, f) {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // a cache that cannot be written is not swept either
		l, err := dataset.OpenLevels(path, e.Tables)
		if !errors.Is(err, fs.ErrNotExist) { // swept by another process meanwhile
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

// keep writes a file into the cache, and reports whether it succeeded.
func keep(path string, data []byte) bool {
	return os.MkdirAll(filepath.Dir(path), 0o700) == nil && atomicfile.Write(path, data, 0o600) == nil
}

// sweepCache removes levels that have not been used for cacheAge and, beyond cacheBytes, the least recently used ones,
// except the file in use. Processes that have mapped a file keep it. Errors are ignored: another process may be
// sweeping, too.
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
		mine := strings.Contains(entry.Name(), cacheEnd) // the temporary file of a write has a longer suffix
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

// isWhole reports whether the file at path equals the registered one.
func isWhole(path string, f registry.File) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	return err == nil && n == f.Bytes && hex.EncodeToString(hash.Sum(nil)) == f.SHA256
}
