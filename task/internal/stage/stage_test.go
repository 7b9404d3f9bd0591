package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// counting is a store that counts how many ranges are opened.
type counting struct {
	*blobtest.Hooked
	opened atomic.Int64
}

// world returns a store with a dataset, a request for that dataset with a scratch folder of its own, and its manifest.
// The dataset is so small that each file is one block, which one opened range fetches.
func world(t *testing.T) (*counting, Request, *dataset.Manifest) {
	t.Helper()
	store := &counting{Hooked: &blobtest.Hooked{Store: blob.Memory()}}
	store.After = func(_ context.Context, call blobtest.Call, _ string, err error) error {
		if call == blobtest.Open {
			store.opened.Add(1)
		}
		return err
	}
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 1000})
	datasettest.Upload(t, store, dir, m)
	return store, Request{Store: store, Dataset: sweep.DatasetRef{Name: m.Name, Version: m.Version},
		Scratch: t.TempDir(),
		Log:     slog.New(slog.NewTextHandler(io.Discard, nil))}, m
}

// TestOncePerMachine: six tasks of a machine that ask at once share one whole copy, for which every file is fetched
// once.
func TestOncePerMachine(t *testing.T) {
	store, q, m := world(t)
	var wg sync.WaitGroup
	dirs := make([]string, 6)
	for i := range dirs {
		wg.Go(func() {
			var err error
			if dirs[i], err = Dataset(t.Context(), q); err != nil {
				t.Errorf("task %d: got error %v, want a copy", i, err)
			}
		})
	}
	wg.Wait()
	for _, d := range dirs {
		if d != dirs[0] {
			t.Errorf("asked at once, the dataset lies in %q; want one place for all", dirs)
		}
	}
	ds := must.Get(dataset.Open(dirs[0]))(t)
	defer ds.Close()
	if err := ds.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if n := int(store.opened.Load()); n != len(m.Files)+1 {
		t.Errorf("%d ranges were fetched for %d files and the manifest, want each once", n, len(m.Files))
	}
}

// TestInterruptedCopyIsUsed: a copy that was interrupted does not appear under its final name. The next attempt fetches
// only what is missing or damaged, and its progress counts what is there.
func TestInterruptedCopyIsUsed(t *testing.T) {
	// The last file cannot be fetched; all others are complete before that error comes.
	store, q, m := world(t)
	down := errors.New("out of reach")
	last := m.Files[len(m.Files)-1].Name
	store.Before = func(_ context.Context, call blobtest.Call, name string) error {
		if call != blobtest.Open || !strings.HasSuffix(name, "/"+last) {
			return nil
		}
		// Wait until the manifest and all other files have been opened: those are read to their end.
		for store.opened.Load() < int64(len(m.Files)) {
			runtime.Gosched()
		}
		return down
	}
	if _, err := Dataset(t.Context(), q); !errors.Is(err, down) {
		t.Fatalf("fetched from a store that is down: got %v; want its error", err)
	}
	final := filepath.Join(q.Scratch, "datasets", m.Name, m.Version)
	if _, err := os.Stat(final); !errors.Is(err, fs.ErrNotExist) {
		t.Error("an incomplete copy is in its place; want it to stay beside")
	}

	// Damage one file of the partial copy, and continue.
	damaged := filepath.Join(final+".partial", filepath.FromSlash(m.Files[0].Name))
	data := must.Get(os.ReadFile(damaged))(t)
	data[len(data)/2] ^= 1
	must.Do(t, os.WriteFile(damaged, data, 0o644))
	store.Before = nil
	store.opened.Store(0)
	var done, total int64
	var mu sync.Mutex
	q.Progress = func(d, n int64) {
		mu.Lock()
		defer mu.Unlock()
		done, total = max(done, d), n
	}
	dir := must.Get(Dataset(t.Context(), q))(t)
	ds := must.Get(dataset.Open(dir))(t)
	defer ds.Close()
	if err := ds.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if n := int(store.opened.Load()); n != 3 { // the manifest, the damaged file and the one that was out of reach
		t.Errorf("%d ranges were fetched by the second attempt, want 3", n)
	}
	if done != total || total != m.Bytes() {
		t.Errorf("progress ended at %d of %d, want all %d bytes of the dataset", done, total, m.Bytes())
	}
}

// TestDamageOnTheWay: data that is damaged in transit, the manifest's included, is fetched again, as long as it arrives
// whole within the allowed number of attempts.
func TestDamageOnTheWay(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"a flipped bit": func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"cut":           func(b []byte) []byte { return b[:len(b)/2] },
	} {
		for _, times := range []int{1, fetches - 1} {
			t.Run(fmt.Sprintf("%s, %d times", name, times), func(t *testing.T) {
				store, q, m := world(t)
				var mu sync.Mutex
				read := map[string]int{} // by object, how often
				q.Store = &blobtest.Hooked{Store: store, Reads: func(name string, data []byte) ([]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					if read[name]++; read[name] <= times {
						data = spoil(data)
					}
					return data, nil
				}}
				synctest.Test(t, func(t *testing.T) { // pauses between attempts take no time
					dir, err := Dataset(t.Context(), q)
					if err != nil {
						t.Fatalf("staging from a store that spoils the first %d reads of each object ended with %v, "+
							"want none", times, err)
					}
					if _, err := dataset.Check(t.Context(), dir, nil); err != nil {
						t.Errorf("the copy is not whole: %v", err)
					}
				})
				if n := int(store.opened.Load()); n != (times+1)*(len(m.Files)+1) {
					t.Errorf("%d ranges were fetched, want each of %d objects %d times", n, len(m.Files)+1, times+1)
				}
			})
		}
	}
}

