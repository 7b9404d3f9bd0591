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

// File is one file of a source table. Its contents are on the local disk or in memory. If they were fetched from a
// bucket, URI says from where.
type File struct {
	URI        string // name for messages and the manifest
	Path       string // where it can be read
	Contents   []byte // of text that is in memory; Path is then empty
	Bytes      int64
	Generation int64       // of an object in a bucket
	Checksum   string      // of the contents, if known; Fingerprint then need not read the file
	Partitions []Partition // columns that the file's folders give
}

// MaxFiles is the most files of a source. A search of a whole disk or bucket ends there.
const MaxFiles = 100_000

// Expand lists the files of a local source, sorted by name. pattern is a file, a folder or a glob. Of a folder, and of
// each folder that a glob matches, it lists the files in and below it whose names have a table's suffix. There, names
// that begin with '.' or '_', such as Spark's _SUCCESS and _temporary, are skipped. If there is no file, the error is
// of kind NotFound.
func Expand(pattern string) ([]File, error) {
	if err := dataset.CheckPlace(pattern); err != nil {
		return nil, err
	}
	source := dataset.SourceSpec{Files: []string{filepath.Clean(pattern)}}
	return ExpandPlace(source.Places(time.Time{})[0]) // the day matters to {date:...} marks alone
}

// ExpandPlace does the same as Expand for a place of a source. A name that exists is taken as it is, even if it could
// be a glob.
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
		return Sorted(l.files), nil // a walk has the files in a/ before a.csv
	case !strings.ContainsAny(place.Pattern, "*?["):
		if errors.Is(err, fs.ErrNotExist) {
			return nil, problem.New(problem.NotFound, "%s: no such file or folder", place.Pattern)
		}
		return nil, &InputError{File: place.Pattern, Msg: "the file cannot be inspected", Err: underlying(err)}
	}

	// The name does not exist, so it is a glob.
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

// Sorted sorts files by name, which is the order of their rows in a table, and returns them without duplicates. Of two
// entries of the same file, it keeps the one with more columns from folders. It changes the given slice.
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

// lister collects the files of a source.
type lister struct {
	fixed string // the part of the files' names before the folders that may be columns
	root  string // the folder that is being searched
	files []File // found so far
}

// addPath adds a file, or the tables in and below a folder; info is of path. Folders NAME=VALUE in the path are columns
// of the file. A pipe or a device is an error, as tables are read twice.
func (l *lister) addPath(path string, info fs.FileInfo) error {
	if info.IsDir() {
		l.root = path
		return filepath.WalkDir(path, l.visit)
	}

	// A pipe may block, and a device may never end.
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

// visit adds a file that filepath.WalkDir finds below a folder, if its name is a table's. Hidden files and folders are
// skipped. A link to a file is followed. A link to a folder is an error, so that its files are not left out in silence.
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

// hidden reports whether a search skips a name, given without its folder.
func hidden(name string) bool { return name[0] == '_' || name[0] == '.' && name != "." && name != ".." }

// isTable reports whether a search takes a file for a table, by its name. A .json may be anything, so it has to be
// named in the source.
func isTable(name string) bool { return slices.Contains(tableSuffixes(), Suffix(name)) }

func tableSuffixes() []string {
	return []string{".csv", ".tsv", ".tab", ".parquet", ".pq", ".jsonl", ".ndjson"}
}

// Matches reports whether an object in a bucket belongs to the source pattern, which is a name, a glob or a folder. The
// rules are those of Expand for files: what is named is taken as it is, and no glob matches a hidden name.
func Matches(pattern, name string) bool {
	// The pattern names the first depth parts of the object's name; what follows is in the folder that these name.
	depth := 0
	if pattern = strings.TrimSuffix(pattern, "/"); pattern != "" {
		depth = strings.Count(pattern, "/") + 1
	}
	parts := strings.Split(name, "/")
	if len(parts) < depth || slices.ContainsFunc(parts[depth:], func(part string) bool {
		return part == "" || hidden(part)
	}) {
		return false // too short, or hidden in a folder
	}

	// The first parts are the pattern itself, which may have the characters of a glob, or match it as a glob.
	front, inside := strings.Join(parts[:depth], "/"), parts[depth:]
	if front != pattern {
		if ok, err := path.Match(pattern, front); !ok || err != nil || hidden(path.Base(front)) {
			return false
		}
	}

	// They are the object itself, or a folder that holds it.
	return len(inside) == 0 || isTable(inside[len(inside)-1])
}

// Suffix returns the suffix of a table's name in lower case, such as ".csv"; that of a compression does not count.
func Suffix(name string) string {
	name = strings.ToLower(name)
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	return filepath.Ext(name)
}

// Literal returns the part of a pattern (see Matches) before its first special character, or without one the whole
// pattern but a slash at its end: the name of every object that matches begins with it. A backslash is special, as it
// makes the next character literal.
func Literal(pattern string) string {
	if i := strings.IndexAny(pattern, "*?[\\"); i >= 0 {
		return pattern[:i]
	}
	return strings.TrimSuffix(pattern, "/")
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

// readHead returns the first 128 bytes of a file, or all of a shorter one. An empty file is an error.
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
		return "", &InputError{File: f.URI, Msg: "the file cannot be read", Err: underlying(err)}
	}
	return string(head[:n]), nil
}
