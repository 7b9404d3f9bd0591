package table

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"coppice/internal/problem"
)

// File is one file of a source table. Its contents are on the local disk; if they were fetched from a bucket, URI says
// from where.
type File struct {
	URI        string // name for messages and the manifest
	Path       string // where it can be read
	Bytes      int64
	Generation int64  // of an object in a bucket
	Checksum   string // of the contents, if known; Fingerprint then need not read the file
}

// Expand lists the files of a local source, by name: the file itself, the matches of a glob, or those directly in a
// folder whose names have a table's suffix. Names that begin with '.' or '_', such as Spark's _SUCCESS, are skipped in
// globs and folders. If there is no file, the error is of the kind NotFound.
func Expand(pattern string) ([]File, error) {
	info, err := os.Stat(pattern)
	switch {
	case err == nil && info.IsDir():
		return expandFolder(pattern)
	// a pipe may block, and a device may never end; also, tables are read twice
	case err == nil && !info.Mode().IsRegular():
		return nil, &InputError{File: pattern, Msg: "neither a file nor a folder: a pipe or a device cannot be read " +
			"twice; write the table to a file"}
	case err == nil:
		return []File{{URI: pattern, Path: pattern, Bytes: info.Size()}}, nil
	case !strings.ContainsAny(pattern, "*?["):
		if errors.Is(err, fs.ErrNotExist) {
			return nil, problem.New(problem.NotFound, "%s: no such file or folder", pattern)
		}
		return nil, &InputError{File: pattern, Msg: "the file cannot be inspected", Err: underlying(err)}
	}

	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, problem.New(problem.NotFound, "%s: not a glob: %v", pattern, err)
	}

	return listFiles(pattern, paths, "no file matches the glob")
}

// underlying returns err without operation and path, which the surrounding message names.
func underlying(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func expandFolder(folder string) ([]File, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if slices.Contains(tableSuffixes(), Suffix(e.Name())) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return listFiles(folder, paths,
		fmt.Sprintf("the folder has no file that ends in %s (folders in it are not searched)",
			strings.Join(tableSuffixes(), ", ")))
}

func listFiles(pattern string, paths []string, none string) ([]File, error) {
	slices.Sort(paths)
	var files []File
	for _, path := range paths {
		if base := filepath.Base(path); base[0] == '.' || base[0] == '_' {
			continue
		}

		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			files = append(files, File{URI: path, Path: path, Bytes: info.Size()})
		}
	}

	if len(files) == 0 {
		return nil, problem.New(problem.NotFound, "%s: %s", pattern, none)
	}
	return files, nil
}

func tableSuffixes() []string { return []string{".csv", ".tsv", ".tab", ".parquet", ".pq"} }

// Suffix returns the lower-case suffix of a table's name, without that of a compression.
func Suffix(name string) string {
	name = strings.ToLower(name)
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	return filepath.Ext(name)
}

// Magic numbers of formats.
const (
	magicParquet = "PAR1"
	magicSecret  = "PARE" // Parquet with an encrypted footer
	magicGzip    = "\x1f\x8b"
	magicZstd    = "\x28\xb5\x2f\xfd"
)

// sniff reads the first bytes of a file.
func sniff(f File) (string, error) {
	r, err := os.Open(f.Path)
	if err != nil {
		return "", err
	}
	defer r.Close()

	head := make([]byte, 10)
	n, err := io.ReadFull(r, head)
	if n == 0 && errors.Is(err, io.EOF) {
		return "", &InputError{File: f.URI, Msg: "the file is empty"}
	}

	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", &InputError{File: f.URI, Msg: "read", Err: err}
	}
	return string(head[:n]), nil
}
