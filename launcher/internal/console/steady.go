package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"coppice/internal/blob"
)

// steady is a read-only store that sends at most one request a second to the store behind it: the bucket of a running
// sweep must not suffer from the number of viewers. Within a round (next), a folder is listed once. An object of an
// unchanged generation is not read again, and one that changes all the time, such as a heartbeat, is read the less
// often the more of its kind there are; meanwhile its last contents are served.
//
// The first read of a sweep is not throttled (unhurried): it requests each object only once, however large the sweep.
type steady struct {
	blob.Store
	limit *rate.Limiter
	now   func() time.Time

	mu       sync.Mutex
	listings map[string][]blob.Attrs // of this round
	latest   map[string]blob.Generation
	objects  map[string]kept
}

// kept is an object as last read.
type kept struct {
	data    []byte
	attrs   blob.Attrs
	at      time.Time
	changes int // number of times it was read with new contents
}

const (
	perPage  = 1000     // objects per listing request
	mostKept = 64 << 10 // most bytes of a cached object
)

func newSteady(store blob.Store, now func() time.Time) *steady {
	return &steady{Store: store, limit: rate.NewLimiter(1, 1), now: now, listings: map[string][]blob.Attrs{},
		latest: map[string]blob.Generation{}, objects: map[string]kept{}}
}

type firstKey struct{}

// unhurried marks ctx as that of a first read.
func unhurried(ctx context.Context) context.Context { return context.WithValue(ctx, firstKey{}, true) }

// wait throttles; it is called before every request.
func (s *steady) wait(ctx context.Context) error {
	if ctx.Value(firstKey{}) != nil {
		return ctx.Err()
	}
	return s.limit.Wait(ctx)
}

// next begins a round: folders are listed again.
func (s *steady) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.listings)
}

// forget makes every object that has changed worth reading again, however recently it was read.
func (s *steady) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.objects {
		k.at = time.Time{}
		s.objects[name] = k
	}
}

// Stat asks the store.
func (s *steady) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	if err := s.wait(ctx); err != nil {
		return blob.Attrs{}, err
	}
	return s.Store.Stat(ctx, name)
}

var errReadOnly = errors.New("the console only reads")

// Put always fails.
func (s *steady) Put(context.Context, string, blob.Generation, io.Reader) (blob.Attrs, error) {
	return blob.Attrs{}, errReadOnly
}

// Open serves the cached object if it is recent enough.
func (s *steady) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	if k, ok := s.enough(name); ok && r == (blob.Range{}) {
		return io.NopCloser(bytes.NewReader(k.data)), k.attrs, nil
	}
	if err := s.wait(ctx); err != nil {
		return nil, blob.Attrs{}, err
	}
	body, attrs, err := s.Store.Open(ctx, name, r)
	if err != nil || r != (blob.Range{}) || attrs.Size > mostKept {
		return body, attrs, err
	}

	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, mostKept+1))
	if err != nil {
		return nil, blob.Attrs{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = kept{data, attrs, s.now(), s.objects[name].changes + 1}
	return io.NopCloser(bytes.NewReader(data)), attrs, nil
}

// enough reports whether the cached object will do: it has not changed, or it changes again and again and was read
// recently.
func (s *steady) enough(name string) (kept, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.objects[name]
	g, listed := s.latest[name]
	if !ok || !listed {
		return k, false
	}
	if k.attrs.Generation == g {
		return k, true
	}
	return k, k.changes > 0 && s.now().Sub(k.at) < s.patience()
}

// patience is the tolerated age of an object that changes all the time: two seconds per such object, so that they take
// half of all requests. The caller holds the lock.
func (s *steady) patience() time.Duration {
	n := 0
	for name, k := range s.objects {
		if g, ok := s.latest[name]; ok && k.attrs.Generation != g {
			n++
		}
	}
	return time.Duration(2*n) * time.Second
}

// List lists a folder once per round.
func (s *steady) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		all, err := s.listed(ctx, prefix)
		for _, a := range all {
			if !yield(a, nil) {
				return
			}
		}
		if err != nil {
			yield(blob.Attrs{}, err)
		}
	}
}

func (s *steady) listed(ctx context.Context, prefix string) ([]blob.Attrs, error) {
	s.mu.Lock()
	all, ok := s.listings[prefix]
	s.mu.Unlock()
	if ok {
		return all, nil
	}

	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	for a, err := range s.Store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && len(all)%perPage == 0 {
			if err := s.wait(ctx); err != nil {
				return nil, err
			}
		}
		all = append(all, a)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.listings[prefix] = all
	for _, a := range all {
		s.latest[a.Name] = a.Generation
	}
	return all, nil
}
