package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestFolder: a bucket in a folder behaves as every store does.
func TestFolder(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store { return Bucket(t.TempDir()) })
}

// TestLongNames: names with parts that are too long for a file system, and names that are the beginning of others, can
// be written side by side and are listed as they are, also by prefix.
func TestLongNames(t *testing.T) {
	s := Bucket(t.TempDir())
	long := strings.Repeat("x", longest)
	names := []string{"a", "a/b", "a/b/c", "A", "con", long, long + "x", long + "/x", strings.Repeat("Ü", 512),
		strings.Repeat("..a/", 30) + "..."}
	for _, n := range names {
		if _, err := s.Put(t.Context(), n, blob.Absent, strings.NewReader(n)); err != nil {
			t.Fatalf("put %.30s: %v", n, err)
		}
	}
	var got []string
	for a, err := range s.List(t.Context(), "") {
		must.Do(t, err)
		got = append(got, a.Name)
	}
	if slices.Sort(names); !slices.Equal(got, names) {
		t.Errorf("listed %q, want %q", got, names)
	}
	// Three names begin with long, which is as long as a part may be; con is one that Windows reserves.
	for prefix, want := range map[string]int{long: 3, long + "x": 1, "a/": 2, "..a/..a": 1, "../": 0, "a//": 0,
		"c": 1} {
		n := 0
		for _, err := range s.List(t.Context(), prefix) {
			must.Do(t, err)
			n++
		}
		if n != want {
			t.Errorf("list %.30q: %d objects, want %d", prefix, n, want)
		}
	}
}

// FuzzNames: every valid name has one directory, whose path every file system takes and from which the name can be read
// back. The name of a mark or of contents, once parsed, is written again as it was.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "a/b", "%", "a+", "x@", ".", "..", "A/ü", "1.0.2.00000003.a", "9.9.9.9.9", "1.a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if blob.ValidName(s) == nil {
			dir := encode(s)
			if back, ok := decode(dir); !ok || back != s || !fs.ValidPath(dir) || strings.ToLower(dir) != dir {
				t.Errorf("%q is in %q, which is of %q; want a valid path in small letters, that leads "+
					"back", s, dir, back)
			}
			for piece := range strings.SplitSeq(dir, "/") {
				if len(piece) > 255 || piece[0] == '.' {
					t.Errorf("%q is in %q; want parts of at most 255 bytes, without a dot in front", s, dir)
				}
			}
		}
		if name, ok := decode(objects + "/" + s); ok && encode(name) != objects+"/"+s {
			t.Errorf("%q is in two directories, want one", name)
		}
		if v, ok := parseMark(s); ok && (v.Generation == 0 && v.contents() != s || v.Generation != 0 &&
			(v.mark() != s || v.contents() == s || v.Generation <= v.base || v.Size < 0) || v.base < 0) {
			t.Errorf("%q is the name of %+v, which has another", s, v)
		}
	})
}

// put writes an object; an error ends the test.
func put(t *testing.T, s blob.Store, name, data string, cond blob.Generation) blob.Attrs {
	t.Helper()
	a, err := s.Put(t.Context(), name, cond, strings.NewReader(data))
	if err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
	return a
}

// TestRefusedFolders: a folder that holds another layout or other files is refused and not written to. Hidden files,
// such as a file server's, do not matter. A folder that does not exist is a problem of the environment.
func TestRefusedFolders(t *testing.T) {
	for name, kind := range map[string]problem.Kind{
		"bucket-2": problem.Conflict, "model.txt": problem.Conflict,
		".snapshot": problem.Other, "bucket-1": problem.Other} { // Other: no error is wanted
		dir := t.TempDir()
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o777))
		_, err := Bucket(dir).Put(t.Context(), "a", blob.Absent, strings.NewReader("x"))
		if (err != nil) != (kind != problem.Other) || kind != problem.Other && !problem.Is(err, kind) {
			t.Errorf("beside %s: %v; want a problem of kind %v", name, err, kind)
		}
		if files, _ := os.ReadDir(dir); kind != problem.Other && len(files) != 1 {
			t.Errorf("beside %s it wrote %v, want nothing", name, files)
		}
	}
	_, err := Bucket(filepath.Join(t.TempDir(), "absent")).Stat(t.Context(), "a")
	if !problem.Is(err, problem.Environment) || errors.Is(err, blob.ErrNotExist) {
		t.Errorf("without the folder: got %v; want a problem of the environment, not ErrNotExist", err)
	}
}

