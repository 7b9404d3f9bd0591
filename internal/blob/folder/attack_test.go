package folder

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
)

// failing is a file system in which one call, the one with the number at, fails with err.
type failing struct {
	fileSystem
	calls, at int               // calls so far, and the number of the one that fails; both from 1
	err       error             // nil: none fails
	done      bool              // the call is carried out all the same, as when only its answer is lost
	dead      bool              // all calls after it fail, too, as when the process was killed
	before    func(name string) // is called before each call, if not nil
}

// call counts a call, and carries it out (do) unless it is to fail.
func (f *failing) call(name string, do func() error) error {
	if f.before != nil {
		f.before(name)
	}
	f.calls++
	switch {
	case f.err == nil || f.calls < f.at || f.calls > f.at && !f.dead:
		return do()
	case f.calls == f.at && f.done:
		return errors.Join(f.err, do())
	}
	return f.err
}

func (f *failing) FS() fs.FS { return f.fileSystem.FS() }
func (f *failing) Create(name string) (file *os.File, err error) {
	err = f.call(name, func() error { file, err = f.fileSystem.Create(name); return err })
	return file, err
}
func (f *failing) MkdirAll(name string, perm fs.FileMode) error {
	return f.call(name, func() error { return f.fileSystem.MkdirAll(name, perm) })
}
func (f *failing) OpenRoot(name string) (root *os.Root, err error) {
	err = f.call(name, func() error { root, err = f.fileSystem.OpenRoot(name); return err })
	return root, err
}
func (f *failing) Remove(name string) error {
	return f.call(name, func() error { return f.fileSystem.Remove(name) })
}
func (f *failing) RemoveAll(name string) error {
	return f.call(name, func() error { return f.fileSystem.RemoveAll(name) })
}
func (f *failing) Rename(from, to string) error {
	return f.call(from+to, func() error { return f.fileSystem.Rename(from, to) })
}
func (f *failing) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return f.call(name, func() error { return f.fileSystem.WriteFile(name, data, perm) })
}

// memoryDir returns a folder that is removed with the test. It is in memory if the system has such a place: on a disk,
// each of the many writes would wait for it.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "coppice-") //nolint:usetesting // it knows no folder in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// layoutOf opens the directory of the layout in a bucket's folder, and makes it if it is not there.
func layoutOf(t *testing.T, dir string) *os.Root {
	t.Helper()
	root := must.Get((&bucket{dir: dir}).root())(t)
	return root.(*os.Root)
}

// TestEveryCall: whichever call of a write fails, loses its answer, or is the last one before the process dies, the
// object is then either as before or as written, and as written if Put returned no error. Another writer can write on.
// A process that lives leaves at most one directory behind.
func TestEveryCall(t *testing.T) {
	t.Parallel()
	for _, cond := range []blob.Generation{blob.Absent, blob.Any, 1} { // 1 stands for the generation that is there
		for mode := range 4 { // 0: fails, 1: loses its answer, 2 and 3: the same, and the process dies
			for at := 1; ; at++ { // the call, until a write has fewer
				dir := memoryDir(t)
				want := "before"
				if cond == blob.Absent {
					want = ""
				} else if a := put(t, Bucket(dir), "a/b", want, blob.Absent); cond > 0 {
					cond = a.Generation
				}
				root := layoutOf(t, dir)
				f := &failing{fileSystem: root, at: at, err: syscall.EIO, done: mode%2 == 1, dead: mode > 1}
				s := &bucket{dir: dir, opened: f}
				_, err := s.Put(t.Context(), "a/b", cond, strings.NewReader("after"))

				data, now, readErr := blob.ReadAll(t.Context(), Bucket(dir), "a/b", 100)
				if readErr != nil && !errors.Is(readErr, blob.ErrNotExist) ||
					string(data) != want && string(data) != "after" ||
					err == nil && string(data) != "after" || errors.Is(err, blob.ErrPrecondition) {
					t.Errorf("condition %d, mode %d, call %d: put returned %v and it holds %q (%v); want %q, or after",
						cond, mode, at, err, data, readErr, want)
				}
				put(t, Bucket(dir), "a/b", "later", now.Generation)
				if mode == 1 && f.calls > at { // the process lived and went on after the call
					if left, _ := filepath.Glob(filepath.Join(dir, layout, drafts, "*")); len(left) > 1 {
						t.Errorf("condition %d, call %d left %q, want one at most", cond, at, left)
					}
				}
				root.Close()
				if f.calls < at { // the write has made fewer calls, so none has failed
					break
				}
			}
		}
	}
}

