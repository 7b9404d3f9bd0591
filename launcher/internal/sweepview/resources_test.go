package sweepview_test

import (
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// TestWhatLookingCosts: the first look at a sweep reads each result once, and the next one only what is new, whether
// there are 200 trials or 400.
func TestWhatLookingCosts(t *testing.T) {
	var first, next, listed [2]int64
	for i, trials := range []int{200, 400} {
		_, p := world(t)
		p.Trials = nil
		for n := range trials {
			p.Trials = append(p.Trials, sweep.Trial{Number: n})
		}
		s := &blobtest.Counting{Store: blob.Memory()}
		put(t, s, sweep.Names(p.Sweep).Plan(), p)
		for n := range trials - 1 {
			put(t, s, sweep.Names(p.Sweep).Claim(n, 0), sweep.Claim{})
			put(t, s, sweep.Names(p.Sweep).Result(n), result(p, n, 0.5))
		}
		v := must.Get(sweepview.Open(t.Context(), s, p.Sweep))(t)
		look := func() int64 {
			s.Asked.Store(0)
			s.Listed.Store(0)
			must.Get(v.Look(t.Context()))(t)
			return s.Asked.Load()
		}
		first[i] = look()
		put(t, s, sweep.Names(p.Sweep).Result(trials-1), result(p, trials-1, 0.6))
		next[i], listed[i] = look(), s.Listed.Load()
	}
	t.Logf("the first look requests %d and %d objects, the next %d and %d, and lists %d and %d names", first[0],
		first[1], next[0], next[1], listed[0], listed[1])
	if first[1] != first[0]+200 || next[1] != next[0] || next[0] > 6 || listed[1] > 2*listed[0]+10 {
		t.Errorf("looking at 200 and 400 trials requests %d and %d objects at first, %d and %d later, and lists %d "+
			"and %d names; want one more for each result at first, the same later, and twice the names", first[0],
			first[1], next[0], next[1], listed[0], listed[1])
	}
}