// TestForeignThings: links, files and directories that others leave in a bucket's folder are not objects: they are
// neither listed nor read nor written over, and a link does not lead out of the folder.
func TestForeignThings(t *testing.T) {
	dir, secret := t.TempDir(), t.TempDir()
	s := Bucket(dir)
	put(t, s, "a/good", "good", blob.Absent)
	put(t, Bucket(secret), "stolen", "secret", blob.Absent)
	in := func(p string) string { return filepath.Join(dir, layout, objects, filepath.FromSlash(p)) }
	for link, to := range map[string]string{
		"stolen@": filepath.Join(secret, layout, objects, "stolen@"), "out": secret, "loop": in("")} {
		if err := os.Symlink(to, in(link)); err != nil && runtime.GOOS == "windows" { // there it takes a right
			t.Skip(err)
		} else if err != nil {
			t.Fatalf("cannot make the link: %v", err)
		}
	}
	for _, file := range []string{"pipe@", ".hidden", "a/README", "A@", "%41+"} {
		must.Do(t, os.WriteFile(in(file), nil, 0o666))
	}
	must.Do(t, os.MkdirAll(in("%zz@"), 0o777))
	var names []string
	for a, err := range s.List(t.Context(), "") {
		must.Do(t, err)
		names = append(names, a.Name)
	}
	if !slices.Equal(names, []string{"a/good"}) {
		t.Errorf("listed %q, want a/good alone", names)
	}
	for _, name := range []string{"stolen", "pipe", "out/x"} {
		if _, err := s.Stat(t.Context(), name); err == nil {
			t.Errorf("%s, which is no object, was found; want an error", name)
		}
		if _, err := s.Put(t.Context(), name, blob.Any, strings.NewReader("x")); err == nil {
			t.Errorf("%s was written over what is no object; want an error", name)
		}
	}
	if data, _, err := blob.ReadAll(t.Context(), Bucket(secret), "stolen", 10); string(data) != "secret" {
		t.Errorf("outside the folder: %q, %v; want the secret as it was", data, err)
	}
}

// TestDamage: an object whose file was changed gives blob.ErrChecksum at the end of a read. One whose file is missing
// or shorter is problem.Damaged when it is opened. Neither is taken for absent.
func TestDamage(t *testing.T) { synctest.Test(t, testDamage) }

// testDamage is TestDamage, in a bubble in which the pauses between looks take no time.
func testDamage(t *testing.T) {
	dir := t.TempDir()
	s := Bucket(dir)
	for name, spoil := range map[string]func(string) error{
		"flipped": func(p string) error { return os.WriteFile(p, []byte("Whole"), 0o666) },
		"shorter": func(p string) error { return os.Truncate(p, 2) },
		"missing": os.Remove,
	} {
		put(t, s, name, "whole", blob.Absent)
		files, err := filepath.Glob(filepath.Join(dir, layout, objects, name+"@", "0.*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: the files of its contents are %q (error %v), want one", name, files, err)
		}
		must.Do(t, spoil(files[0]))
		r, _, err := s.Open(t.Context(), name, blob.Range{})
		if err == nil {
			_, err = new(bytes.Buffer).ReadFrom(r)
			r.Close()
		}
		if errors.Is(err, blob.ErrChecksum) != (name == "flipped") || problem.Is(err, problem.Damaged) ==
			(name == "flipped") || errors.Is(err, blob.ErrNotExist) {
			t.Errorf("%s: %v; want a wrong checksum of flipped bytes, and damage of all else", name, err)
		}
	}
}

