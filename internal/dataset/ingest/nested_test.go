package ingest

import (
	"context"
	"errors"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

func hashesOf(rows int, level func(i int) uint64) []uint64 {
	out := make([]uint64, rows)
	for i := range out {
		out[i] = level(i)
	}
	return out
}

// Whether levels are nested is seen early where they are not, which is nearly always, and there is an end to it when
// the caller gives up.
func TestNested(t *testing.T) {
	const rows = 50_000
	above := func(i int) uint64 { return encode.Mix(uint64(i)) % 40 }
	campaign := numberLevels(hashesOf(rows, func(i int) uint64 { return above(i)<<8 | encode.Mix(uint64(i)+7)%20 }))
	for name, tc := range map[string]struct {
		up     []uint64
		nested bool
		most   int // rows looked at
	}{
		"advertiser":       {hashesOf(rows, above), true, rows},
		"mostly":           {hashesOf(rows, func(i int) uint64 { return above(i) + uint64((i%1000)/999) }), true, rows},
		"half of the time": {hashesOf(rows, func(i int) uint64 { return above(i) + uint64(i%2) }), false, rows / 20},
		"something else": {hashesOf(rows, func(i int) uint64 { return encode.Mix(uint64(i)+3) % 40 }), false,
			rows / 20},
	} {
		up := numberLevels(tc.up)
		if is, looked := campaign.nestedIn(&up); is != tc.nested || looked > tc.most {
			t.Errorf("%s: nested %v after %d rows, want %v after at most %d", name, is, looked, tc.nested, tc.most)
		}
	}

	p := &designer{survey: &survey{}, spec: &dataset.EncodingsSpec{}, parents: map[int]int{}}
	for i, hashes := range [][]uint64{hashesOf(rows, above),
		hashesOf(rows, func(i int) uint64 { return above(i)<<8 | encode.Mix(uint64(i)+7)%20 })} {
		p.columns = append(p.columns, sampledColumn{built: &built{Feature: dataset.Feature{Kind: dataset.Categorical}}})
		p.atoms = append(p.atoms, atom{column: i, exact: true, hashes: hashes})
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := p.findParents(ctx, 2); err != nil || len(p.parents) != 1 || p.parents[1] != 0 {
		t.Errorf("parents %v, %v; want 1 below 0", p.parents, err)
	}
	cancel()
	if err := p.findParents(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