// blind is the file system of a machine that does not see yet what others have renamed, as with NFS's option nocto.
type blind struct{ fileSystem }

func (b blind) OpenRoot(name string) (*os.Root, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
}

// TestCreatedUnseen: an object that another machine has created, and that cannot be seen yet, is not created again, and
// the error says so.
func TestCreatedUnseen(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	put(t, Bucket(dir), "a/b", "first", blob.Absent)
	root := layoutOf(t, dir)
	defer root.Close()
	s := &bucket{dir: dir, opened: blind{root}}
	created, err := blob.Create(t.Context(), s, "a/b", []byte("second"))
	data, _, readErr := blob.ReadAll(t.Context(), Bucket(dir), "a/b", 100)
	if created || err != nil || string(data) != "first" || readErr != nil {
		t.Errorf("created: %t, %v, and it holds %q (%v); want that another was first", created, err, data, readErr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, layout, drafts, "*")); len(left) > 0 {
		t.Errorf("the second creator left %q, want nothing", left)
	}
}

// between is a file system in which a test decides what a rename does: rename gets the real one as do.
type between struct {
	fileSystem
	rename func(do func() error, from, to string) error
}

func (b between) Rename(from, to string) error {
	return b.rename(func() error { return b.fileSystem.Rename(from, to) }, from, to)
}

// TestLateRename: if a file server does not answer the rename of a mark and carries it out later, after Put has
// returned an error, the object then has the new contents, whole.
func TestLateRename(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	first := put(t, Bucket(dir), "a", "first", blob.Absent)
	var late func() error
	s := &bucket{dir: dir, opened: between{layoutOf(t, dir), func(do func() error, from, _ string) error {
		if v, ok := parseMark(filepath.Base(from)); ok && v.Generation == first.Generation {
			late = do
			return syscall.EIO
		}
		return do()
	}}}
	_, err := s.Put(t.Context(), "a", first.Generation, strings.NewReader("later"))
	if !errors.Is(err, syscall.EIO) || late == nil {
		t.Fatalf("a write without an answer: got %v, rename held back %t; want %v, true", err, late != nil,
			syscall.EIO)
	}
	must.Do(t, late())
	if data, _, err := blob.ReadAll(t.Context(), Bucket(dir), "a", 10); string(data) != "later" || err != nil {
		t.Errorf("after the late rename it holds %q (%v), want what that shows", data, err)
	}
}

// TestRemoveBehind: if an object is replaced just before its removal's rename, the removal fails with ErrPrecondition
// and the newer version stays. A removal leaves no directories.
func TestRemoveBehind(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	first := put(t, Bucket(dir), "a/b", "first", blob.Absent)
	var second blob.Attrs
	s := &bucket{dir: dir, opened: between{layoutOf(t, dir), func(do func() error, _, _ string) error {
		if second.Generation == 0 {
			second = put(t, Bucket(dir), "a/b", "second", first.Generation)
		}
		return do()
	}}}
	err := s.Remove(t.Context(), "a/b", first.Generation)
	data, now, readErr := blob.ReadAll(t.Context(), s, "a/b", 10)
	if !errors.Is(err, blob.ErrPrecondition) || string(data) != "second" || now.Generation != second.Generation {
		t.Errorf("removed while it was replaced: %v, and it holds %q (%v), want the second version", err, data, readErr)
	}
	must.Do(t, s.Remove(t.Context(), "a/b", second.Generation))
	if left, _ := filepath.Glob(filepath.Join(dir, layout, "*", "*")); len(left) > 0 {
		t.Errorf("the removal left %q, want nothing", left)
	}
}

