package blob

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Sub returns the part of s in a folder: a Store whose object "x" is s's object "FOLDER/x". The folder is a valid name,
// with or without a trailing slash.
func Sub(s Store, folder string) (Store, error) {
	folder = strings.TrimSuffix(folder, "/")
	if err := ValidName(folder); err != nil {
		return nil, err
	}
	return &sub{s, folder + "/"}, nil
}

type sub struct {
	store  Store
	prefix string
}

// full returns an object's name in the underlying store. The name is checked before it is joined to the folder's, so
// that ".." cannot lead out of it.
func (s *sub) full(name string) (string, error) {
	if err := ValidName(name); err != nil {
		return "", err
	}
	return s.prefix + name, ValidName(s.prefix + name)
}

// withoutPrefix names the object as it is called in the folder.
func (s *sub) withoutPrefix(a Attrs) Attrs {
	a.Name = strings.TrimPrefix(a.Name, s.prefix)
	return a
}

// Stat is Store's, of a name in the folder.
func (s *sub) Stat(ctx context.Context, name string) (Attrs, error) {
	full, err := s.full(name)
	if err != nil {
		return Attrs{}, err
	}
	a, err := s.store.Stat(ctx, full)
	return s.withoutPrefix(a), err
}

// Open is Store's, of a name in the folder.
func (s *sub) Open(ctx context.Context, name string, r Range) (io.ReadCloser, Attrs, error) {
	full, err := s.full(name)
	if err != nil {
		return nil, Attrs{}, err
	}
	rc, a, err := s.store.Open(ctx, full, r)
	return rc, s.withoutPrefix(a), err
}

// Put is Store's, of a name in the folder.
func (s *sub) Put(ctx context.Context, name string, cond Generation, r io.Reader) (Attrs, error) {
	full, err := s.full(name)
	if err != nil {
		return Attrs{}, err
	}
	a, err := s.store.Put(ctx, full, cond, r)
	return s.withoutPrefix(a), err
}

// List is Store's, with names in the folder; prefix may be empty, or end within a name.
func (s *sub) List(ctx context.Context, prefix string) iter.Seq2[Attrs, error] {
	return func(yield func(Attrs, error) bool) {
		for a, err := range s.store.List(ctx, s.prefix+prefix) {
			if !yield(s.withoutPrefix(a), err) {
				return
			}
		}
	}
}

// Check rejects an invalid range.
func (r Range) Check() error {
	if r.Offset < 0 || r.Length < 0 || r.Generation < 0 {
		return fmt.Errorf("range from %d, %d bytes, generation %d: none may be negative", r.Offset, r.Length,
			r.Generation)
	}
	return nil
}
