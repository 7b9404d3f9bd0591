package blobtest

import (
	"context"
	"sync/atomic"

	"coppice/internal/blob"
)

// Counting counts the requests to a store, which may come at once.
type Counting struct {
	*Hooked
	Asked  atomic.Int64 // objects read, written or looked for
	Listed atomic.Int64 // names in listings
}

// NewCounting returns a Counting of s with both counts at 0.
func NewCounting(s blob.Store) *Counting {
	c := &Counting{}
	c.Hooked = &Hooked{Store: s,
		Before: func(_ context.Context, call Call, _ string) error {
			if call != List {
				c.Asked.Add(1)
			}
			return nil
		},
		Hides: func(string) bool {
			c.Listed.Add(1)
			return false
		}}
	return c
}
