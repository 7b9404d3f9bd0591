package blob

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory returns an empty Store in memory. Its generations count the writes.
func Memory() Store { return &memory{objects: map[string]*object{}} }

type memory struct {
	mu      sync.Mutex
	last    Generation
	objects map[string]*object
}

// object is one generation of an object; it is immutable.
type object struct {
	attrs Attrs
	data  []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// get returns the object or ErrNotExist. A write makes another object, so this one may be read without the lock.
func (m *memory) get(ctx context.Context, name string) (*object, error) {
	if err := check(ctx, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[name]
	if o == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrNotExist)
	}
	return o, nil
}

// check returns an error if the context has ended or the name is not valid.
func check(ctx context.Context, name string) error {
	return cmp.Or(ctx.Err(), ValidName(name))
}

func (m *memory) Stat(ctx context.Context, name string) (Attrs, error) {
	o, err := m.get(ctx, name)
	if err != nil {
		return Attrs{}, err
	}
	return o.attrs, nil
}

// Open reads an object, as Store says. Only the current generation is kept; any other is ErrNotExist.
func (m *memory) Open(ctx context.Context, name string, r Range) (io.ReadCloser, Attrs, error) {
	if err := r.Check(); err != nil {
		return nil, Attrs{}, fmt.Errorf("open %s: %w", name, err)
	}
	o, err := m.get(ctx, name)
	if err != nil {
		return nil, Attrs{}, err
	}

	if r.Generation != 0 && r.Generation != o.attrs.Generation {
		return nil, Attrs{}, fmt.Errorf("%s at generation %d: %w", name, r.Generation, ErrNotExist)
	}
	data := o.data[min(r.Offset, o.attrs.Size):]
	if r.Length > 0 {
		data = data[:min(r.Length, int64(len(data)))]
	}
	return io.NopCloser(UntilDone(ctx, bytes.NewReader(data))), o.attrs, nil
}

// Put writes an object, as Store says. It reads r to its end before it takes the lock, so that a slow source does not
// delay other calls.
func (m *memory) Put(ctx context.Context, name string, cond Generation, r io.Reader) (Attrs, error) {
	if err := check(ctx, name); err != nil {
		return Attrs{}, err
	}
	data, err := io.ReadAll(UntilDone(ctx, r))
	if err != nil {
		return Attrs{}, fmt.Errorf("put %s: %w", name, err)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	var now Generation
	if o := m.objects[name]; o != nil {
		now = o.attrs.Generation
	}
	if cond != Any && cond != now {
		return Attrs{}, fmt.Errorf("put %s: %w", name, ErrPrecondition)
	}
	m.last++
	o := &object{data: data, attrs: Attrs{
		Name: name, Size: int64(len(data)), Generation: m.last, CRC32C: crc32.Checksum(data, castagnoli),
		Updated: time.Now().UTC(),
	}}
	m.objects[name] = o
	return o.attrs, nil
}

// Remove removes an object, as Remover says.
func (m *memory) Remove(ctx context.Context, name string, at Generation) error {
	if err := check(ctx, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.objects[name]; o != nil && o.attrs.Generation != at {
		return fmt.Errorf("remove %s: %w", name, ErrPrecondition)
	}
	delete(m.objects, name)
	return nil
}

// UntilDone returns a reader that stops when the context ends, as one over a network does.
func UntilDone(ctx context.Context, r io.Reader) io.Reader { return untilDone{ctx, r} }

type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// List yields the objects that there are when the iteration begins, as Store says; the caller may write meanwhile. If
// ctx has ended, that error comes after the last object.
func (m *memory) List(ctx context.Context, prefix string) iter.Seq2[Attrs, error] {
	return func(yield func(Attrs, error) bool) {
		m.mu.Lock()
		var found []Attrs
		for name, o := range m.objects {
			if strings.HasPrefix(name, prefix) {
				found = append(found, o.attrs)
			}
		}
		m.mu.Unlock()
		slices.SortFunc(found, func(a, b Attrs) int { return strings.Compare(a.Name, b.Name) })
		for _, a := range found {
			if !yield(a, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Attrs{}, err)
		}
	}
}
