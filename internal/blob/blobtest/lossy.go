package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"

	"coppice/internal/blob"
)

// ErrLost is a write that may or may not have been done: its answer never came.
var ErrLost = errors.New("the answer was lost")

// Lossy is a store behind a line that loses the answers to some writes, all of which are done.
type Lossy struct {
	blob.Store
	// Repeats says what the store's client does about it: it writes again under the same condition, as Google's does,
	// so that a write that was done meets its own object; or it gives up with ErrLost.
	Repeats bool

	share float64
	mu    sync.Mutex
	draw  *rand.Rand
	lost  int
}

// NewLossy loses the given share of the answers, chosen by seed.
func NewLossy(s blob.Store, seed uint64, share float64) *Lossy {
	return &Lossy{Store: s, share: share, draw: rand.New(rand.NewPCG(seed, 0))}
}

// Lost is how many answers were lost so far.
func (l *Lossy) Lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// drawLoss draws whether the answer at hand is lost, and counts it if so.
func (l *Lossy) drawLoss() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draw.Float64() >= l.share {
		return false
	}
	l.lost++
	return true
}

// Put writes through to the store. If the answer is lost, it writes again under the same condition or returns ErrLost,
// as Repeats says.
func (l *Lossy) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return blob.Attrs{}, err
	}

	for {
		attrs, err := l.Store.Put(ctx, name, cond, bytes.NewReader(data))
		if !l.drawLoss() {
			return attrs, err
		}
		if !l.Repeats {
			return blob.Attrs{}, ErrLost
		}
	}
}
