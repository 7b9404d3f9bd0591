package blobtest

import (
	"bytes"
	"context"
	"io"
	"iter"
	"testing/iotest"

	"coppice/internal/blob"
)

// Call is a method of blob.Store, by its name.
type Call string

// The calls.
const (
	Stat Call = "Stat"
	Open Call = "Open"
	Put  Call = "Put"
	List Call = "List" // its name is the prefix
)

// Hooked is a store around whose calls a test acts. Hooks that are nil do nothing; concurrent calls run them
// concurrently.
type Hooked struct {
	blob.Store
	// Before is asked before each call. Its error is the answer, and the store is not asked.
	Before func(ctx context.Context, call Call, name string) error
	// After gets the store's error, and returns the caller's. An object has not been read yet, a listing has.
	After func(ctx context.Context, call Call, name string, err error) error
	// Reads and Writes return what is read of an object, or written, in place of its contents. An error of Reads is met
	// behind them, one of Writes is the answer.
	Reads, Writes func(name string, data []byte) ([]byte, error)
	// Hides says which objects are in no listing.
	Hides func(name string) bool
}

// Before is a store that asks do before each call of one kind, as Hooked.Before.
func Before(s blob.Store, kind Call, do func(ctx context.Context, name string) error) *Hooked {
	return &Hooked{Store: s, Before: func(ctx context.Context, call Call, name string) error {
		if call != kind {
			return nil
		}
		return do(ctx, name)
	}}
}

// call asks Before, makes the call (ask) if that has no error, and lets After decide about the call's error.
func (h *Hooked) call(ctx context.Context, call Call, name string, ask func() error) error {
	if h.Before != nil {
		if err := h.Before(ctx, call, name); err != nil {
			return err
		}
	}
	err := ask()
	if h.After != nil {
		err = h.After(ctx, call, name, err)
	}
	return err
}

// Stat calls the store's Stat between the hooks.
func (h *Hooked) Stat(ctx context.Context, name string) (attrs blob.Attrs, err error) {
	err = h.call(ctx, Stat, name, func() (err error) {
		attrs, err = h.Store.Stat(ctx, name)
		return err
	})
	return attrs, err
}

// Open calls the store's Open between the hooks. With Reads, the contents are read at once and replaced by what Reads
// returns, and its error comes behind them.
func (h *Hooked) Open(ctx context.Context, name string, r blob.Range) (body io.ReadCloser, a blob.Attrs, err error) {
	err = h.call(ctx, Open, name, func() (err error) {
		body, a, err = h.Store.Open(ctx, name, r)
		return err
	})
	if err != nil || h.Reads == nil {
		return body, a, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, a, err
	}
	if data, err = h.Reads(name, data); err == nil {
		err = io.EOF
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(err))), a, nil
}

// Put calls the store's Put between the hooks. With Writes, what Writes returns is written in place of r's contents.
func (h *Hooked) Put(ctx context.Context, name string, at blob.Generation, r io.Reader) (attrs blob.Attrs, err error) {
	err = h.call(ctx, Put, name, func() error {
		if h.Writes != nil {
			data, err := io.ReadAll(r)
			if err == nil {
				data, err = h.Writes(name, data)
			}
			if err != nil {
				return err
			}
			r = bytes.NewReader(data)
		}
		attrs, err = h.Store.Put(ctx, name, at, r)
		return err
	})
	return attrs, err
}

// List calls the store's List between the hooks, and leaves out what Hides hides. All objects are listed before the
// first is yielded.
func (h *Hooked) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		var all []blob.Attrs
		err := h.call(ctx, List, prefix, func() error {
			for attrs, err := range h.Store.List(ctx, prefix) {
				if err != nil {
					return err
				}
				if h.Hides == nil || !h.Hides(attrs.Name) {
					all = append(all, attrs)
				}
			}
			return nil
		})
		if err != nil {
			yield(blob.Attrs{}, err)
			return
		}
		for _, attrs := range all {
			if !yield(attrs, nil) {
				return
			}
		}
	}
}