// TestCleanSteps: three promises of Put. A replaced version's files are removed. A writer whose draft another process
// discards while it writes gets an error, which is neither ErrNotExist nor ErrPrecondition. And generations rise even
// if the last one is from a clock that was 35 years ahead.
func TestCleanSteps(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	first := put(t, Bucket(dir), "a", "first", blob.Absent)
	second := put(t, Bucket(dir), "a", "second", first.Generation)
	place := filepath.Join(dir, layout, encode("a"))
	files := must.Get(os.ReadDir(place))(t)
	if len(files) != 2 {
		t.Errorf("after a write it has %v, want a mark and contents", files)
	}

	s, root := Bucket(dir), layoutOf(t, dir)
	_, err := s.Put(t.Context(), "a", second.Generation, readerFunc(func([]byte) (int, error) {
		drafts := must.Get(fs.Glob(root.FS(), drafts+"/*"))(t)
		discard(root, drafts...)
		return 0, io.EOF
	}))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrPrecondition) {
		t.Errorf("a writer whose draft was discarded: %v; want another error than those of a condition", err)
	}

	for _, file := range files {
		if v, ok := parseMark(file.Name()); ok && v.Generation > 0 {
			v.Generation += 1 << 50 // microseconds: 35 years
			must.Do(t, os.Rename(filepath.Join(place, file.Name()), filepath.Join(place, v.mark())))
			third := put(t, s, "a", "third", v.Generation)
			if third.Generation <= v.Generation {
				t.Errorf("generation %d follows %d, want a later one", third.Generation, v.Generation)
			}
		}
	}
}

// readerFunc is an io.Reader that is a function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// seen, as a condition, stands for the generation before, which oneOrder knows.
const seen = 1

// TestEveryOrder: in whatever order the calls of two writers of one object come, exactly one of two that require the
// same generation succeeds. A writer without a condition always does; beside it, one with a condition may. The object
// holds what a successful writer wrote. A reader between any two calls finds whole contents, and never an older version
// than before. All orders are tried with COPPICE_FULL, else 25 random ones of each pair; 30 calls are more than both
// writers make.
func TestEveryOrder(t *testing.T) {
	t.Parallel()
	for _, conds := range [][2][]blob.Generation{
		{{blob.Absent}, {blob.Absent}}, {{blob.Absent}, {blob.Any}}, {{seen}, {seen}}, {{seen}, {blob.Any}},
		{{blob.Any}, {blob.Any}}, {{seen}, {blob.Any, blob.Any}},
	} {
		orders := 0
		if os.Getenv("COPPICE_FULL") == "" { // some of them
			for draw := rand.New(rand.NewPCG(1, 2)); orders < 25; orders++ {
				order := make([]int, 30)
				for i := range order {
					order[i] = draw.IntN(2)
				}
				oneOrder(t, conds, order)
			}
			continue
		}
		for order, more := []int(nil), true; more; orders++ {
			order, more = oneOrder(t, conds, order)
		}
		t.Logf("%v: %d orders", conds, orders)
	}
}

// oneOrder runs two writers, each with its list of conditions, and lets them make their calls in the given order: entry
// i says which writer makes the call i, and 0 goes first after the last entry. It returns the next order to try, and
// whether there is one.
func oneOrder(t *testing.T, conds [2][]blob.Generation, order []int) (next []int, more bool) {
	dir := memoryDir(t)
	root := layoutOf(t, dir)
	defer root.Close()
	first := blob.Attrs{}
	if conds[0][0] != blob.Absent {
		first = put(t, Bucket(dir), "a", "first", blob.Absent)
	}

	// Before each call at the object, a writer sends true on waits and goes on when it receives from goes. It sends
	// false when it has ended.
	var waits, goes [2]chan bool
	var won [2]int // successful writes of each
	for i := range conds {
		waits[i], goes[i] = make(chan bool), make(chan bool)
		f := &failing{fileSystem: root, before: func(name string) {
			if strings.Contains(name, "a@") {
				waits[i] <- true
				<-goes[i]
			}
		}}
		s := &bucket{dir: dir, opened: f}
		go func() {
			for _, cond := range conds[i] {
				if cond == seen {
					cond = first.Generation
				}
				_, err := s.Put(t.Context(), "a", cond, strings.NewReader([]string{"zero", "one"}[i]))
				if err == nil {
					won[i]++
				} else if !errors.Is(err, blob.ErrPrecondition) {
					t.Errorf("Put: got error %v, want none or blob.ErrPrecondition", err)
				}
			}
			waits[i] <- false
		}()
	}

	// Let one call after the other happen, and read after each.
	alive := [2]bool{<-waits[0], <-waits[1]}
	reader, last := Bucket(dir), blob.Attrs{}
	var both []bool // whether there was a choice
	for step := 0; alive[0] || alive[1]; step++ {
		if step == len(order) {
			order = append(order, 0)
		}
		both = append(both, alive[0] && alive[1])
		if !alive[order[step]] {
			order[step] = 1 - order[step]
		}
		goes[order[step]] <- true
		alive[order[step]] = <-waits[order[step]]
		data, now, err := blob.ReadAll(t.Context(), reader, "a", 10)
		if err != nil && (last.Generation > 0 || !errors.Is(err, blob.ErrNotExist)) ||
			now.Generation < last.Generation ||
			err == nil && !slices.Contains([]string{"first", "zero", "one"}, string(data)) {
			t.Fatalf("%v in the order %v: read %q at %d after %d: %v", conds, order[:step+1], data, now.Generation,
				last.Generation, err)
		}
		last = now
	}

	// Who had to succeed: all writes without a condition, or else exactly one of the others.
	data, _, _ := blob.ReadAll(t.Context(), reader, "a", 10)
	anys := [2]int{} // writes without a condition
	for i := range conds {
		for _, cond := range conds[i] {
			if cond == blob.Any {
				anys[i]++
			}
		}
	}
	switch sum := won[0] + won[1]; {
	case anys == [2]int{} && sum != 1, won[0] < anys[0], won[1] < anys[1],
		anys[0] == 0 && anys[1] > 0 && string(data) != "one",
		string(data) == "zero" && won[0] == 0, string(data) == "one" && won[1] == 0:
		t.Fatalf("%v in the order %v: won %v, and it holds %q", conds, order, won, data)
	}

	return following(order[:len(both)], both)
}

