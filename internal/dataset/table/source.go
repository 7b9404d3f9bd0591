package table

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/problem"
)

// File is one file of a source table. Its contents are on the local disk; if they were fetched from a bucket, URI says
// from where.
type File struct {
	URI        string // name for messages and the manifest
	Path       string // where it can be read
	Contents   []byte // of text that is in memory; Path is then empty
	Bytes      int64
	Generation int64       // of an object in a bucket
	Checksum   string      // of the contents, if known; Fingerprint then need not read the file
	Partitions []Partition // columns that the file's folders give
}

// MaxFiles bounds a source: a search of a whole disk or bucket ends there.
const MaxFiles = 100_000

// Expand lists the files of a local source, by name: the file itself, the matches of a glob, or those in a folder whose
// names have a table's suffix. Folders are searched, with those in them and those that a glob matches. Names that begin
// with '.' or '_', such as Spark's _SUCCESS and _temporary, are skipped there. If there is no file, the error is of the
// kind NotFound.
func Expand(pattern string) ([]File, error) {
	if err := dataset.CheckPlace(pattern); err != nil {
		return nil, err
	}
	source := dataset.SourceSpec{Files: []string{filepath.Clean(pattern)}}
	return ExpandPlace(source.Places(time.Time{})[0])
}

// ExpandPlace is Expand for a place of a source. A name that exists is taken as it is, even if it could be a glob. No
// file is an error of kind NotFound.
func ExpandPlace(place dataset.Place) ([]File, error) {
	l := lister{fixed: place.Fixed}
	info, err := os.Stat(place.Pattern)
	switch {
	case err == nil:
		if err := l.addPath(place.Pattern, info); err != nil {
			return nil, err
		}
		if len(l.files) == 0 {
			return nil, problem.New(problem.NotFound, "%s: no file in the folder, or in those in it, ends in %s",
				place.Pattern, strings.Join(tableSuffixes(), ", "))
		}
		return l.files, nil
	case !strings.ContainsAny(place.Pattern, "*?["):
		if errors.Is(err, fs.ErrNotExist) {
			return nil, problem.New(problem.NotFound, "%s: no such file or folder", place.Pattern)
		}
		return nil, &InputError{File: place.Pattern, Msg: "the file cannot be inspected", Err: underlying(err)}
	}

	paths, err := filepath.Glob(place.Pattern)
	if err != nil {
		return nil, problem.New(problem.NotFound, "%s: not a glob: %v", place.Pattern, err)
	}
	for _, path := range paths {
		if hidden(filepath.Base(path)) {
			continue
		}
		info, err := os.Stat(path)
		if err == nil {
			err = l.addPath(path, info)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(l.files) == 0 {
		return nil, problem.New(problem.NotFound, "%s: no file matches the glob", place.Pattern)
	}
	return Sorted(l.files), nil
}

// Sorted puts files in the order in which a table has their rows, whatever the order in which its places were listed:
// that of their names. A file that two places name is there once, with the columns of the place that gives it the most.
func Sorted(files []File) []File {
	slices.SortFunc(files, func(a, b File) int {
		return cmp.Or(strings.Compare(a.URI, b.URI), cmp.Compare(len(b.Partitions), len(a.Partitions)))
	})
	return slices.CompactFunc(files, func(a, b File) bool { return a.URI == b.URI })
}

// underlying returns err without operation and path, which the surrounding message names.
func underlying(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// lister collects local files.
type lister struct {
	fixed string // the part of their names in front of folders that are columns
	root  string // the folder that is searched
	files []File
}

// addPath adds a regular file, or the tables in and below a folder. Folders NAME=VALUE in its path are columns.
func (l *lister) addPath(path string, info fs.FileInfo) error {
	if info.IsDir() {
		l.root = path
		return filepath.WalkDir(path, l.visit)
	}

	// A pipe may block, and a device may never end; also, tables are read twice.
	if !info.Mode().IsRegular() {
		return &InputError{File: path, Msg: "neither a file nor a folder: a pipe or a device cannot be read twice; " +
			"write the table to a file"}
	}
	if len(l.files) == MaxFiles {
		return &InputError{File: path, Msg: fmt.Sprintf("a source has at most %d files", MaxFiles)}
	}
	columns, err := Partitions(l.fixed, path)
	if err != nil {
		return err
	}
	l.files = append(l.files, File{URI: path, Path: path, Bytes: info.Size(), Partitions: columns})
	return nil
}

// visit adds a table that a search finds below a folder. What is hidden is passed over; a link is followed to a file,
// and to a folder it is an error rather than left out in silence.
func (l *lister) visit(path string, e fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return &InputError{File: path, Msg: "the folder cannot be searched", Err: underlying(err)}
	case e.IsDir() && path != l.root && hidden(e.Name()):
		return fs.SkipDir
	case e.IsDir() || hidden(e.Name()) || !isTable(e.Name()):
		return nil
	}

	info, err := os.Stat(path) // of what a link leads to
	if err == nil && info.IsDir() {
		return &InputError{File: path,
			Msg: "a link to a folder, which is not followed; list that folder under `source`"}
	}
	if err != nil {
		return &InputError{File: path, Msg: "the file cannot be inspected", Err: underlying(err)}
	}
	return l.addPath(path, info)
}

// hidden reports whether a search ignores a name.
func hidden(name string) bool { return name[0] == '_' || name[0] == '.' && name != "." && name != ".." }

// isTable reports whether a file in a folder is taken for a table. A .json may be anything, so it has to be named.
func isTable(name string) bool { return slices.Contains(tableSuffixes(), Suffix(name)) }

func tableSuffixes() []string {
	return []string{".csv", ".tsv", ".tab", ".parquet", ".pq", ".jsonl", ".ndjson"}
}

// Matches reports whether pattern, a name, a glob or a folder, stands for the object called name, as it would for a
// file.
func Matches(pattern, name string) bool {
	depth := 0 // of what the pattern itself names
	if pattern = strings.TrimSuffix(pattern, "/"); pattern != "" {
		depth = strings.Count(pattern, "/") + 1
	}
	parts := strings.Split(name, "/")
	if len(parts) < depth || slices.ContainsFunc(parts[depth:], func(part string) bool {
		return part == "" || hidden(part)
	}) {
		return false
	}

	front, inside := strings.Join(parts[:depth], "/"), parts[depth:]
	if ok, err := path.Match(pattern, front); (!ok || err != nil) && front != pattern {
		return false
	}
	if len(inside) == 0 {
		return !hidden(path.Base(name))
	}
	return isTable(inside[len(inside)-1])
}

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

func (f *File) open() (io.ReadCloser, error) {
	if f.Path == "" {
		return io.NopCloser(bytes.NewReader(f.Contents)), nil
	}
	return os.Open(f.Path)
}

// readHead reads the first 128 bytes of a file, or all of a shorter one; an empty file is an error.
func readHead(f File) (string, error) {
	r, err := f.open()
	if err != nil {
		return "", err
	}
	defer r.Close()

	head := make([]byte, 128)
	n, err := io.ReadFull(r, head)
	if n == 0 && errors.Is(err, io.EOF) {
		return "", &InputError{File: f.URI, Msg: "the file is empty"}
	}

	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", &InputError{File: f.URI, Msg: "read", Err: err}
	}
	return string(head[:n]), nil
}
