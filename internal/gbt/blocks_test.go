package gbt

import (
	"bytes"
	"testing"
)

// TestOutOfCore: a table that is read block by block, forwards and backwards, for several leaves at a time gives the
// same model, and is read less often than once for each split. So do workers, one of which has no rows.
func TestOutOfCore(t *testing.T) {
	d := randomTable(tableSpec{rows: 140_000, numerical: 60, categorical: 4, bins: 40, missing: 0.1, seed: 5})
	width := len(d.Features)
	block := blockBytes / width * width
	if len(d.RowMajor) <= 2*block {
		t.Fatalf("the table has %d bytes, want three blocks of %d", len(d.RowMajor), block)
	}
	p := Defaults()
	p.NumIterations, p.BaggingFraction, p.BaggingFreq = 3, 0.7, 1
	want := mustTrain(t, &d.Data, p, Options{Threads: 1})

	read, last, forward, backward := 0, 0, 0, 0
	out := d.Data
	out.Prefetch = func(part []byte) {
		read += len(part)
		if len(part) == d.Rows { // a column
			return
		}
		at := cap(d.RowMajor) - cap(part)
		switch at - last {
		case block:
			forward++
		case -block:
			backward++
		}
		last = at
	}
	got := mustTrain(t, &out, p, Options{Threads: 1})
	if !bytes.Equal(text(t, got.Model), text(t, want.Model)) {
		t.Errorf("another model: %s", firstDifference(text(t, got.Model), text(t, want.Model)))
	}
	if forward == 0 || backward == 0 {
		t.Errorf("%d steps forwards and %d backwards, want both", forward, backward)
	}
	splits := 0
	for _, tree := range got.Model.Trees {
		splits += len(tree.Feature)
	}
	if most := splits * (d.Rows + len(d.RowMajor)*2/3); read > most {
		t.Errorf("%d bytes read for %d splits, want %d at most", read, splits, most)
	}

	out.Prefetch = func([]byte) {}
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
