package folder

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
)

// TestMain makes the test binary a writer (see write) if COPPICE_TEST_FOLDER is set.
func TestMain(m *testing.M) {
	if dir := os.Getenv("COPPICE_TEST_FOLDER"); dir != "" {
		dies, _ := strconv.Atoi(os.Getenv("COPPICE_TEST_DIES"))
		write(dir, dies)
	}
	os.Exit(m.Run())
}

// write is a process that writes to a bucket until it is killed. In each turn it adds 1 to the object "number" if
// nobody else has meanwhile; creates an object that only one writer may create; and creates and removes another. It
// prints each success. If dies is not 0, it kills itself before the call with that number.
func write(dir string, dies int) {
	s := &bucket{dir: dir}
	root, err := s.root()
	if err != nil {
		panic(err)
	}
	step := func(string) {
		if dies--; dies == 0 {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {} // the signal comes in a moment
		}
	}
	s.opened = &failing{fileSystem: root, before: step}
	ctx := context.Background()
	for {
		number, now, err := blob.ReadAll(ctx, s, "number", 1<<20)
		if err != nil {
			panic(err)
		}
		n, err := strconv.Atoi(strings.TrimRight(string(number), "\n"))
		if err != nil || n >= 1<<20 {
			panic(fmt.Sprintf("a mixture: %.40q, %v", number, err))
		}
		// The number, and so many empty lines that contents differ in length: a mixture of two would be noticed.
		next := strings.NewReader(strconv.Itoa(n+1) + strings.Repeat("\n", n%5000))
		_, err = s.Put(ctx, "number", now.Generation, readerFunc(func(p []byte) (int, error) {
			step("") // dying here leaves a part of the contents
			return next.Read(p)
		}))
		switch {
		case err == nil:
			fmt.Printf("added %d\n", n+1)
		case !errors.Is(err, blob.ErrPrecondition):
			panic(err)
		}

		// The number's tens are in the name, so that several turns, of all writers, try to create the same object.
		name := fmt.Sprintf("once/%d", n/10)
		if created, err := blob.Create(ctx, s, name, fmt.Append(nil, os.Getpid())); err != nil {
			panic(err)
		} else if created {
			fmt.Printf("created %s %d\n", name, os.Getpid())
		}

		// Six names in two directories, which come and go while other writers use them.
		name = fmt.Sprintf("brief/%d/%d", n%2, n%3)
		created, err := blob.Create(ctx, s, name, []byte("x"))
		if err != nil {
			panic(err)
		}
		a, err := s.Stat(ctx, name)
		if err == nil {
			err = s.Remove(ctx, name, a.Generation)
		}
		if err != nil && !errors.Is(err, blob.ErrNotExist) && !errors.Is(err, blob.ErrPrecondition) {
			panic(fmt.Sprintf("created %t, then %v", created, err))
		}
	}
}

// told collects what writers have printed, their successes.
type told struct {
	t       *testing.T
	program string // the test binary
	mu      sync.Mutex
	added   map[string]int    // by value of the number, how many writers were told that they made it that
	created map[string]string // by name, the process that was told that it created the object
	deaths  int
}

// newTold has nothing collected yet.
func newTold(t *testing.T) *told {
	return &told{t: t, program: must.Get(os.Executable())(t), added: map[string]int{}, created: map[string]string{}}
}

// writer runs a writer process until it is dead, and collects what it prints. The process kills itself before the call
// number dies if that is not 0, or is killed after so many successes if that is not negative.
func (w *told) writer(dir string, dies, successes int) {
	var errs strings.Builder
	cmd := exec.Command(w.program)
	cmd.Env = append(os.Environ(), "COPPICE_TEST_FOLDER="+dir, fmt.Sprint("COPPICE_TEST_DIES=", dies))
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		w.t.Errorf("the writer %s could not be started (its pipe: %v), want it running", w.program, err)
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); successes-- {
		if successes == 0 {
			_ = cmd.Process.Kill()
		}
		w.mu.Lock()
		what, rest, _ := strings.Cut(lines.Text(), " ")
		if name, who, ok := strings.Cut(rest, " "); ok && w.created[name] != "" {
			w.t.Errorf("%s was created by %s and %s", name, w.created[name], who)
		} else if ok {
			w.created[name] = who
		}
		if what == "added" {
			w.added[rest]++
		}
		w.mu.Unlock()
	}
	if err := cmd.Wait(); err == nil || errs.Len() > 0 {
		w.t.Errorf("a writer that dies before call %d: %v, %.500s", dies, err, errs.String())
	}
	w.mu.Lock()
	w.deaths++
	w.mu.Unlock()
}

// check compares what the bucket holds, seen from each machine's folder, with what the writers were told. The number is
// that of their successes, and at most one more for each that died, since it may have died before it was told. An
// object is of the process that was told that it had created it.
func (w *told) check(dirs ...string) {
	w.t.Helper()
	for _, dir := range dirs {
		data, _, err := blob.ReadAll(w.t.Context(), Bucket(dir), "number", 1<<20)
		number, convErr := strconv.Atoi(strings.TrimRight(string(data), "\n"))
		if err != nil || convErr != nil || number < len(w.added) || number > len(w.added)+w.deaths {
			w.t.Errorf("the number is %d (%v, %v) after %d successes and %d deaths", number, err, convErr,
				len(w.added), w.deaths)
		}
		for name, who := range w.created {
			if data, _, err := blob.ReadAll(w.t.Context(), Bucket(dir), name, 100); string(data) != who {
				w.t.Errorf("%s is of %q, and %s was told that it had won (%v)", name, data, who, err)
			}
		}
	}
	for n, times := range w.added {
		if times > 1 {
			w.t.Errorf("%d writers were told that they had made it %s", times, n)
		}
	}
}

// TestKilled: three writers at a time are killed after a random number of successes, again and again, and the bucket
// holds what they were told (see check).
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := memoryDir(t)
	put(t, Bucket(dir), "number", "0", blob.Absent)
	kills := 3
	if os.Getenv("COPPICE_FULL") != "" {
		kills = 100
	}
	w := newTold(t)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for range kills {
				w.writer(dir, 0, rand.IntN(20))
			}
		})
	}
	group.Wait()
	w.check(dir)
	t.Logf("%d successes, %d created", len(w.added), len(w.created))
}

// TestTwoHosts: whenever two writers die, each before one of its calls, the bucket holds what they were told (see
// check). Of all pairs of calls, 12 are tried, or 500 with COPPICE_FULL. If COPPICE_TEST_HOSTS names two mounts of one
// folder, the writers are on two machines.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	hosts := filepath.SplitList(os.Getenv("COPPICE_TEST_HOSTS"))
	if len(hosts) == 0 {
		dir := memoryDir(t)
		hosts = []string{dir, dir}
	}
	put(t, Bucket(hosts[0]), "number", "0", blob.Absent)
	const calls = 48 // of the file system: those of one turn of a writer, and some of the next
	w, pairs, draw := newTold(t), 12, rand.New(rand.NewPCG(1, 2))
	if os.Getenv("COPPICE_FULL") != "" {
		pairs = 500
	}
	for n, pair := range draw.Perm(calls * calls)[:pairs] { // pair has both numbers of calls, each from 0
		var group sync.WaitGroup
		group.Go(func() { w.writer(hosts[0], pair/calls+1, -1) })
		group.Go(func() { w.writer(hosts[1], pair%calls+1, -1) })
		group.Wait()
		if n == pairs-1 || n%50 == 0 { // it reads all that was created, so not each time
			w.check(hosts...)
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d successes, %d created, %d deaths", len(w.added), len(w.created), w.deaths)
}
