//go:build linux

package gcsemu

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// fill makes the server's disk look full: the next files that it makes work, as many as files says, and all after them
// are links to /dev/full, which takes no byte. The counter that it returns counts all files that are made from now on.
func (w *world) fill(files int) *atomic.Int64 {
	w.Helper()
	dir := filepath.Join(w.server.opts.Dir, newFolder)
	var made atomic.Int64
	w.server.newFile = func() (*os.File, error) {
		n := int(made.Add(1))
		if n <= files {
			return w.server.makeFile()
		}
		path := filepath.Join(dir, fmt.Sprint("full-", n))
		if err := os.Symlink("/dev/full", path); err != nil {
			return nil, err
		}
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	return &made
}

// TestFullDisk: when the disk is full, a write fails at its first attempt with status 413 and where to free space,
// although the client would retry five times. The object stays as it was, and no file is left behind. RefusedSince has
// it from then on.
func TestFullDisk(t *testing.T) {
	short, long := strings.Repeat("x", 1000), strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		text  string
		chunk int
		files int // that still find room
	}{"one request": {short, 0, 0}, "chunks": {long, 256 << 10, 0}, "no room for the record": {short, 0, 1},
		"chunks, no room for the record": {long, 256 << 10, 1}} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Options{})
			put := func(text string) error {
				o := w.b.Object("folder/a").Retryer(storage.WithPolicy(storage.RetryAlways), storage.WithMaxAttempts(5))
				out := o.NewWriter(w.ctx)
				out.ChunkSize = c.chunk
				_, err := io.WriteString(out, text)
				return errors.Join(err, out.Close())
			}
			must.Do(t, put("before"))
			files := w.files()
			made := w.fill(c.files)
			began := time.Now()
			if err := w.server.RefusedSince(began); err != nil {
				t.Errorf("with room: %v; want no refusal", err)
			}
			err := put(c.text)
			var api *googleapi.Error
			if !errors.As(err, &api) || api.Code != http.StatusRequestEntityTooLarge ||
				!strings.Contains(err.Error(), "disk is full: free space in "+w.server.opts.Dir) {
				t.Errorf("writing to a full disk: got %v; want status 413 and where to free space", err)
			}
			// The folder is on a disk with some GiB or TiB left, or with none.
			told := regexp.MustCompile(`where [0-9.]+ [KMGTP]?i?B are left \(.*no space left on device\)$`)
			if err := w.server.RefusedSince(began); !problem.Is(err, problem.Environment) ||
				!told.MatchString(err.Error()) || w.server.RefusedSince(time.Now()) != nil {
				t.Errorf("RefusedSince: %v; want the environment's, with the bytes left, and none from now on", err)
			}
			if n := int(made.Load()); n != c.files+1 {
				t.Errorf("the client made %d files; want %d, without a second attempt", n, c.files+1)
			}
			if r, err := w.b.Object("folder/a").NewReader(w.ctx); err != nil {
				t.Errorf("the object written before: got error %v, want it readable", err)
			} else if text, err := io.ReadAll(r); err != nil || string(text) != "before" {
				t.Errorf("the object before: got %.20q, %v; want it unchanged", text, err)
			}
			if now := w.files(); now != files {
				t.Errorf("a full disk left\n%s\nwant\n%s", now, files)
			}
		})
	}
}

// files lists everything below the server's folder.
func (w *world) files() string {
	w.Helper()
	var all strings.Builder
	err := filepath.WalkDir(w.server.opts.Dir, func(path string, _ fs.DirEntry, err error) error {
		fmt.Fprintln(&all, path)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return all.String()
}
