// Package folder is a blob.Store over a folder: of one machine, or one that many share by NFS or Lustre.
//
// An object is a directory. In it the name of an empty file, the mark, says which version is current:
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
// to that of the next: of all who saw it, one finds it. IDs are random, so no mark comes again: whoever has slept
// meanwhile does not find it, however long it was. A reader whose contents go before it has opened them looks again.
//
// So a process may die, or be cut off, between any two calls: it has written all or nothing. What it leaves another
// writer removes a day later: contents beside an object once they can no longer follow its generation; those in new by
// renaming their directory first, so that a writer that still lives gets an error.
//
// Required of the file system: renaming is one step for all machines, and opening a directory shows what others have
// renamed. So do local disks, Lustre, and NFS from version 4.1 with default options. With NFS's `nocto`, or a server
// that counts changes by its clock, a reader may see an older version for up to acdirmax seconds; no write is lost. NFS
// 3 and 4.0 may repeat a rename whose answer was lost: it is recognised, unless another write has followed; then the
// writer is told that it has lost. On Lustre a file's time, Attrs.Updated, is the writer's: keep clocks in step.
package folder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
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
	layout    = "bucket-1" // the directory that has the others, and the layout's number
	objects   = "objects"
	drafts    = "new"
	looks     = 12             // at an object that is being replaced: for about two seconds
	together  = 16             // looks of a listing, since a file server takes its time
	abandoned = 24 * time.Hour // since when nobody has written to what is removed
)

// Bucket returns the Store in a folder. Its first use makes an empty folder a bucket, and refuses one that holds
// anything else or has another layout.
func Bucket(dir string) blob.Store {
	var mu sync.Mutex
	var kept fileSystem
	return &bucket{dir: dir, root: func() (fileSystem, error) {
		mu.Lock()
		defer mu.Unlock()
		if kept == nil {
			root, err := open(dir)
			if err != nil { // not kept: the folder may be mounted later
				return nil, err
			}
			kept = root
		}
		return kept, nil
	}}
}

// URL is how people name an object of any bucket, or the bucket itself if the name is empty.
func URL(bucket, name string) string {
	switch {
	case !filepath.IsAbs(bucket):
		return strings.TrimSuffix("gs://"+bucket+"/"+name, "/")
	case name == "":
		return bucket
	}
	return filepath.Join(bucket, layout, encode(name))
}

type bucket struct {
	dir    string
	root   func() (fileSystem, error) // the layout's directory
	tidied sync.Once
}

// fileSystem is *os.Root, which no symbolic link leaves, or a test's that fails.
type fileSystem interface { //nolint:interfacebloat // what is used of *os.Root
	FS() fs.FS
	Create(name string) (*os.File, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	OpenRoot(name string) (*os.Root, error)
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
	WriteFile(name string, data []byte, perm fs.FileMode) error
}

func open(dir string) (*os.Root, error) {
	outer, err := os.OpenRoot(dir)
	if err != nil {
		return nil, problem.New(problem.Environment, "%v: name a folder that all machines see", err)
	}
	defer outer.Close()
	files, err := fs.Glob(outer.FS(), "[^.]*")
	if len(files) > 0 && !slices.Contains(files, layout) {
		return nil, problem.New(problem.Conflict, "it holds %.60q and no %s: name an empty folder, or use the build "+
			"that wrote it", files[0], layout)
	}
	err = cmp.Or(err, outer.MkdirAll(path.Join(layout, objects), 0o777),
		outer.MkdirAll(path.Join(layout, drafts), 0o777))
	if err != nil {
		return nil, err
	}
	return outer.OpenRoot(layout)
}

// look returns the current version, the zero one without the object, and its contents if they are to be opened.
func (b *bucket) look(ctx context.Context, name string, open bool) (v version, f *os.File, err error) {
	root, err := b.root()
	if err = cmp.Or(blob.ValidName(name), ctx.Err(), err); err != nil {
		return version{}, nil, err
	}
	for try := range looks {
		v, f, err = lookOnce(root, encode(name), open)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE) { // else it is being replaced or removed
			return v, f, err
		}
		time.Sleep(time.Millisecond << try >> 1)
	}
	return version{}, nil, problem.New(problem.Damaged, "%v: remove its directory, %s", err, encode(name))
}

