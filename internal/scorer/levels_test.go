package scorer_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
)

// cached is a registered version with levels, and a folder to map them from.
type cached struct {
	store    blob.Store
	registry *registry.Registry
	version  registry.Version
	levels   registry.File
	good     []byte // the levels
	dir      string // of the cache; not there yet
}

func newCached(t *testing.T) *cached {
	t.Helper()
	parts, store := files(t), blob.Memory()
	c := &cached{store: store, registry: registry.New(store), good: parts[scorer.FileLevels],
		dir: filepath.Join(t.TempDir(), "levels", "here")}
	var err error
	if c.version, err = c.registry.Register(t.Context(), "ctr", "night-1", parts,
		registry.Info{At: time.Unix(1, 0), By: "test"}); err != nil {
		t.Fatal(err)
	}
	c.levels, _ = c.version.File(scorer.FileLevels)
	return c
}

// open opens the version with the cache, and predicts a few rows.
func (c *cached) open(t *testing.T) ([]float64, error) {
	s, err := scorer.OpenMapped(t.Context(), c.registry, c.version, c.dir)
	if err != nil {
		return nil, err
	}
	raw, _, _, err := s.Batch(clicks(200), nil, 1, nil)
	return raw, errors.Join(err, s.Close())
}

func (c *cached) file() string { return filepath.Join(c.dir, c.levels.SHA256+".arrow") }

// clicks are rows of the table of datasettest, some with users and sites that it does not have.
func clicks(rows int) *table.Batch {
	rng := rand.New(rand.NewPCG(3, 3))
	b := &table.Batch{Names: []string{"user_id", "campaign_id", "site", "hour", "age", "price", "day"}, Rows: rows}
	b.Columns = make([]dataset.Values, len(b.Names))
	for i := range b.Columns {
		b.Columns[i].Type = dataset.Text
	}
	for range rows {
		for i, text := range []string{fmt.Sprint("u", rng.IntN(300)), fmt.Sprint(4000 + rng.IntN(14)),
			fmt.Sprint("site", rng.IntN(50)), fmt.Sprint(rng.IntN(24)),
			[]string{"", "19", "55"}[rng.IntN(3)], fmt.Sprint(rng.Float64() * 3),
			fmt.Sprintf("2026-11-%02d", 1+rng.IntN(30))} {
			b.Columns[i].Text = append(b.Columns[i].Text, text)
		}
	}
	return b
}

func sameBits(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

// What was fetched once is not fetched again: the registry may have lost it.
func TestOpenMappedUsesItsCache(t *testing.T) {
	c := newCached(t)
	plain := must.Get(scorer.Open(t.Context(), c.registry, c.version))(t)
	want, _, _, err := plain.Batch(clicks(200), nil, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.open(t); err != nil || !sameBits(got, want) {
		t.Fatalf("the first time: %v", err)
	}
	if kept, err := os.ReadFile(c.file()); err != nil || !bytes.Equal(kept, c.good) {
		t.Fatalf("the cache holds something else than the version (%v)", err)
	}

	put(t, c.store, c.levels.Object, []byte("lost"))
	if got, err := c.open(t); err != nil || !sameBits(got, want) {
		t.Errorf("from the cache: %v", err)
	}
	if _, err := scorer.Open(t.Context(), c.registry, c.version); !problem.Is(err, problem.Damaged) {
		t.Errorf("without the cache: got %v, want an UnfitError", err)
	}
}

// A cached file that is not what was registered is fetched anew; where that cannot be done, nothing is predicted with
// it.
func TestOpenMappedNoticesDamage(t *testing.T) {
	c := newCached(t)
	want := must.Get(c.open(t))(t)
	flipped := func(place int) []byte {
		bad := bytes.Clone(c.good)
		bad[place] ^= 1
		return bad
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "cut off": c.good[:len(c.good)-1], "longer": append(bytes.Clone(c.good), 0),
		"first byte": flipped(0), "some byte": flipped(len(c.good) / 2), "last byte": flipped(len(c.good) - 1),
	} {
		write := func() {
			must.Do(t, os.WriteFile(c.file(), bad, 0o600))
		}
		write()
		if got, err := c.open(t); err != nil || !sameBits(got, want) {
			t.Errorf("%s, fetched anew: %v", name, err)
		}
		if kept, err := os.ReadFile(c.file()); err != nil || !bytes.Equal(kept, c.good) {
			t.Errorf("%s: the cache was not put right (%v)", name, err)
		}

		write()
		put(t, c.store, c.levels.Object, flipped(7))
		if _, err := c.open(t); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s, with a registry that is damaged, too: %v", name, err)
		}
		put(t, c.store, c.levels.Object, c.good)
	}
}

// Several may find the cache empty at once, and all of them predict; one file is left.
func TestOpenMappedAtOnce(t *testing.T) {
	c := newCached(t)
	all := make([][]float64, 8)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = c.open(t); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range all {
		if !sameBits(all[i], all[0]) {
			t.Errorf("scorer %d predicts otherwise than the first", i)
		}
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) != 1 ||
		entries[0].Name() != filepath.Base(c.file()) {
		t.Errorf("the cache holds %v (%v)", entries, err)
	}
}

// Where the cache cannot be written, as with a home that is read-only, the version predicts from memory.
func TestOpenMappedWithoutACache(t *testing.T) {
	c := newCached(t)
	want := must.Get(c.open(t))(t)
	blocked := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(blocked, nil, 0o600))
	locked := filepath.Join(t.TempDir(), "locked") // which root may write to all the same
	must.Do(t, os.Mkdir(locked, 0o500))
	for _, c.dir = range []string{filepath.Join(blocked, "levels"), "/dev/null/levels", locked} {
		if got, err := c.open(t); err != nil || !sameBits(got, want) {
			t.Errorf("%s: %v, or other predictions", c.dir, err)
		}
	}
}

// The cache is swept whenever it is used: of what was not used for a month, and of the oldest beyond four GiB.
func TestOpenMappedSweepsItsCache(t *testing.T) {
	c := newCached(t)
	must.Do(t, os.MkdirAll(c.dir, 0o700))
	add := func(name string, age time.Duration, bytes int64) {
		path := filepath.Join(c.dir, name)
		must.Do(t, os.WriteFile(path, nil, 0o600))
		if err := os.Truncate(path, bytes); err != nil { // without taking the disk
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		must.Do(t, os.Chtimes(path, then, then))
	}
	const day = 24 * time.Hour
	add("recent.arrow", day, 1<<30)
	add("older.arrow", 2*day, 2<<30)
	add("beyond.arrow", 3*day, 2<<30)
	add("small.arrow", 4*day, 1<<10)
	add("ancient.arrow", 31*day, 1)
	add(".left.arrow123", 31*day, 1)
	add("notes.txt", 31*day, 1)
	for range 2 { // the first fetches, the second finds
		must.Get(c.open(t))(t)
		var names []string
		entries := must.Get(os.ReadDir(c.dir))(t)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want := []string{filepath.Base(c.file()), "notes.txt", "older.arrow", "recent.arrow", "small.arrow"}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("the cache holds %v, want %v", names, want)
		}
	}

	old := time.Now().Add(-20 * day)
	must.Do(t, os.Chtimes(c.file(), old, old))
	must.Get(c.open(t))(t)
	if info, err := os.Stat(c.file()); err != nil || time.Since(info.ModTime()) > day {
		t.Errorf("what is used does not become young (%v)", err)
	}
}
