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

// Limits of the cache folder: files are removed that have not been used for cacheAge and, if all together have more
// than cacheBytes, those that have not been used for the longest time.
const (
	cacheAge   = 30 * 24 * time.Hour
	cacheBytes = 4 << 30
	cacheEnd   = ".arrow" // what a file's name ends in, after its checksum
)

// mapLevels returns the levels of a version, mapped from a file in the folder cache; nil if the version has none. The
// file is fetched first if it is not there. Levels may be hundreds of megabytes; as a mapped file, later and concurrent
// predictions share them. The file's name is its checksum. If the folder cannot be written, the levels are in this
// process's memory instead. In the end, mapLevels sweeps the cache.
func mapLevels(ctx context.Context, r *registry.Registry, v registry.Version, cache string,
	e *dataset.Encoding) (*dataset.Levels, error) {
	f, ok := v.File(FileLevels)
	if !ok {
		return nil, nil
	}

	path := filepath.Join(cache, f.SHA256+cacheEnd)
	defer sweepCache(cache, path, time.Now())

	// Use the file if it is there, and set its time of last use. Another process may remove it meanwhile.
	if isWhole(path, f) {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // if this fails, the cache cannot be written, and so is not swept either
		l, err := dataset.OpenLevels(path, e.Tables)
		if !errors.Is(err, fs.ErrNotExist) { // else it was removed meanwhile
			return l, err
		}
	}

	// Fetch it. If it cannot be written, or is removed again at once, use the bytes in memory.
	data, err := r.ReadFile(ctx, v, FileLevels)
	if err != nil {
		return nil, err
	}
	if !writeToCache(path, data) {
		return dataset.ReadLevels(data, e.Tables)
	}
	l, err := dataset.OpenLevels(path, e.Tables)
	if errors.Is(err, fs.ErrNotExist) {
		return dataset.ReadLevels(data, e.Tables)
	}
	return l, err
}

// writeToCache writes a file into the cache folder, which it creates if necessary, and reports whether it succeeded.
func writeToCache(path string, data []byte) bool {
	return os.MkdirAll(filepath.Dir(path), 0o700) == nil && atomicfile.Write(path, data, 0o600) == nil
}

// sweepCache removes the files of the cache folder that are beyond its limits, but not the one in use. Processes that
// have mapped a removed file can go on using it. Errors are ignored: another process may be sweeping, too.
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

	// Go from the file that was used last to the one that was not used for the longest time.
	slices.SortFunc(files, func(a, b file) int { return b.info.ModTime().Compare(a.info.ModTime()) })
	held := int64(0) // bytes of the files that are kept
	for _, f := range files {
		held += f.info.Size()
		if f.path != inUse && (held > cacheBytes || now.Sub(f.info.ModTime()) > cacheAge) {
			held -= f.info.Size() // so a smaller file, used even longer ago, may still fit
			os.Remove(f.path)
		}
	}
}

// isWhole reports whether there is a file at path with the size and checksum of the registered one.
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