// TestAbandoned: a write removes drafts and contents that were left more than a day ago. It leaves younger ones, and
// contents of whatever age that a writer could still make current, because they follow the generation that is.
func TestAbandoned(t *testing.T) {
	dir := t.TempDir()
	first := put(t, Bucket(dir), "a", "1", blob.Absent)
	in := func(p ...string) string { return filepath.Join(append([]string{dir, layout}, p...)...) }
	var want, left []string
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "young": 23 * time.Hour} {
		draft := in(drafts, name)
		beside := in(objects, "a@", fmt.Sprintf("%d.%s", first.Generation-1, name))
		next := in(objects, "a@", fmt.Sprintf("%d.%s", first.Generation, name)) // may be committed yet
		must.Do(t, os.Mkdir(draft, 0o777))
		for _, file := range []string{filepath.Join(draft, "0."+name), beside, next, draft} {
			if file != draft {
				must.Do(t, os.WriteFile(file, nil, 0o666))
			}
			then := time.Now().Add(-age)
			must.Do(t, os.Chtimes(file, then, then))
			if name == "young" || file == next {
				want = append(want, file)
			}
		}
	}
	put(t, Bucket(dir), "a", "2", first.Generation)
	for _, pattern := range []string{in(drafts, "*"), in(drafts, "*", "*"), in(objects, "a@", "*.old"),
		in(objects, "a@", "*.young")} {
		found := must.Get(filepath.Glob(pattern))(t)
		left = append(left, found...)
	}
	slices.Sort(want)
	if slices.Sort(left); !slices.Equal(slices.Compact(left), want) {
		t.Errorf("left %q, want %q", left, want)
	}
}

// TestNoRoom: when there is no room or the disk is read-only, Put returns that error with the object and the folder,
// and leaves no file.
func TestNoRoom(t *testing.T) {
	for _, no := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		// Call 1 looks whether the object is there, 2 makes the draft's directory, and 3 its contents.
		for _, at := range []int{2, 3} {
			dir := t.TempDir()
			s := &bucket{dir: dir, opened: &failing{fileSystem: layoutOf(t, dir), at: at, err: no}}
			_, err := s.Put(t.Context(), "a", blob.Absent, strings.NewReader("x"))
			if !errors.Is(err, no) || !strings.Contains(err.Error(), "put a in "+dir) {
				t.Errorf("the error %v of call %d came back as %v; want it, with what was done where", no, at, err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, layout, "*", "*")); len(left) > 0 {
				t.Errorf("after %v of call %d it left %q, want nothing", no, at, left)
			}
		}
	}
}

// removing is a file system that calls remove each time a directory has been opened.
type removing struct {
	fileSystem
	remove func()
}

func (r removing) OpenRoot(name string) (*os.Root, error) {
	dir, err := r.fileSystem.OpenRoot(name)
	r.remove()
	return dir, err
}

// TestListBesideRemove: a directory that another process removes while it is listed counts as empty, also if the file
// server calls it stale. If the whole bucket is stale, listing it is an error.
func TestListBesideRemove(t *testing.T) {
	dir := t.TempDir()
	root := layoutOf(t, dir)
	defer root.Close()
	list := func(f fileSystem) (n int, err error) {
		s := &bucket{dir: dir, opened: f}
		for _, e := range s.List(t.Context(), "a/") {
			n, err = n+1, e
		}
		return n, err
	}
	a := put(t, Bucket(dir), "a/b", "x", blob.Absent)
	// The first call opens the directory a. If only that is stale, the next one finds the whole bucket well.
	if n, err := list(&failing{fileSystem: root, at: 1, err: syscall.ESTALE}); n > 0 || err != nil {
		t.Errorf("a stale directory: listed %d objects, %v; want none, and no error", n, err)
	}
	if _, err := list(&failing{fileSystem: root, at: 1, err: syscall.ESTALE, dead: true}); err == nil {
		t.Error("a stale bucket: listed without an error, want one")
	}
	n, err := list(removing{root, func() {
		must.Do(t, Bucket(dir).(blob.Remover).Remove(t.Context(), "a/b", a.Generation))
	}})
	if n > 0 || err != nil {
		t.Errorf("beside a removal: listed %d objects, %v; want none, and no error", n, err)
	}
}

// TestMountedLater: a bucket whose folder does not exist at its first use, which fails, works once the folder is there.
func TestMountedLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "share")
	s := Bucket(dir)
	if _, err := s.Stat(t.Context(), "a"); err == nil || errors.Is(err, blob.ErrNotExist) {
		t.Errorf("stat without the folder: got %v; want an error other than ErrNotExist", err)
	}
	must.Do(t, os.Mkdir(dir, 0o755))
	put(t, s, "a", "here", blob.Absent)
}
