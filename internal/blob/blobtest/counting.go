package blobtest

import (
	"context"
	"io"
	"iter"
	"sync/atomic"

	"coppice/internal/blob"
)

// Counting counts the requests to a store, which may come at once.
type Counting struct {
	blob.Store
	Asked  atomic.Int64 // objects read, written or looked for
	Listed atomic.Int64 // names in listings
}

// Stat counts.
func (c *Counting) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	c.Asked.Add(1)
	return c.Store.Stat(ctx, name)
}

// Open counts.
func (c *Counting) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	c.Asked.Add(1)
	return c.Store.Open(ctx, name, r)
}

// Put counts.
func (c *Counting) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	c.Asked.Add(1)
	return c.Store.Put(ctx, name, cond, r)
}

// List counts the names.
func (c *Counting) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		for a, err := range c.Store.List(ctx, prefix) {
			c.Listed.Add(1)
			if !yield(a, err) {
				return
			}
		}
	}
}
