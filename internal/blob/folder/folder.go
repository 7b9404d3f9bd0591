// Package folder is a blob.Store over a folder: of one machine, or one that many share by NFS or Lustre. An object is a
// directory. In it the name of an empty file, the mark, says which version is current:
//
//	bucket-1/                              the number of this layout
//	  objects/sweeps/a1/plan.json@/        an object
//	    1790000000000001.1790000000000000.512.9ae3f0c1.ID   mark: generation, the one before, size, CRC32C, writer
//	    1790000000000000.ID                contents: the generation before, writer
//	  new/ID/                              what is being written
//
// Contents are whole and on disk before one rename shows them, and that rename is the condition, too. To create is to
// rename a directory with mark and contents to the object's place: none replaces one that is not empty, so there is one
// creator. To replace is to move the contents into the object, and to rename the mark of the generation that was seen
// to that of the next: of all who saw it, one finds it. IDs are random, so no mark comes again, however long a writer
// has slept. A reader whose contents go before it has opened them looks again. So a process may die, or be cut off,
// between any two calls: it has written all or nothing. What it leaves another writer removes a day later: contents
// beside an object once they can no longer follow its generation; those in new by renaming their directory first, so
// that a writer that still lives gets an error.
//
// Required of the file system: renaming is one step for all machines, and opening a directory shows what others have
// renamed. So do local disks, Lustre, and NFS from version 4.1 with default options. With NFS's `nocto`, or a server
// that counts changes by its clock, a reader may see an older version for up to acdirmax seconds; no write is lost. NFS
// 3 and 4.0 may repeat a rename whose answer was lost: it is recognised, unless another write has followed; then the
// writer is told that it has lost. On Lustre a file's time, Attrs.Updated, is the writer's: keep clocks in step. A file
// server keeps what it has confirmed; of a local disk a power failure may take the writes of its last seconds.
package folder

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/problem"
)

const (
	layout          = "bucket-1"     // the directory that has the others, and the layout's number
	objectEnd       = "@"            // of a directory's name: it is an object; encoded names do not have it
	partEnd         = "+"            // the name goes on below
	longest         = 200            // part of a name: file systems take 255 bytes
	looks           = 12             // at an object that is being replaced: for about two seconds
	together        = 16             // looks of a listing, since a file server takes its time
	abandoned       = 24 * time.Hour // since when nobody has written to what is removed
	objects, drafts = "objects", "new"
)

// Bucket returns the Store in a folder. Its first use makes an empty folder a bucket, and refuses one that holds
// anything else or has another layout.
func Bucket(dir string) blob.Store { return &bucket{dir: dir} }

type bucket struct {
	dir    string
	mu     sync.Mutex
	opened fileSystem // the layout's directory; nil before
	tidied sync.Once
}

// fileSystem is *os.Root, which no symbolic link leaves, or a test's that fails.
type fileSystem interface { //nolint:interfacebloat // what is used of *os.Root
	FS() fs.FS
	Create(name string) (*os.File, error)
	MkdirAll(name string, perm fs.FileMode) error
	Lstat(name string) (fs.FileInfo, error)
	OpenRoot(name string) (*os.Root, error)
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
	WriteFile(name string, data []byte, perm fs.FileMode) error
}

// root returns the directory of the layout (bucket-1) in the bucket's folder. The first call opens it, and makes it in
// an empty folder; hidden files do not count, since file servers make some. After an error the next call tries again,
// since the folder may be mounted later.
func (b *bucket) root() (fileSystem, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened != nil {
		return b.opened, nil
	}
	outer, err := os.OpenRoot(b.dir)
	if err != nil {
		return nil, problem.New(problem.Environment, "%v: name a folder that all machines see", err)
	}
	defer outer.Close()
	files, _ := fs.Glob(outer.FS(), "[^.]*")
	if len(files) > 0 && !slices.Contains(files, layout) {
		return nil, problem.New(problem.Conflict, "it holds %.60q and no %s: name an empty folder, or use the build "+
			"that wrote it", files[0], layout)
	}
	err = outer.MkdirAll(path.Join(layout, objects), 0o777)
	root, openErr := outer.OpenRoot(layout)
	if err = cmp.Or(err, openErr); err == nil {
		b.opened = root
	}
	return b.opened, err
}

