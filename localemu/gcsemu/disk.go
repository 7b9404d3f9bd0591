package gcsemu

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"coppice/internal/atomicfile"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/localemu/internal/httpjson"
)

// Folders that are not buckets, whose names cannot begin with a dot.
const (
	recordsFolder = ".records" // a JSON file for every bucket and object
	oddFolder     = ".odd"     // contents of objects that cannot be under their own names
	newFolder     = ".new"     // what is being written
	formatFile    = ".format"  // JSON: the number of the layout, and the build that wrote it
)

// layout is the number of the folder's format, which formatFile holds.
const layout = 2

// checkLayout refuses a data folder whose format is of another number than this build's: it would look empty and be
// overwritten. A new folder gets the file with the number.
func (s *Server) checkLayout() error {
	if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
		return err
	}
	found := struct { // what a new folder gets; reading an existing file replaces it
		Format int    `json:"format"`
		Build  string `json:"build"` // that wrote it
	}{layout, s.opts.Version}

	text, err := strictyaml.ReadFile(s.path(formatFile))
	absent := errors.Is(err, fs.ErrNotExist)
	if absent {
		text, err = json.Marshal(found)
	} else if err == nil {
		found.Format, found.Build = 0, "of the build that wrote it" // for the message, if the file names no build
		if err = json.Unmarshal(text, &found); err == nil && found.Format == 0 {
			err = errors.New("the number of its format is missing")
		}
	}
	switch {
	case err != nil:
		return problem.As(problem.Damaged, fmt.Errorf("%s: %w", s.path(formatFile), err))
	case found.Format != layout:
		return problem.New(problem.Conflict, "its format is %d and this build reads %d: use localemu %s, which reads "+
			"it, or another --data folder", found.Format, layout, found.Build)
	case absent:
		return atomicfile.Write(s.path(formatFile), append(text, '\n'), 0o644)
	}
	return nil
}

// record is what is kept about a bucket or an object, without its contents.
type record struct {
	Bucket *bucket `json:"bucket,omitempty"`
	Object *object `json:"object,omitempty"`
	File   string  `json:"file,omitempty"` // of the object's contents, in the data folder
}

// loadRecords makes the folders and fills s.buckets from the records. It also removes what was being written when an
// earlier server ended. An object is left out if its contents or its bucket's record were removed by hand, or if its
// record names a file outside of the folder.
func (s *Server) loadRecords() error {
	if err := s.checkLayout(); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(s.opts.Dir, newFolder)); err != nil {
		return err
	}
	for _, folder := range []string{recordsFolder, oddFolder, newFolder} {
		if err := os.MkdirAll(filepath.Join(s.opts.Dir, folder), 0o755); err != nil {
			return err
		}
	}
	files, err := os.ReadDir(filepath.Join(s.opts.Dir, recordsFolder))
	if err != nil {
		return err
	}

	var objects []*object
	for _, f := range files {
		path := filepath.Join(s.opts.Dir, recordsFolder, f.Name())
		data, err := strictyaml.ReadFile(path) // with its limit of size
		if err != nil {
			return err
		}
		var r record
		err = json.Unmarshal(data, &r)
		if err == nil && (r.Object == nil) == (r.Bucket == nil) {
			err = errors.New("it has to be of a bucket or of an object")
		}
		if err != nil {
			return fmt.Errorf("%s is damaged (%w): remove it, or the whole folder", path, err)
		}
		if r.Bucket != nil {
			r.Bucket.objects = map[string]*object{}
			s.buckets[r.Bucket.Name] = r.Bucket
			continue
		}
		r.Object.file = r.File
		objects = append(objects, r.Object)
	}

	// Objects come after all buckets, to which they are added.
	for _, o := range objects {
		b := s.buckets[o.Bucket]
		info, err := os.Lstat(s.path(o.file))
		if err != nil || !info.Mode().IsRegular() || b == nil || !filepath.IsLocal(o.file) {
			continue
		}
		b.objects[o.Name] = o
		s.last = max(s.last, o.Generation)
	}
	return nil
}

// openFile opens contents to be read. They can be removed while they are open, on Windows too, where Go allows that
// only for files that are opened below a root.
func (s *Server) openFile(file string) (*os.File, error) { return os.OpenInRoot(s.opts.Dir, file) }

// path returns the full path of a file that is named relative to the data folder.
func (s *Server) path(file string) string { return filepath.Join(s.opts.Dir, file) }

// recordPath returns the path of the record of an object, or of a bucket with an empty object. It is a hash of the
// name, since names of objects may be longer than those of files.
func (s *Server) recordPath(bucket, object string) string {
	return s.path(filepath.Join(recordsFolder, fmt.Sprintf("%x.json", sha256.Sum256([]byte(bucket+"/"+object)))))
}

