package blobtest

import (
	"context"
	"io"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"coppice/internal/blob"
)

// Stalling is a store behind a line on which things stand still: the caller's machine, the network, the service. An
// operation may wait before it is done or before its answer comes, so what is read, or listed, may be long past when
// the caller sees it.
type Stalling struct {
	blob.Store
	share   float64
	longest time.Duration
	mu      sync.Mutex
	draw    *rand.Rand
}

// NewStalling lets the given share of the operations wait, each up to twice and up to longest, chosen by seed. Meant
// for a bubble of testing/synctest.
func NewStalling(s blob.Store, seed uint64, share float64, longest time.Duration) *Stalling {
	return &Stalling{Store: s, share: share, longest: longest, draw: rand.New(rand.NewPCG(seed, 0x57a11))}
}

// wait stands still, perhaps; its error is that of ctx.
func (s *Stalling) wait(ctx context.Context) error {
	s.mu.Lock()
	var pause time.Duration
	if s.draw.Float64() < s.share {
		pause = time.Duration(s.draw.Int64N(int64(s.longest)))
	}
	s.mu.Unlock()
	if pause == 0 {
		return ctx.Err()
	}

	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Stat is blob.Store's.
func (s *Stalling) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	if err := s.wait(ctx); err != nil {
		return blob.Attrs{}, err
	}
	attrs, err := s.Store.Stat(ctx, name)
	if late := s.wait(ctx); late != nil {
		return blob.Attrs{}, late
	}
	return attrs, err
}

// Open is blob.Store's.
func (s *Stalling) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	if err := s.wait(ctx); err != nil {
		return nil, blob.Attrs{}, err
	}
	return s.Store.Open(ctx, name, r)
}

// Put is blob.Store's.
func (s *Stalling) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	if err := s.wait(ctx); err != nil {
		return blob.Attrs{}, err
	}
	attrs, err := s.Store.Put(ctx, name, cond, r)
	if late := s.wait(ctx); late != nil {
		return blob.Attrs{}, late
	}
	return attrs, err
}

// List is blob.Store's.
func (s *Stalling) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		var all []blob.Attrs
		for attrs, err := range s.Store.List(ctx, prefix) {
			if err != nil {
				yield(attrs, err)
				return
			}
			all = append(all, attrs)
		}

		// As it was then.
		if err := s.wait(ctx); err != nil {
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