// odd is what a name may not have on each system. Some take capitals for small letters, and drop a dot at the end.
var odd = regexp.MustCompile(`[^a-z0-9_=.-]|^\.|\.$`)

// encode returns the directory of an object: "a/b" is in objects/a/b@.
func encode(name string) string { return encodeFolder(name+"/") + objectEnd }

// encodeFolder returns the directory in which all objects are whose names begin with the parts of name before its last
// slash. Characters that not every file system keeps apart are escaped by %, byte by byte. A part that is too long for
// a file system is cut into several directories, of which all but the last end in partEnd.
func encodeFolder(name string) string {
	dir, parts := objects, strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		part = odd.ReplaceAllStringFunc(part, func(c string) string { // é becomes %c3%a9
			return "%" + strings.ReplaceAll(fmt.Sprintf("% x", c), " ", "%")
		})
		for ; len(part) > longest; part = part[longest:] {
			dir = path.Join(dir, part[:longest]+partEnd)
		}
		dir = path.Join(dir, part)
	}
	return dir
}

// decode returns the name of the object whose directory dir is, as encode writes it. ok is false for any other
// directory.
func decode(dir string) (name string, ok bool) {
	escaped := strings.TrimSuffix(strings.TrimPrefix(dir, objects+"/"), objectEnd)
	name, err := url.PathUnescape(strings.ReplaceAll(escaped, partEnd+"/", ""))
	return name, err == nil && blob.ValidName(name) == nil && encode(name) == dir
}

// URL is how people name an object of any bucket, or the bucket itself if the name is empty.
func URL(bucket, name string) string {
	if !filepath.IsAbs(bucket) {
		return strings.TrimSuffix("gs://"+bucket+"/"+name, "/")
	} else if name == "" {
		return bucket
	}
	return filepath.Join(bucket, layout, encode(name))
}

// version is one generation of an object.
type version struct {
	blob.Attrs
	base   blob.Generation // the one before, 0 for the first
	id     string          // of the write
	strays []string        // beside it: contents that will never be an object's
}

func newID() string { return strings.ToLower(rand.Text()) }

// contents returns the name of the file with the version's bytes.
func (v version) contents() string { return fmt.Sprintf("%d.%s", v.base, v.id) }

// mark returns the name of the empty file that makes the version the current one.
func (v version) mark() string {
	return fmt.Sprintf("%d.%d.%d.%08x.%s", v.Generation, v.base, v.Size, v.CRC32C, v.id)
}

// parseMark reads the name of a mark. It also reads that of contents, which does not tell the generation: then that is
// 0. ok is false for any other name.
func parseMark(file string) (v version, ok bool) {
	n, _ := fmt.Sscanf(file, "%d.%d.%d.%x.%s", &v.Generation, &v.base, &v.Size, &v.CRC32C, &v.id)
	if n < 5 {
		v = version{}
		_, _ = fmt.Sscanf(file, "%d.%s", &v.base, &v.id)
	}
	// Sscanf also takes other forms of numbers, so the name has to be exactly what these numbers give.
	ours := file == v.contents() || file == v.mark() && v.Generation > v.base
	return v, ours && v.base >= 0 && v.Size >= 0 && v.id != "" && !strings.Contains(v.id, ".")
}

// readCurrent returns the current version of an object, with Generation 0 if there is none. If open is true, it also
// returns the open file of its contents, which the caller closes. While an object is being replaced, it is not whole
// for a moment; then it is looked at again, for about two seconds, after which it counts as damaged.
func (b *bucket) readCurrent(ctx context.Context, name string, open bool) (v version, f *os.File, err error) {
	root, err := b.root()
	if err = cmp.Or(blob.ValidName(name), ctx.Err(), err); err != nil {
		return version{}, nil, err
	}
	for try := range looks {
		v, f, err = tryReadCurrent(root, encode(name), open)
		v.Name = name
		// A file that is gone, or stale on a file server, belonged to an object that is being replaced or removed.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE) {
			return v, f, err
		}
		time.Sleep(time.Millisecond << try / 2) // (1 << try) / 2 ms: twice as long each time
	}
	return version{}, nil, problem.New(problem.Damaged, "not whole: %v: remove its directory, %s", err, encode(name))
}

