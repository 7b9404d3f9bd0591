package blobtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"coppice/internal/blob"
)

// NewStalling returns a store whose calls may stand still, as if the caller's machine, the network or the service did.
// Before a call is done, and again before its answer comes, it waits with the probability share, for a time up to
// longest, which must be above 0. Both are drawn from seed. So what a caller reads or lists may be long past when it
// gets it. The store is meant for testing/synctest, where waiting takes no time.
func NewStalling(s blob.Store, seed uint64, share float64, longest time.Duration) *Hooked {
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(seed, 0x57a11)) // 0x57a11: any constant; mu guards draw
	// wait draws whether to wait, and does. It returns early with ctx's error if that ends.
	wait := func(ctx context.Context) error {
		mu.Lock()
		var pause time.Duration
		if draw.Float64() < share {
			pause = time.Duration(draw.Int64N(int64(longest)))
		}
		mu.Unlock()
		if pause == 0 {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
			return nil
		}
	}

	before := func(ctx context.Context, call Call, _ string) error {
		if call == List { // waits behind only, so that the listing is old when it comes
			return nil
		}
		return wait(ctx)
	}
	after := func(ctx context.Context, call Call, _ string, err error) error {
		if call == Open { // the caller owns an open reader by now
			return err
		}
		if late := wait(ctx); late != nil {
			return late
		}
		return err
	}
	return &Hooked{Store: s, Before: before, After: after}
}
