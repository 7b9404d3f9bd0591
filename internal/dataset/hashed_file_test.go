package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"coppice/internal/must"
)

// hashedParts writes a file of size bytes in the given parts, which are ranges, and gives its checksums and contents.
func hashedParts(t *testing.T, size int64, parts [][2]int64, rng *rand.Rand) (sums []string, data []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	file := must.Get(os.Create(path))(t)
	f := newHashedFile(file, size)
	defer f.Close()
	must.Do(t, f.Truncate(size))
	for _, p := range parts {
		part := make([]byte, p[1]-p[0])
		for i := range part {
			part[i] = byte(rng.Uint32())
		}
		if n, err := f.WriteAt(part, p[0]); err != nil || n != len(part) {
			t.Fatalf("writing %d bytes at %d: got %d written, error %v", len(part), p[0], n, err)
		}
	}
	data = must.Get(os.ReadFile(path))(t)
	return f.sums(), data
}

// A block's checksum is known when it was written from front to back, and never wrong.
func TestHashedFile(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	rng := rand.New(rand.NewPCG(4, 2))
	const b, size = BlockBytes, 2*BlockBytes + 1000
	for name, tc := range map[string]struct {
		parts [][2]int64
		known []bool
	}{
		"at once": {[][2]int64{{0, size}}, []bool{true, true, true}},
		"in parts": {[][2]int64{{0, 5}, {5, b + 7}, {b + 7, 2*b + 1}, {2*b + 1, size}},
			[]bool{true, true, true}},
		"blocks in any order": {[][2]int64{{2 * b, size}, {0, b}, {b, 2 * b}}, []bool{true, true, true}},
		"a hole":              {[][2]int64{{0, b - 1}, {b, size}}, []bool{false, true, true}},
		"the end first":       {[][2]int64{{size - 1, size}, {0, size - 1}}, []bool{true, true, false}},
		"back to front": {[][2]int64{{b, 2*b - 9}, {2*b - 5, 2 * b}, {2*b - 9, 2*b - 5}, {0, b}, {2 * b, size}},
			[]bool{true, false, true}},
		"written again": {[][2]int64{{0, size}, {b + 5, b + 6}}, []bool{true, false, true}},
		"again in between": {[][2]int64{{0, b + 100}, {3, 4}, {b + 50, b + 60}, {b + 100, size}},
			[]bool{false, false, true}},
		"nothing": {nil, []bool{false, false, false}},
	} {
		sums, data := hashedParts(t, size, tc.parts, rng)
		for i, known := range tc.known {
			sum := sha256.Sum256(data[i*b : min(size, (i+1)*b)])
			want := ""
			if known {
				want = hex.EncodeToString(sum[:])
			}
			if sums[i] != want {
				t.Errorf("%s: block %d has the checksum %q, want %q", name, i, sums[i], want)
			}
		}
	}
}

// Several goroutines write ranges that meet within blocks.
func TestHashedFileAtOnce(t *testing.T) {
	const size, writers = 4*BlockBytes + 17, 3
	data := make([]byte, size)
	rng := rand.New(rand.NewPCG(7, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "f")))(t)
	f := newHashedFile(file, size)
	defer f.Close()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			to := (w + 1) * size / writers
			for at := w * size / writers; at < to; at += 100_000 {
				part := data[at:min(to, at+100_000)]
				if _, err := f.WriteAt(part, int64(at)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sums := f.sums()
	for i, got := range sums {
		sum := sha256.Sum256(data[i*BlockBytes : min(size, (i+1)*BlockBytes)])
		if got != "" && got != hex.EncodeToString(sum[:]) {
			t.Errorf("block %d has another checksum", i)
		}
	}
	if sums[0] == "" || sums[3] == "" || !slices.Contains(sums, "") {
		t.Errorf("blocks 0 and 3 have one writer each, who began them; those that two meet in must be read again: %q",
			sums)
	}
}