// tryReadCurrent looks once at the object in the directory place. Without such a directory the version is zero. An
// object that is being replaced may give an error that a file does not exist; then the caller looks again. With open, f
// is the open file of the contents. The version also lists strays: contents that can never become current, because the
// object has gone past the generation that they follow.
func tryReadCurrent(root fileSystem, place string, open bool) (now version, f *os.File, err error) {
	dir, err := root.OpenRoot(place)
	if errors.Is(err, fs.ErrNotExist) {
		return version{}, nil, nil
	} else if err != nil {
		return version{}, nil, err
	}
	defer dir.Close()
	files, err := namesIn(dir)

	// The newest mark is current. While a mark is being renamed, a listing may show both names, or neither.
	for _, file := range files {
		if v, ok := parseMark(file); ok && v.Generation > now.Generation {
			now = v
		}
	}
	for _, file := range files {
		if v, ok := parseMark(file); ok && v.Generation == 0 && v.base < now.Generation && file != now.contents() {
			now.strays = append(now.strays, path.Join(place, file))
		}
	}

	// Without a mark, now is zero, and no file has the name of its contents.
	info, statErr := dir.Lstat(now.contents())
	if err = cmp.Or(err, statErr); err != nil {
		return version{}, nil, err
	} else if !info.Mode().IsRegular() || info.Size() != now.Size {
		return version{}, nil, problem.New(problem.Damaged, "it has %d bytes, and had %d", info.Size(), now.Size)
	}
	now.Updated = info.ModTime().UTC()
	if open {
		f, err = dir.Open(now.contents())
	}
	return now, f, err
}

// namesIn lists the names in a directory, in no order. Unlike os.ReadDir, it does not ask for any entry's attributes,
// which a file server would answer one by one.
func namesIn(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Stat returns an object's attributes, as blob.Store says.
func (b *bucket) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	now, _, err := b.readCurrent(ctx, name, false)
	if err == nil && now.Generation == 0 {
		err = blob.ErrNotExist
	}
	return now.Attrs, b.wrapError("stat", name, err)
}

// Open reads a part of an object, as blob.Store says. At the end of a read of the whole object its checksum is
// compared, and a wrong one is blob.ErrChecksum in place of io.EOF.
func (b *bucket) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	now, f, err := b.readCurrent(ctx, name, true)
	err = cmp.Or(r.Check(), err)
	if err == nil && (now.Generation == 0 || r.Generation != 0 && r.Generation != now.Generation) {
		err = blob.ErrNotExist
	}
	if err != nil {
		_ = f.Close() // of nil does nothing but return an error
		return nil, blob.Attrs{}, b.wrapError("open", name, err)
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	part := io.TeeReader(io.NewSectionReader(f, r.Offset, cmp.Or(r.Length, now.Size)), sum)
	end := atEnd(func() error {
		if r.Offset == 0 && (r.Length == 0 || r.Length >= now.Size) && sum.Sum32() != now.CRC32C {
			return blob.ErrChecksum
		}
		return io.EOF
	})
	return struct {
		io.Reader
		io.Closer
	}{blob.UntilDone(ctx, io.MultiReader(part, end)), f}, now.Attrs, nil
}

// atEnd is an io.Reader without any bytes, whose error the function decides when it is reached.
type atEnd func() error

// Read returns the function's error.
func (f atEnd) Read([]byte) (int, error) { return 0, f() }

// List yields the objects whose names begin with prefix, as blob.Store says. It reads the attributes of all of them
// before it yields the first.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		all, err := b.list(ctx, prefix)
		if err != nil {
			yield(blob.Attrs{}, b.wrapError("list", prefix, err))
			return
		}
		for _, attrs := range all {
			if !yield(attrs, nil) {
				return
			}
		}
	}
}