// TestWrongObjects: objects in the bucket that are damaged, a manifest of another version, and a version that is not
// there are each an error of their kind.
func TestWrongObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*testing.T, *counting, *dataset.Manifest)
		want  func(error) bool
	}{
		"a changed byte": {func(t *testing.T, s *counting, m *dataset.Manifest) {
			rewrite(t, s, m, m.Files[0].Name, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}, isCorrupt},
		"truncated": {func(t *testing.T, s *counting, m *dataset.Manifest) {
			rewrite(t, s, m, m.Files[1].Name, func(b []byte) []byte { return b[:len(b)-1] })
		}, isCorrupt},
		"another dataset's manifest": {func(t *testing.T, s *counting, m *dataset.Manifest) {
			dir, other := datasettest.Dir(t, datasettest.Options{Rows: 500})
			text, err := os.ReadFile(filepath.Join(dir, dataset.ManifestFile))
			if err != nil || other.Version == m.Version {
				t.Fatalf("the other dataset is %s, %v, expected another version than %s", other.Version, err, m.Version)
			}
			rewrite(t, s, m, dataset.ManifestFile, func([]byte) []byte { return text })
		}, func(err error) bool { return errors.Is(err, ErrVersion) }},
		"no manifest of ours": {func(t *testing.T, s *counting, m *dataset.Manifest) {
			rewrite(t, s, m, dataset.ManifestFile, func([]byte) []byte { return []byte("{}") })
		}, func(err error) bool { return problem.Is(err, problem.Damaged) }},
	} {
		t.Run(name, func(t *testing.T) {
			store, q, m := world(t)
			tc.spoil(t, store, m)
			synctest.Test(t, func(t *testing.T) {
				if _, err := Dataset(t.Context(), q); !tc.want(err) {
					t.Errorf("got %v; want the error of the case", err)
				}
			})
		})
	}
	_, q, _ := world(t)
	q.Dataset.Version = "ffffffffffffffff"
	if _, err := Dataset(t.Context(), q); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("fetched a version that does not exist: got %v; want ErrNotExist", err)
	}
}

// isCorrupt reports whether an error is about damaged data.
func isCorrupt(err error) bool { var c *dataset.CorruptError; return errors.As(err, &c) }

// rewrite replaces a file of the dataset in the bucket by what edit makes of it.
func rewrite(t *testing.T, s *counting, m *dataset.Manifest, file string, edit func([]byte) []byte) {
	t.Helper()
	name := sweep.DatasetDir(m.Name, m.Version) + file
	data, _ := must.Get2(blob.ReadAll(t.Context(), s, name, 1<<26))(t)
	must.Get(s.Put(t.Context(), name, blob.Any, bytes.NewReader(edit(data))))(t)
}

// TestCancelledTask: a task whose context has ended before it begins returns the context's error and leaves no copy
// under its final name.
func TestCancelledTask(t *testing.T) {
	_, q, m := world(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dataset(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v, want that of the context", err)
	}
	if _, err := os.Stat(filepath.Join(q.Scratch, "datasets", m.Name, m.Version)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy after a cancellation: got %v, want it not to exist", err)
	}
}

// TestADamagedCopyIsReplaced: whichever file of a copy was damaged, and in whatever way, the next task gets a whole
// copy, all files of which are fetched again. A whole copy is not fetched again. This holds whether the mark of the
// last verification is believed or too old.
func TestADamagedCopyIsReplaced(t *testing.T) {
	// file damages one file of a copy.
	file := func(name string, spoil func(path string, data []byte) error) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, filepath.FromSlash(name))
			data, err := os.ReadFile(path)
			if err == nil {
				err = spoil(path, data)
			}
			must.Do(t, err)
		}
	}
	flip := func(path string, data []byte) error { data[len(data)/2] ^= 1; return os.WriteFile(path, data, 0o644) }
	labels := dataset.TargetsFile(dataset.TrainSplit)

	for name, tc := range map[string]struct {
		spoil    func(*testing.T, string)
		replaced bool
	}{
		"whole":         {func(*testing.T, string) {}, false},
		"a flipped bit": {file(labels, flip), true},
		"labels zeroed": {file(labels,
			func(path string, data []byte) error { return os.WriteFile(path, make([]byte, len(data)), 0o644) }), true},
		"a cut file": {file(labels,
			func(path string, data []byte) error { return os.Truncate(path, int64(len(data)/2)) }), true},
		"a file is missing": {file(labels, func(path string, _ []byte) error { return os.Remove(path) }), true},
		"the manifest":      {file(dataset.ManifestFile, flip), true},
		"no manifest": {file(dataset.ManifestFile,
			func(path string, _ []byte) error { return os.Remove(path) }), true},
		"of the sample alone": {file(dataset.SampleFile, flip), true},
	} {
		for since, verified := range map[string]time.Duration{"the mark is believed": -time.Hour,
			"the mark is too old": time.Hour} {
			t.Run(name+", "+since, func(t *testing.T) {
				store, q, m := world(t)
				dir := must.Get(Dataset(t.Context(), q))(t)
				tc.spoil(t, dir)
				store.opened.Store(0)

				// A mark from before q.Since is too old. All cases but "whole" change what a believed mark has noted:
				// a file's size or time, or the manifest.
				q.Since = time.Now().Add(verified)
				ds, err := Open(t.Context(), q)
				if err != nil {
					t.Fatalf("opening a damaged copy ended with %v, want another copy", err)
				}
				defer ds.Close()
				if err := ds.Verify(t.Context(), nil); err != nil {
					t.Errorf("what was opened is not whole: %v", err)
				}
				want := 0
				if tc.replaced {
					want = len(m.Files) + 1
				}
				if n := int(store.opened.Load()); n != want {
					t.Errorf("%d ranges were fetched, want %d", n, want)
				}
			})
		}
	}
}

