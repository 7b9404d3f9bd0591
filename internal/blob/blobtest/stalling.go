package blobtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"coppice/internal/blob"
)

// NewStalling is a store behind a line on which things stand still: the caller's machine, the network, the service. The
// given share of the operations wait before they are done or before their answer comes, up to twice and each up to
// longest, chosen by seed. So what is read, or listed, may be long past when the caller sees it. Meant for a bubble of
// testing/synctest.
func NewStalling(s blob.Store, seed uint64, share float64, longest time.Duration) *Hooked {
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(seed, 0x57a11))
	// wait stands still, perhaps; its error is that of ctx.
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
		if call == List { // as it was then
			return nil
		}
		return wait(ctx)
	}
	after := func(ctx context.Context, call Call, _ string, err error) error {
		if call == Open {
			return err
		}
		if late := wait(ctx); late != nil {
			return late
		}
		return err
	}
	return &Hooked{Store: s, Before: before, After: after}
}