func lookOnce(root fileSystem, place string, open bool) (now version, f *os.File, err error) {
	dir, err := root.OpenRoot(place)
	if errors.Is(err, fs.ErrNotExist) {
		return version{}, nil, nil
	}
	if err != nil {
		return version{}, nil, err
	}
	defer dir.Close()
	files, err := namesIn(dir)
	if err != nil {
		return version{}, nil, err
	}
	// While a mark is renamed a listing may show both names, or neither.
	for _, file := range files {
		if v, ok := parseMark(file); ok && v.generation > now.generation {
			now = v
		}
	}
	if now.generation == 0 {
		return version{}, nil, fmt.Errorf("no mark names its contents: %w", fs.ErrNotExist)
	}
	info, err := dir.Lstat(now.contents())
	if err == nil && (!info.Mode().IsRegular() || info.Size() != now.size) {
		err = problem.New(problem.Damaged, "its contents have %d bytes, and had %d", info.Size(), now.size)
	}
	if err != nil {
		return version{}, nil, err
	}
	now.updated = info.ModTime().UTC()
	for _, file := range files {
		if base, ok := parseBase(file); ok && base < now.generation && file != now.contents() {
			now.strays = append(now.strays, path.Join(place, file))
		}
	}
	if open {
		f, err = dir.Open(now.contents())
	}
	return now, f, err
}

// namesIn lists a directory; other ways ask for the attributes of each entry.
func namesIn(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (b *bucket) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	now, _, err := b.look(ctx, name, false)
	if err == nil && now.generation == 0 {
		err = blob.ErrNotExist
	}
	return now.attrs(name), b.fail("stat", name, err)
}

// Open is blob.Store's. A read of the whole object is verified.
func (b *bucket) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	if err := r.Check(); err != nil {
		return nil, blob.Attrs{}, err
	}
	now, f, err := b.look(ctx, name, true)
	if err == nil && (now.generation == 0 || r.Generation != 0 && r.Generation != now.generation) {
		err = blob.ErrNotExist
		_ = f.Close()
	}
	if err != nil {
		return nil, blob.Attrs{}, b.fail("open", name, err)
	}
	whole := r.Offset == 0 && (r.Length == 0 || r.Length >= now.size)
	part := blob.UntilDone(ctx, io.NewSectionReader(f, r.Offset, cmp.Or(r.Length, now.size)))
	return &contents{part, f, whole, crc32.New(crc32.MakeTable(crc32.Castagnoli)), now.crc}, now.attrs(name), nil
}

// contents are a part of an object's, or all, whose sum is then compared with what it should be.
type contents struct {
	io.Reader
	io.Closer
	whole bool
	sum   hash.Hash32
	want  uint32
}

func (c *contents) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && c.whole && c.sum.Sum32() != c.want {
		err = blob.ErrChecksum
	}
	return n, err
}

// List is blob.Store's. It reads the attributes of all objects before it yields the first; a folder without a whole
// object is left out.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		all, err := b.list(ctx, prefix)
		if err != nil {
			yield(blob.Attrs{}, b.fail("list", prefix, err))
			return
		}
		for _, attrs := range all {
			if err := ctx.Err(); err != nil {
				yield(blob.Attrs{}, b.fail("list", prefix, err))
				return
			}
			if !yield(attrs, nil) {
				return
			}
		}
	}
}

func (b *bucket) list(ctx context.Context, prefix string) ([]blob.Attrs, error) {
	root, err := b.root()
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	l := listing{bucket: b, prefix: prefix}
	l.group, l.ctx = errgroup.WithContext(ctx)
	l.group.SetLimit(together)
	err = l.folder(root, encodeFolder(prefix), encodeFolder(prefix))
	err = cmp.Or(l.group.Wait(), err)
	slices.SortFunc(l.all, func(a, b blob.Attrs) int { return strings.Compare(a.Name, b.Name) })
	return l.all, err
}