// writeNewRecord writes a record, of a bucket or an object, to a new file and returns its path. The caller renames it
// to recordPath.
func (s *Server) writeNewRecord(r record) (path string, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	f, err := s.newFile()
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// save writes the record of a bucket, or of an object in it.
func (s *Server) save(bucket, object string, r record) error {
	path, err := s.writeNewRecord(r)
	if err != nil {
		return err
	}
	return atomicfile.Rename(path, s.recordPath(bucket, object))
}

// makeFile makes a file for what is being written.
func (s *Server) makeFile() (*os.File, error) { return os.CreateTemp(s.path(newFolder), "") }

// isFull reports whether an error says that the disk, or the user's share of it, is full.
func isFull(err error) bool {
	const windowsDiskFull = 112
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		runtime.GOOS == "windows" && errors.Is(err, syscall.Errno(windowsDiskFull))
}

// full turns an error that says that the disk is full into one with the status 413, and returns all others as they are.
// Clients report 413 at once, the service's own status for what is too large. A status of 500 or more they would retry
// for a minute or longer, in which nothing frees space. RefusedSince tells of it, too.
func (s *Server) full(err error) error {
	if !isFull(err) {
		return err
	}
	text := fmt.Sprintf("the local cloud's disk is full: free space in %s, where %s are left (%v)", s.opts.Dir,
		humanize.IBytes(free(s.opts.Dir)), err)
	s.refused.Store(&refusal{time.Now(), text})
	return httpjson.Errorf(http.StatusRequestEntityTooLarge, "%s", text)
}

// refusal is a write that was refused as the disk was full.
type refusal struct {
	at   time.Time
	text string
}

// RefusedSince returns an error of the kind problem.Environment if a write was refused at or after a time as the disk
// was full, with the folder, the room that is left, and what to do; nil if none was.
func (s *Server) RefusedSince(t time.Time) error {
	if r := s.refused.Load(); r != nil && !r.at.Before(t) {
		return problem.New(problem.Environment, "%s", r.text)
	}
	return nil
}

// addBucket makes a new bucket's folder and record and adds it to the server. The lock is held.
func (s *Server) addBucket(b *bucket) error {
	b.objects = map[string]*object{}
	b.Created, b.Updated, b.Metageneration = time.Now().UTC(), time.Now().UTC(), 1
	if err := os.MkdirAll(s.path(b.Name), 0o755); err != nil {
		return err
	}
	if err := s.save(b.Name, "", record{Bucket: b}); err != nil {
		return err
	}
	s.buckets[b.Name] = b
	return nil
}

// deleteBucket removes an empty one. The lock is held.
func (s *Server) deleteBucket(b *bucket) error {
	delete(s.buckets, b.Name)
	return errors.Join(os.Remove(s.recordPath(b.Name, "")), os.RemoveAll(s.path(b.Name)))
}

// putContents makes the file at path the contents of the object o, which it gives a new generation and which takes the
// place of an older one of the name. On success the file has been renamed. The lock is held.
func (s *Server) putContents(o *object, path string) error {
	s.last = max(s.last+1, time.Now().UnixMicro())
	o.Generation, o.Metageneration = s.last, 1
	o.Created, o.Updated = time.Now().UTC(), time.Now().UTC()

	// place renames the contents to file. The new record is written first, under another name: if there is no room for
	// it on the disk, the object stays as it was.
	place := func(file string) error {
		o.file = file
		ready, err := s.writeNewRecord(record{Object: o, File: file})
		if err != nil {
			return err
		}
		if err := s.move(path, file); err != nil {
			s.prune(file)
			return errors.Join(err, os.Remove(ready))
		}
		return atomicfile.Rename(ready, s.recordPath(o.Bucket, o.Name))
	}

	// The contents are in a file of the object's own name if that can be one and the file system accepts it, or else in
	// the folder for odd names.
	files := []string{filepath.Join(oddFolder, strconv.FormatInt(o.Generation, 10))}
	if ownName(o.Name) {
		files = append([]string{filepath.Join(o.Bucket, filepath.FromSlash(o.Name))}, files...)
	}
	var err error
	for _, file := range files {
		if err = place(file); err == nil || isFull(err) {
			break
		}
	}
	if err != nil {
		return err
	}

	objects := s.buckets[o.Bucket].objects
	if old := objects[o.Name]; old != nil && old.file != o.file {
		s.remove(old.file)
	}
	objects[o.Name] = o
	return nil
}

// plainName matches names that no file system changes, or takes for another's: systems other than Linux know no case,
// and Windows drops dots at the end, takes a colon for a stream, and has no more than 260 characters for some programs.
var plainName = regexp.MustCompile(`^([a-z0-9_=.-]*[a-z0-9_=-]/)*[a-z0-9_=.-]*[a-z0-9_=-]$`)

// ownName reports whether an object's contents can be in a file of its name.
func ownName(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name &&
		(runtime.GOOS == "linux" || len(name) <= 150 && plainName.MatchString(name))
}

// move renames the file at path to file in the data folder, and makes the folders above it.
func (s *Server) move(path, file string) error {
	if err := os.MkdirAll(filepath.Dir(s.path(file)), 0o755); err != nil {
		return err
	}
	return os.Rename(path, s.path(file))
}

// remove removes contents, which may have been removed by hand before.
func (s *Server) remove(file string) {
	if err := os.Remove(s.path(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.opts.Log.Error("remove the contents of an object", "error", err)
	}
	s.prune(file)
}

// prune removes the folders above a file that have become empty, but not its bucket's. An object may be written later
// whose name is that of such a folder.
func (s *Server) prune(file string) {
	for dir := filepath.Dir(file); strings.ContainsRune(dir, filepath.Separator); dir = filepath.Dir(dir) {
		if syscall.Rmdir(s.path(dir)) != nil { // not os.Remove: it may be a file
			return
		}
	}
}

// delete removes an object. The lock is held.
func (s *Server) delete(o *object) error {
	if err := os.Remove(s.recordPath(o.Bucket, o.Name)); err != nil {
		return err
	}
	delete(s.buckets[o.Bucket].objects, o.Name)
	s.remove(o.file)
	return nil
}
