package gcsemu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// Damages are the ways to damage stored bytes: one bit flipped in the middle, all zeroed, the second half cut off, none
// left.
var Damages = []string{"flip", "zero", "cut", "empty"}

// Spoil damages bytes.
func Spoil(data []byte, how string) ([]byte, error) {
	out := slices.Clone(data)
	switch {
	case how == "empty":
		return nil, nil
	case how == "cut":
		return out[:len(out)/2], nil
	case how == "zero":
		return make([]byte, len(out)), nil
	case how == "flip" && len(out) == 0:
		return nil, nil
	case how == "flip":
		out[len(out)/2] ^= 1
		return out, nil
	}

	return nil, fmt.Errorf("damage %q: use one of %s", how, strings.Join(Damages, ", "))
}

// Damage overwrites one of the objects whose names match with damaged contents, as a mistaken writer would: a new
// generation, with its own checksums. choose picks one of n. Without a match it does nothing.
func (s *Server) Damage(match, how string, choose func(n int) int) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	found, err := s.matching(match)
	if err != nil || len(found) == 0 {
		return err
	}
	o := found[choose(len(found))]
	made, err := s.fake.Backend().GetObject(o.bucket, o.name)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(made.Content)
	if err := errors.Join(err, made.Content.Close()); err != nil {
		return err
	}
	if data, err = Spoil(data, how); err != nil {
		return err
	}

	s.tick()
	defer s.ticked()
	now := time.Now()
	err = s.fake.CreateObjectStreaming(fakestorage.StreamingObject{
		ObjectAttrs: fakestorage.ObjectAttrs{BucketName: o.bucket, Name: o.name, ContentType: made.ContentType,
			Created: now, Updated: now},
		Content: &keepOpen{bytes.NewReader(data)},
	})
	if err == nil {
		s.faults.struck("object damaged")
	}
	return err
}

// matching returns the places of objects whose names match, in order. The lock is held.
func (s *Server) matching(match string) ([]place, error) {
	var found []place
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		bucket, file, ok := strings.Cut(filepath.ToSlash(rel), "/")
		name := file
		if strings.HasSuffix(bucket, overflowSuffix) {
			name, ok = unescaped(file)
		}
		if ok && !strings.HasSuffix(file, sidecarSuffix) && Matches(match, name) {
			found = append(found, place{bucket, file})
		}
		return nil
	})

	return found, err
}