// listing finds the objects whose names begin with a prefix. Each directory is opened from the one that has it, since
// a file server is asked for every part of a path.
type listing struct {
	*bucket
	ctx    context.Context
	prefix string
	group  *errgroup.Group
	mu     sync.Mutex
	all    []blob.Attrs
}

// folder lists the directory at, which is called name in the directory from.
func (l *listing) folder(from fileSystem, name, at string) error {
	dir, err := from.OpenRoot(name)
	if err != nil {
		return l.unlessRemoved(err)
	}
	defer dir.Close()
	entries, err := namesIn(dir)
	err = l.unlessRemoved(err)
	var below sync.WaitGroup
	defer below.Wait()
	for _, entry := range entries {
		if err = cmp.Or(err, l.ctx.Err()); err != nil {
			break
		}
		look := func() error {
			defer below.Done()
			return l.entry(dir, entry, path.Join(at, entry))
		}
		if below.Add(1); !l.group.TryGo(look) {
			err = look() // all are busy
		}
	}
	return err
}

// unlessRemoved is err, or nil if it says that a directory is not there, or no more, while the bucket's still is.
func (l *listing) unlessRemoved(err error) error {
	if root, _ := l.root(); errors.Is(err, syscall.ESTALE) {
		_, _, err = lookOnce(root, objects, false)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// entry lists an object, or what is below a directory.
func (l *listing) entry(from *os.Root, name, at string) error {
	object, ok := decode(at)
	if !ok {
		info, err := from.Lstat(name)
		if err != nil || !info.IsDir() { // or not ours
			return l.unlessRemoved(err)
		}
		return l.folder(from, name, at)
	}
	if !strings.HasPrefix(object, l.prefix) {
		return nil
	}
	now, _, err := lookOnce(from, name, false)
	if err != nil { // it is being replaced, or not ours
		if info, statErr := from.Lstat(name); statErr == nil && !info.IsDir() {
			return nil
		}
		now, _, err = l.look(l.ctx, object, false)
	}
	if l.mu.Lock(); now.generation > 0 {
		l.all = append(l.all, now.attrs(object))
	}
	l.mu.Unlock()
	return err
}

func (b *bucket) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (_ blob.Attrs, err error) {
	defer func() { err = b.fail("put", name, err) }()
	now, _, err := b.look(ctx, name, false)
	switch {
	case err != nil:
		return blob.Attrs{}, err
	case cond < blob.Any:
		return blob.Attrs{}, fmt.Errorf("condition %d is not a generation", cond)
	case cond != blob.Any && cond != now.generation:
		return blob.Attrs{}, blob.ErrPrecondition
	}
	root, _ := b.root()
	d := &draft{version: version{id: newID()}, root: root, place: encode(name)}
	d.dir = path.Join(drafts, d.id)
	d.at = path.Join(d.dir, d.contents())
	defer d.remove()
	if err := d.write(blob.UntilDone(ctx, r)); err != nil {
		return blob.Attrs{}, err
	}
	for {
		err := d.commit(now)
		if err == nil {
			break
		}
		// Another was first; or it was done, and the answer was lost.
		then, _, lookErr := b.look(ctx, name, false)
		if lookErr == nil && then.id == d.id {
			break
		}
		if cond == blob.Absent && errors.Is(err, fs.ErrExist) { // another's, even if it cannot be seen here yet
			return blob.Attrs{}, blob.ErrPrecondition
		}
		if lookErr != nil || then.generation == now.generation || then.generation == 0 {
			// No room, no permission, or removed. Or no answer, and the server may do it yet: what it would show stays.
			d.at = ""
			return blob.Attrs{}, errors.Join(err, lookErr)
		}
		if cond != blob.Any {
			return blob.Attrs{}, blob.ErrPrecondition
		}
		now = then
	}
	d.at = "" // it is committed
	if now.generation > 0 {
		_ = d.root.Remove(path.Join(d.place, now.contents())) // else another will
	}
	d.removeAbandoned(now.strays...)
	b.tidied.Do(func() {
		left, _ := fs.Glob(d.root.FS(), drafts+"/*")
		d.removeAbandoned(left...)
	})
	return d.attrs(name), nil
}

// Remove is blob.Remover's. Its one rename takes the object away whole, and if another has just replaced it, the next
// puts it back. Directories that are empty then go, too.
func (b *bucket) Remove(ctx context.Context, name string, at blob.Generation) (err error) {
	defer func() { err = b.fail("remove", name, err) }()
	now, _, err := b.look(ctx, name, false)
	if err != nil || now.generation == 0 {
		return err
	}
	if now.generation != at {
		return blob.ErrPrecondition
	}
	root, _ := b.root()
	place, away := encode(name), path.Join(drafts, newID())
	if err := root.Rename(place, away); err != nil {
		now, _, lookErr := b.look(ctx, name, false)
		switch {
		case lookErr != nil || now.generation == at:
			return errors.Join(err, lookErr)
		case now.generation > 0:
			return blob.ErrPrecondition
		}
		return nil // another has removed it
	}
	if now, _, err = lookOnce(root, away, false); err != nil || now.generation != at {
		return cmp.Or(move(root, away, place), err, blob.ErrPrecondition)
	}
	for dir := path.Dir(place); dir != objects && root.Remove(dir) == nil; {
		dir = path.Dir(dir)
	}
	return root.RemoveAll(away)
}

// draft is a version that is being written: its contents are in the file at, until it is committed.
type draft struct {
	version
	root           fileSystem
	place, dir, at string
}

// write puts all of r on disk.
func (d *draft) write(r io.Reader) error {
	if err := d.root.Mkdir(d.dir, 0o777); err != nil {
		return err
	}
	f, err := d.root.Create(d.at)
	if err != nil {
		return err
	}
	crc := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	d.size, err = io.Copy(io.MultiWriter(f, crc), r)
	d.crc = crc.Sum32()
	err = cmp.Or(err, f.Sync())
	if info, statErr := f.Stat(); statErr == nil {
		d.updated = info.ModTime().UTC()
	}
	return cmp.Or(err, f.Close())
}

// commit makes the draft the version after now, which may be none, if now is still current.
func (d *draft) commit(now version) error {
	d.base, d.generation = now.generation, max(now.generation+1, blob.Generation(time.Now().UnixMicro()))
	if now.generation > 0 {
		to := path.Join(d.place, d.contents())
		if err := d.root.Rename(d.at, to); err != nil {
			return err
		}
		d.at = to
		return d.root.Rename(path.Join(d.place, now.mark()), path.Join(d.place, d.mark()))
	}
	if err := d.root.WriteFile(path.Join(d.dir, d.mark()), nil, 0o666); err != nil {
		return err
	}
	return move(d.root, d.dir, d.place)
}

// move renames a directory to one whose parents may be missing, and may be removed at the same time.
func move(root fileSystem, from, to string) (err error) {
	for range looks {
		err = root.MkdirAll(path.Dir(to), 0o777)
		if err = cmp.Or(err, root.Rename(from, to)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// removeAbandoned removes what nobody has written to for long before the draft, by the file system's clock.
func (d *draft) removeAbandoned(names ...string) {
	for _, name := range names {
		err := fs.WalkDir(d.root.FS(), name, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil && d.updated.Sub(info.ModTime()) < abandoned {
				err = fs.ErrExist
			}
			return err
		})
		if err == nil {
			d.discard(name)
		}
	}
}

// discard removes what may be another's at one stroke, before it removes what is in it.
func (d *draft) discard(name string) {
	away := path.Join(drafts, newID())
	if d.root.Rename(name, away) == nil {
		_ = d.root.RemoveAll(away)
	}
}

// remove removes what was not committed.
func (d *draft) remove() {
	if path.Dir(d.at) == d.place {
		_ = d.root.Remove(d.at)
	}
	if d.root.Remove(d.dir) != nil {
		d.discard(d.dir)
	}
}

// fail says what was done and where. A file that is not there is not taken for the object's absence.
func (b *bucket) fail(action, name string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && err != blob.ErrNotExist { //nolint:errorlint // itself
		err = errors.New(err.Error())
	}
	return fmt.Errorf("%s %s in %s: %w", action, name, b.dir, err)
}
