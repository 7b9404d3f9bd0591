package gbt

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// fakeDisk is a disk whose parts are there only while they may be read; all other bytes are beyond any feature's bins.
type fakeDisk struct {
	Disk
	read    int // bytes
	there   int // bytes in memory
	largest int // of there
}

func newFakeDisk(d *Data, keep int) *fakeDisk {
	f := &fakeDisk{}
	f.Rows, f.Keep = bytes.Repeat([]byte{255}, len(d.RowMajor)), keep
	f.Fetch = func(part []byte) func() error {
		f.read += len(part)
		f.there += len(part)
		f.largest = max(f.largest, f.there)
		return func() error {
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
		disk = newFakeDisk(&d.Data, keep)
		out.Disk = &disk.Disk
		got := mustTrain(t, &out, p, Options{Threads: 1})
		if !bytes.Equal(text(t, got.Model), text(t, want.Model)) {
			t.Errorf("keeping %d bytes: another model: %s", keep, firstDifference(text(t, got.Model), text(t, want.Model)))
		}

		// a pass for each level, one for the root, and one in vain
		passes := levels + 2*len(want.Model.Trees)
		again := max(len(d.RowMajor)-max(keep-blocksAhead*blockBytes, 0), 0)
		if most := len(d.RowMajor) + again*(passes-1); disk.read > most {
			t.Errorf("keeping %d bytes: %d read, want %d at most", keep, disk.read, most)
		}
		if most := max(keep, blocksAhead*blockBytes); disk.largest > most {
			t.Errorf("keeping %d bytes: %d in memory, want %d at most", keep, disk.largest, most)
		}
	}

	disk = newFakeDisk(&d.Data, 0)
	disk.Fetch = func([]byte) func() error { return func() error { return errors.ErrUnsupported } }
	out.Disk = &disk.Disk
	if _, err := Train(t.Context(), &out, p, Options{Threads: 1}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a disk that cannot be read: %v, want its error", err)
	}

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

// TestOutOfCoreTrials: random tables and parameters have the same model out of core, too.
func TestOutOfCoreTrials(t *testing.T) {
	for seed := range uint64(150) {
		trial := randomTrial(seed, tableOfFew)
		want := text(t, mustTrain(t, &trial.Data, trial.p, Options{Threads: 2}).Model)
		out := trial.Data
		out.Disk = &newFakeDisk(&trial.Data, 0).Disk
		if got := text(t, mustTrain(t, &out, trial.p, Options{Threads: 2}).Model); !bytes.Equal(got, want) {
			t.Errorf("%v\nanother model out of core: %s", trial, firstDifference(got, want))
		}
	}
}
