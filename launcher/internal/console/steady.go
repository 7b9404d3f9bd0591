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

	"coppice/blob"
)

// steady is a store that is only read, and that asks the one behind it at most once a second: so much the bucket of a running sweep
// can bear however many look at it. Within a round of reading (next), a folder is listed once. An object of a generation that was read
// before is not read again, and one that changes all the time, such as a sign of life, is read the less often the more of its kind
// there are; what was read last stands for it meanwhile.
//
// The first reading of a sweep is not held back (unhurried): each object is asked for once, however large the sweep.
type steady struct {
	blob.Store
	limit *rate.Limiter
	now   func() time.Time

	mu       sync.Mutex
	listings map[string][]blob.Attrs // of this round
	latest   map[string]blob.Generation
	objects  map[string]kept
}

// kept is an object as it was read last.
type kept struct {
	data    []byte
	attrs   blob.Attrs
	at      time.Time
	changes int // how often it was read with other contents
}

const (
	perPage  = 1000     // objects that a store lists in one request
	mostKept = 64 << 10 // bytes of an object that is kept
)

func newSteady(store blob.Store, now func() time.Time) *steady {
	return &steady{Store: store, limit: rate.NewLimiter(1, 1), now: now, listings: map[string][]blob.Attrs{}, latest: map[string]blob.Generation{}, objects: map[string]kept{}}
}

type firstKey struct{}

// unhurried marks what is done with ctx as a first reading.
func unhurried(ctx context.Context) context.Context { return context.WithValue(ctx, firstKey{}, true) }

// wait is called before every request.
func (s *steady) wait(ctx context.Context) error {
	if ctx.Value(firstKey{}) != nil {
		return ctx.Err()
	}
	return s.limit.Wait(ctx)
}

// next begins a round: folders are listed anew.
func (s *steady) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.listings)
}

// Stat asks.
func (s *steady) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	if err := s.wait(ctx); err != nil {
		return blob.Attrs{}, err
	}
	return s.Store.Stat(ctx, name)
}

var errReadOnly = errors.New("the console only reads")

// Put refuses.
func (s *steady) Put(context.Context, string, blob.Generation, io.Reader) (blob.Attrs, error) {
	return blob.Attrs{}, errReadOnly
}

// Open gives what is kept where that will do.
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

// enough says whether what is kept of an object will do: it has not changed since, or it changes again and again and was read not
// long ago.
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

// patience is how long an object that changes all the time may be old: twice as many seconds as there are such objects, so that they
// take half of all requests. The lock is held.
func (s *steady) patience() time.Duration {
	n := 0
	for name, k := range s.objects {
		if g, ok := s.latest[name]; ok && k.attrs.Generation != g {
			n++
		}
	}
	return time.Duration(2*n) * time.Second
}

// List lists a folder once in a round.
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