// following returns the order after this one: the last step at which there was a choice (both) and the first writer
// went becomes the second one's, and all later steps are dropped. more is false after the last order.
func following(order []int, both []bool) (next []int, more bool) {
	for step := len(order) - 1; step >= 0; step-- {
		if both[step] && order[step] == 0 {
			return append(order[:step:step], 1), true
		}
	}
	return nil, false
}

// unsyncable is a file system whose files cannot be synced: a writer gets a pipe, from which what it writes is copied
// into the file.
type unsyncable struct {
	fileSystem
	written chan error
}

// Create returns the writing end of a pipe into the file. When everything is copied, u.written gets the error.
func (u unsyncable) Create(name string) (*os.File, error) {
	f, err := u.fileSystem.Create(name)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	go func() {
		_, copyErr := io.Copy(f, r)
		u.written <- errors.Join(copyErr, f.Close(), r.Close())
	}()
	return w, err
}

// TestSynced: if new contents cannot be synced to the disk, Put returns that error, and nothing is renamed to where it
// would be seen.
func TestSynced(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	first := put(t, Bucket(dir), "old", "first", blob.Absent)
	for name, cond := range map[string]blob.Generation{"new": blob.Absent, "old": first.Generation} {
		u := unsyncable{layoutOf(t, dir), make(chan error, 1)}
		renamed := false
		s := &bucket{dir: dir, opened: between{u, func(do func() error, _, to string) error {
			renamed = renamed || path.Dir(to) != drafts // a rename within drafts only discards the draft
			return do()
		}}}
		_, err := s.Put(t.Context(), name, cond, strings.NewReader("second"))
		must.Do(t, <-u.written)
		data, _, _ := blob.ReadAll(t.Context(), Bucket(dir), name, 10)
		if !errors.Is(err, syscall.EINVAL) || renamed || string(data) == "second" {
			t.Errorf("%s: contents that cannot be synced: %v, it holds %q, renamed %t; want %v, the old, false", name,
				err, data, renamed, syscall.EINVAL)
		}
	}
}

// TestParentRemoved: an object is created although making its parent directory says that it exists while another
// process has just removed it. The call 5 of the write is the one that makes the parent, after it has looked for the
// object and has made the draft's directory, its contents and its mark.
func TestParentRemoved(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	root := layoutOf(t, dir)
	f := &failing{fileSystem: root, at: 5, err: syscall.EEXIST}
	s := &bucket{dir: dir, opened: f}
	if created, err := blob.Create(t.Context(), s, "a/b", []byte("x")); !created || err != nil {
		t.Errorf("created: %t, %v, want that it was", created, err)
	}
}
