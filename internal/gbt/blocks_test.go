package gbt

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// fakeDisk is a disk whose parts are there only while they may be read; all other bytes are beyond any feature's bins.
type fakeDisk struct {
	Disk
	read    int // bytes
	there   int // bytes in memory
	largest int // of there
	unread  int // reads that nobody has waited for
	most    int // of unread
}

func newFakeDisk(d *Data, keep, block int) *fakeDisk {
	f := &fakeDisk{}
	f.Rows, f.Keep, f.Block = bytes.Repeat([]byte{255}, len(d.RowMajor)), keep, block
	f.Fetch = func(part []byte) func() error {
		f.read += len(part)
		f.there += len(part)
		f.largest = max(f.largest, f.there)
		f.unread++
		f.most = max(f.most, f.unread)
		return func() error {
			f.unread--
			copy(part, d.RowMajor[cap(f.Rows)-cap(part):])
			return nil
		}
	}
	f.Drop = func(part []byte) {
		f.there -= len(part)
		copy(part, bytes.Repeat([]byte{255}, len(part)))
	}
	f.Ahead = func([]byte) {}
	return f
}

// check checks what a training has left, and had in memory at once.
func (f *fakeDisk) check(t *testing.T, block int) {
	t.Helper()
	if most := max(f.Keep, blocksAhead*block); f.largest > most {
		t.Errorf("keeping %d bytes: %d in memory, want %d at most", f.Keep, f.largest, most)
	}
	if f.most > blocksAhead {
		t.Errorf("keeping %d bytes: %d reads at once, want %d at most", f.Keep, f.most, blocksAhead)
	}
	if f.there != 0 || f.unread != 0 {
		t.Errorf("keeping %d bytes: %d in memory after the training and %d reads, want none", f.Keep, f.there, f.unread)
	}
}

// TestOutOfCore: a table that is read block by block for several leaves at a time gives the same model in few passes,
// whatever fits memory. So do workers, one of which has no rows.
func TestOutOfCore(t *testing.T) {
	d := randomTable(tableSpec{rows: 200_000, numerical: 60, categorical: 4, bins: 40, missing: 0.1, seed: 5})
	p := Defaults()
	p.NumIterations, p.BaggingFraction, p.BaggingFreq = 2, 0.7, 1
	want := mustTrain(t, &d.Data, p, Options{Threads: 1})
	levels := 0 // of all trees
	for _, tree := range want.Model.Trees {
		levels += tree.depth()
	}

	var disk *fakeDisk
	out := d.Data
	for _, keep := range []int{0, 3 * blockBytes, 1 << 40} { // nothing, one block of four, everything
		disk = newFakeDisk(&d.Data, keep, 0)
		out.Disk = &disk.Disk
		got := mustTrain(t, &out, p, Options{Threads: 1})
		if !bytes.Equal(text(t, got.Model), text(t, want.Model)) {
			t.Errorf("keeping %d bytes: another model: %s", keep,
				firstDifference(text(t, got.Model), text(t, want.Model)))
		}

		// a pass for each level, one for the root, and one in vain
		passes := levels + 2*len(want.Model.Trees)
		again := max(len(d.RowMajor)-max(keep-blocksAhead*blockBytes, 0), 0)
		if most := len(d.RowMajor) + again*(passes-1); disk.read > most {
			t.Errorf("keeping %d bytes: %d read, want %d at most", keep, disk.read, most)
		}
		disk.check(t, blockBytes)
	}

	disk = newFakeDisk(&d.Data, 1<<40, 0)
	fetch := disk.Fetch
	disk.Fetch = func(part []byte) func() error {
		wait := fetch(part)
		return func() error { return errors.Join(wait(), errors.ErrUnsupported) }
	}
	out.Disk = &disk.Disk
	if _, err := Train(t.Context(), &out, p, Options{Threads: 1}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a disk that cannot be read: %v, want its error", err)
	}
	disk.check(t, blockBytes)

	out.Disk = &Disk{Rows: slices.Clone(d.RowMajor), Drop: func([]byte) {}, Ahead: func([]byte) {},
		Fetch: func([]byte) func() error { return func() error { return nil } }}
	results, errs := trainTogether(t, &out, p, Options{Threads: 2}, []int{0, 0, 90_000, d.Rows}, -1, nil)
	for w, got := range results {
		if errs[w] != nil {
			t.Fatalf("worker %d: %v", w, errs[w])
		}
		if !bytes.Equal(text(t, got.Model), text(t, want.Model)) {
			t.Errorf("worker %d has another model", w)
		}
	}
}

// TestOutOfCoreTrials: random tables and parameters have the same model out of core, too, whatever the blocks, of which
// most tables have several, and up to three stay.
func TestOutOfCoreTrials(t *testing.T) {
	several := 0
	for seed := range uint64(150) {
		trial := randomTrial(seed, tableOfFew)
		want := text(t, mustTrain(t, &trial.Data, trial.p, Options{Threads: 2}).Model)
		out := trial.Data
		rng := rand.New(rand.NewPCG(seed, 23))
		block := 1500 + rng.IntN(10_501)
		disk := newFakeDisk(&trial.Data, rng.IntN(6)*block, block)
		if len(disk.Rows) > block {
			several++
		}
		out.Disk = &disk.Disk
		if got := text(t, mustTrain(t, &out, trial.p, Options{Threads: 2}).Model); !bytes.Equal(got, want) {
			t.Errorf("%v\nanother model out of core: %s", trial, firstDifference(got, want))
		}
		disk.check(t, block)
	}
	if several < 75 {
		t.Errorf("%d tables of several blocks, want at least 75", several)
	}
}
