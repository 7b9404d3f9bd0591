package cell

import (
	"math/rand/v2"
	"slices"
	"testing"

	"coppice/internal/dataset"
)

// TestGuidesFind compares with Levels.Find: hashes that a table has and has not, beside each other and at both ends, in
// tables of few levels and of many, of hashes that are far from evenly distributed, too.
func TestGuidesFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{0, 1, 2, 3, 7, 64, 1000} {
		for _, shift := range []int{0, 44} {
			table := dataset.LevelTable{First: 5, Levels: n}
			levels := &dataset.Levels{Hash: make([]uint64, table.First)}
			for range n {
				levels.Hash = append(levels.Hash, rng.Uint64()>>shift)
			}
			slices.Sort(levels.Hash[table.First:])
			hashes := []uint64{0, 1, 1<<64 - 1}
			for _, hash := range levels.Hash[table.First:] {
				hashes = append(hashes, hash-1, hash, hash+1)
			}
			slots := make([]int32, len(hashes))
			g := newGuide(&table, levels)
			g.find(levels, &table, hashes, slots)
			for i, hash := range hashes {
				want := int32(-1)
				if at, ok := levels.Find(&table, max(hash, 1)); ok {
					want = int32(at)
				}
				if slots[i] != want {
					t.Fatalf("%d levels of %d bits: %x found at %d, want %d", n, 64-shift, hash, slots[i], want)
				}
			}
		}
	}
}
