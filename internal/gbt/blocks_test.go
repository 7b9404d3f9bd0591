package gbt

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// fakeDisk is a disk from which a table's rows are read part by part, into memory of which nothing is left afterwards.
type fakeDisk struct {
	Disk
	read    int // bytes
	there   int // parts in memory
	largest int // of there
	unread  int // reads that nobody has waited for
	most    int // of unread
}

// nobins are beyond any feature's.
func nobins(n int) []byte { return bytes.Repeat([]byte{255}, n) }

// onDisk returns a table whose rows are on a disk only, read in parts of block bytes, of which memory has so many.
func onDisk(d *Data, block, blocks int) (*Data, *fakeDisk) {
	f := &fakeDisk{Disk: Disk{Block: block, Blocks: blocks, Ahead: func([]byte) {}}}
	table := *d
	table.Disk, table.RowMajor = &f.Disk, nobins(len(d.RowMajor))
	whole := cap(table.RowMajor)
	f.Fetch = func(part []byte) ([]byte, func() error) {
		f.read += len(part)
		f.there++
		f.largest = max(f.largest, f.there)
		f.unread++
		f.most = max(f.most, f.unread)
		fetched := nobins(len(part))
		return fetched, func() error {
			f.unread--
			copy(fetched, d.RowMajor[whole-cap(part):])
			return nil
		}
	}
	f.Drop = func(fetched []byte) {
		f.there--
		copy(fetched, nobins(len(fetched)))
	}
	return &table, f
}

// check checks what a training has left, and had in memory at once.
func (f *fakeDisk) check(t *testing.T) {
	t.Helper()
	if most := max(f.Blocks, blocksAhead); f.largest > most {
		t.Errorf("room for %d blocks: %d in memory, want %d at most", f.Blocks, f.largest, most)
	}
	if f.most > blocksAhead {
		t.Errorf("room for %d blocks: %d reads at once, want %d at most", f.Blocks, f.most, blocksAhead)
	}
	if f.there != 0 || f.unread != 0 {
		t.Errorf("room for %d blocks: %d in memory after the training and %d reads, want none", f.Blocks, f.there,
			f.unread)
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

	const block = 4 << 20
	for _, blocks := range []int{0, 3, 1 << 20} { // nothing stays, one block of four, everything
		out, disk := onDisk(&d.Data, block, blocks)
		got := mustTrain(t, out, p, Options{Threads: 1})
		if !bytes.Equal(text(t, got.Model), text(t, want.Model)) {
			t.Errorf("room for %d blocks: another model: %s", blocks,
				firstDifference(text(t, got.Model), text(t, want.Model)))
		}

		// a pass for each level, one for the root, and one in vain
		passes := levels + 2*len(want.Model.Trees)
		again := max(len(d.RowMajor)-max(blocks-blocksAhead, 0)*block, 0)
		if most := len(d.RowMajor) + again*(passes-1); disk.read > most {
			t.Errorf("room for %d blocks: %d bytes read, want %d at most", blocks, disk.read, most)
		}
		disk.check(t)
	}

	out, disk := onDisk(&d.Data, block, 1<<20)
	fetch := disk.Fetch
	disk.Fetch = func(part []byte) ([]byte, func() error) {
		fetched, wait := fetch(part)
		return fetched, func() error { return errors.Join(wait(), errors.ErrUnsupported) }
	}
	if _, err := Train(t.Context(), out, p, Options{Threads: 1}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a disk that cannot be read: %v, want its error", err)
	}
	disk.check(t)

	table := d.Data // the workers' disk counts nothing, since they read at once
	table.Disk = &Disk{Block: block, Drop: func([]byte) {}, Ahead: func([]byte) {},
		Fetch: func(part []byte) ([]byte, func() error) { return part, func() error { return nil } }}
	results, errs := trainTogether(t, &table, p, Options{Threads: 2}, []int{0, 0, 90_000, d.Rows}, -1, nil)
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
		rng := rand.New(rand.NewPCG(seed, 23))
		block := 1500 + rng.IntN(10_501)
		out, disk := onDisk(&trial.Data, block, rng.IntN(6))
		if len(out.RowMajor) > block {
			several++
		}
		if got := text(t, mustTrain(t, out, trial.p, Options{Threads: 2}).Model); !bytes.Equal(got, want) {
			t.Errorf("%v\nanother model out of core: %s", trial, firstDifference(got, want))
		}
		disk.check(t)
	}
	if several < 75 {
		t.Errorf("%d tables of several blocks, want at least 75", several)
	}
}