// list returns the objects whose names begin with prefix, ascending by name. It walks the directories below the
// prefix's last slash, several at once, since a file server answers each look slowly. What vanishes meanwhile is left
// out.
func (b *bucket) list(ctx context.Context, prefix string) (all []blob.Attrs, err error) {
	root, err := b.root()
	if err != nil {
		return nil, err
	}
	top := encodeFolder(prefix)

	// visit lists an object, or all objects below a directory. at is its path in the bucket, and name its name in the
	// open directory from, by which it is opened: of a longer path, a file server would be asked for every part. At
	// most atOnce entries are visited at the same time.
	var visit func(ctx context.Context, from fileSystem, name, at string, atOnce int) ([]blob.Attrs, error)
	visit = func(ctx context.Context, from fileSystem, name, at string, atOnce int) (all []blob.Attrs, err error) {
		// What does not exist, or no longer, has no objects. A file server may say that it is stale; but if the whole
		// bucket is, that is an error, so its top is looked at.
		defer func() {
			if errors.Is(err, syscall.ESTALE) {
				_, _, err = tryReadCurrent(root, objects, false)
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}()
		switch object, ok := decode(at); {
		case ctx.Err() != nil || ok && !strings.HasPrefix(object, prefix): // the end, or another name and no error
			return nil, ctx.Err()
		case ok: // an object
			now, _, err := tryReadCurrent(from, name, false)
			if err != nil { // it is a file, which is not ours, or it is being replaced
				if info, statErr := from.Lstat(name); statErr == nil && !info.IsDir() {
					return nil, nil
				}
				now, _, err = b.readCurrent(ctx, object, false)
			}
			if now.Name = object; err != nil || now.Generation == 0 {
				return nil, err
			}
			return []blob.Attrs{now.Attrs}, nil
		case at != top: // a link or a file is not ours
			if info, err := from.Lstat(name); err != nil || !info.IsDir() {
				return nil, err
			}
		}

		// A directory: visit its entries.
		dir, err := from.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		entries, err := namesIn(dir)
		found := make([][]blob.Attrs, len(entries))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(atOnce)
		for i, entry := range entries {
			group.Go(func() (err error) {
				found[i], err = visit(ctx, dir, entry, path.Join(at, entry), max(atOnce/len(entries), 1))
				return err
			})
		}
		err = cmp.Or(group.Wait(), err)
		return slices.Concat(found...), err
	}
	all, err = visit(ctx, root, top, top, together)
	slices.SortFunc(all, func(a, b blob.Attrs) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// Put writes an object, as blob.Store says. The contents are written in a directory apart. Then the object's mark is
// renamed, which makes them current. Only one of several writers can do that, because the rename takes the old mark
// away. If a rename fails, the object is looked at: the rename may have been carried out, and only its answer lost.
func (b *bucket) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (_ blob.Attrs, err error) {
	defer func() { err = b.wrapError("put", name, err) }()
	now, _, err := b.readCurrent(ctx, name, false)
	if err != nil {
		return blob.Attrs{}, err
	} else if cond != blob.Any && cond != now.Generation {
		return blob.Attrs{}, blob.ErrPrecondition
	}
	root, _ := b.root() // without an error, since readCurrent has opened it
	next := version{Attrs: blob.Attrs{Name: name}, id: newID()}
	place, dir := encode(name), path.Join(drafts, next.id)
	at := path.Join(dir, next.contents()) // where the contents are; "" once they must stay there
	defer func() { discard(root, at, dir) }()
	if err := next.writeContents(root, at, blob.UntilDone(ctx, r)); err != nil {
		return blob.Attrs{}, err
	}

	// commit makes next the version after now, if now is still the current one. Generations are times in microseconds,
	// but always above the one before, even if this machine's clock is behind that of the earlier writer. An object
	// that does not exist (now is zero) is created by renaming a directory with the mark and the contents to its
	// place.
	commit := func() error {
		next.base, next.Generation = now.Generation, max(now.Generation+1, blob.Generation(time.Now().UnixMicro()))
		if now.Generation == 0 {
			if err := root.WriteFile(path.Join(dir, next.mark()), nil, 0o666); err != nil {
				return err
			}
			return moveDirectory(root, dir, place)
		}
		to := path.Join(place, next.contents())
		if err := root.Rename(at, to); err != nil {
			return err
		}
		at = to
		return root.Rename(path.Join(place, now.mark()), path.Join(place, next.mark()))
	}
	// After a failure, look who is current now. Without a condition, commit again after that version.
	for err := commit(); err != nil; err = commit() {
		then, _, lookErr := b.readCurrent(ctx, name, false)
		if lookErr == nil && then.id == next.id {
			break // the rename was carried out, and its answer was lost
		}
		switch {
		case cond == blob.Absent && errors.Is(err, fs.ErrExist): // another's, even if it cannot be seen here yet
			return blob.Attrs{}, blob.ErrPrecondition
		case lookErr != nil || then.Generation == now.Generation || then.Generation == 0:
			// There is no room or no permission, or the object was removed. Or the server has not answered, and may yet
			// carry the rename out: so the contents that it would show must stay.
			at = ""
			return blob.Attrs{}, errors.Join(err, lookErr)
		case cond != blob.Any:
			return blob.Attrs{}, blob.ErrPrecondition
		}
		now = then
	}
	at = ""
	if now.Generation > 0 {
		_ = root.Remove(path.Join(place, now.contents())) // if that fails, a later writer does it
	}

	// Remove what writers left that died: contents beside this object, and, once in this process, all that was written
	// apart. It has to be a day old by the file system's clock, of which the new contents' time is the present.
	var left []string
	b.tidied.Do(func() { left, _ = fs.Glob(root.FS(), drafts+"/*") })
	for _, name := range append(left, now.strays...) {
		files, _ := fs.Glob(root.FS(), name+"/*")
		if !slices.ContainsFunc(append(files, name), func(file string) bool {
			info, err := fs.Stat(root.FS(), file)
			return err != nil || next.Updated.Sub(info.ModTime()) < abandoned
		}) {
			discard(root, name)
		}
	}
	return next.Attrs, nil
}

// Remove removes an object, as blob.Remover says. One rename takes the whole object away. If it turns out that another
// writer had just replaced it, a second rename puts it back. Directories that are empty then are removed, too.
func (b *bucket) Remove(ctx context.Context, name string, at blob.Generation) (err error) {
	defer func() { err = b.wrapError("remove", name, err) }()
	now, _, err := b.readCurrent(ctx, name, false)
	if err != nil || now.Generation == 0 {
		return err
	} else if now.Generation != at {
		return blob.ErrPrecondition
	}
	root, _ := b.root()
	place, away := encode(name), path.Join(drafts, newID())
	if err := root.Rename(place, away); err != nil {
		if _, statErr := b.Stat(ctx, name); errors.Is(statErr, blob.ErrNotExist) { // another has removed it
			return nil
		}
		return err
	}
	// What the rename took away may be another writer's by now: then it goes back.
	if now, _, err = tryReadCurrent(root, away, false); err != nil || now.Generation != at {
		return cmp.Or(moveDirectory(root, away, place), err, blob.ErrPrecondition)
	}
	for dir := path.Dir(place); dir != objects && root.Remove(dir) == nil; {
		dir = path.Dir(dir)
	}
	return root.RemoveAll(away)
}

// writeContents writes all of r to a new file, makes sure that it is on disk, and sets the version's size, checksum and
// time. r's error is returned first.
func (v *version) writeContents(root fileSystem, file string, r io.Reader) error {
	dirErr := root.MkdirAll(path.Dir(file), 0o777)
	f, err := root.Create(file)
	if err != nil {
		return cmp.Or(dirErr, err)
	}
	crc := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	v.Size, err = io.Copy(io.MultiWriter(f, crc), r)
	v.CRC32C = crc.Sum32()
	err = cmp.Or(err, f.Sync())
	if info, statErr := f.Stat(); statErr == nil {
		v.Updated = info.ModTime().UTC()
	}
	return cmp.Or(err, f.Close())
}

// moveDirectory renames a directory and makes the parents of its new place. Another writer may remove these at the same
// time, because they are empty; then it tries again, a few times.
func moveDirectory(root fileSystem, from, to string) (err error) {
	for range looks {
		// MkdirAll may say that a parent exists that is removed before it can look at it.
		if err = root.MkdirAll(path.Dir(to), 0o777); err == nil || errors.Is(err, fs.ErrExist) {
			err = root.Rename(from, to)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// discard removes files and directories; "" and what does not exist are passed over. A directory that is not empty may
// be in use by a writer that still lives: one rename takes it away from that writer as a whole, before its files are
// removed.
func discard(root fileSystem, names ...string) {
	for _, name := range names {
		if away := path.Join(drafts, newID()); root.Remove(name) != nil && root.Rename(name, away) == nil {
			_ = root.RemoveAll(away)
		}
	}
}

// wrapError says in front of an error what was done where. Only blob.ErrNotExist itself stays fs.ErrNotExist: that some
// file is missing must not be taken for the object's absence. nil stays nil.
func (b *bucket) wrapError(action, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) && err != blob.ErrNotExist { //nolint:errorlint // itself
		err = errors.New(err.Error())
	}
	if err != nil {
		err = fmt.Errorf("%s %s in %s: %w", action, name, b.dir, err)
	}
	return err
}