// TestAFlipThatCannotBeSeen: damage that leaves a file's size and time as they were is not seen while the mark is
// believed, and is found and repaired once the copy is verified again.
func TestAFlipThatCannotBeSeen(t *testing.T) {
	_, q, _ := world(t)
	dir := must.Get(Dataset(t.Context(), q))(t)
	path := filepath.Join(dir, filepath.FromSlash(dataset.TargetsFile(dataset.TrainSplit)))
	info := must.Get(os.Stat(path))(t)
	data := must.Get(os.ReadFile(path))(t)
	data[len(data)/2] ^= 1
	must.Do(t, errors.Join(os.WriteFile(path, data, 0o644), os.Chtimes(path, time.Time{}, info.ModTime())))

	for _, step := range []struct {
		since time.Time
		whole bool
	}{{time.Time{}, false}, {time.Now(), true}} {
		q.Since = step.since
		must.Get(Dataset(t.Context(), q))(t)
		if _, err := dataset.Check(t.Context(), dir, nil); (err == nil) != step.whole {
			t.Errorf("with a mark from %s or later believed, the copy has %v; want it whole: %t", step.since, err,
				step.whole)
		}
	}
}

// TestDiskErrorsAreKnown: a disk that does not take the copy is a transient error, not one that blames the dataset.
func TestDiskErrorsAreKnown(t *testing.T) {
	_, q, _ := world(t)
	q.Scratch = filepath.Join(q.Scratch, "file")
	must.Do(t, os.WriteFile(q.Scratch, nil, 0o644))
	if _, err := Dataset(t.Context(), q); !problem.Is(err, problem.Transient) {
		t.Errorf("staging into a scratch folder that is a file ended with %v, expected a transient error", err)
	}
}

// hearing is a log handler that calls a function at each log line with a given message.
type hearing struct {
	slog.Handler
	message string
	do      func()
}

func (h hearing) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.do()
	}
	return h.Handler.Handle(ctx, r)
}

// TestACopyThatIsDamagedBeforeItIsOpened: if the disk cuts a file between verifying the copy and mapping it, the copy
// is fetched again, since the dataset is not at fault: an error that blames it would end the whole job. If that happens
// each time, Open gives up with the error about the file.
func TestACopyThatIsDamagedBeforeItIsOpened(t *testing.T) {
	for _, times := range []int{1, opens - 1, opens} {
		_, q, m := world(t)
		dir := filepath.Join(q.Scratch, "datasets", m.Name, m.Version)
		// The log tells when the copy has been verified, at "dataset staged", and when Open gives it up.
		left, replaced := times, 0
		again := hearing{slog.NewTextHandler(io.Discard, nil),
			"the machine's copy of the dataset is damaged; fetching it again", func() { replaced++ }}
		q.Log = slog.New(hearing{again, "dataset staged", func() {
			if left--; left >= 0 {
				if err := os.Truncate(filepath.Join(dir, dataset.TrainSplit, "rows.arrow"), 1000); err != nil {
					t.Error(err)
				}
			}
		}})

		ds, err := Open(t.Context(), q)
		if times < opens {
			if err != nil || replaced != times {
				t.Errorf("damaged %d times: %v, replaced %d times; want it opened after that", times, err, replaced)
				continue
			}
			if err := ds.Close(); err != nil {
				t.Errorf("closing the dataset: got error %v, want none", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "rows.arrow") || left != 0 {
			t.Errorf("damaged each of %d times: %v; want an error about the file", times, err)
		}
	}
}

// Dataset provides the dataset and returns its folder, without opening it and without keeping the lock. Tests use it to
// look at the folder.
func Dataset(ctx context.Context, q Request) (string, error) {
	dir, unlock, err := q.provide(ctx)
	if err != nil {
		return "", err
	}
	return dir, unlock()
}
