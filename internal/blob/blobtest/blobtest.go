// Package blobtest holds the behaviour that every blob.Store has, as a test. Memory, the client of Cloud Storage
// against the emulator, and the same client against a real bucket all pass it.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"coppice/internal/blob"
)

// Run tests the stores that open makes. Each store must be empty, or be at a place of its own.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*tester)
	}{
		{"put and read", (*tester).putAndRead},
		{"absent", (*tester).absent},
		{"create only", (*tester).createOnly},
		{"create race", (*tester).createRace},
		{"compare and swap", (*tester).compareAndSwap},
		{"swap race", (*tester).swapRace},
		{"generations", (*tester).generations},
		{"ranges", (*tester).ranges},
		{"pinned generation", (*tester).pinned},
		{"list", (*tester).list},
		{"strange names", (*tester).strangeNames},
		{"refused names", (*tester).refusedNames},
		{"failing reader", (*tester).failingReader},
		{"cancelled", (*tester).cancelled},
		{"cancelled while reading", (*tester).cancelledReader},
		{"large", (*tester).large},
		{"empty", (*tester).empty},
		{"read while written", (*tester).readWhileWritten},
		{"remove", (*tester).remove},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c.test(&tester{T: t, ctx: ctx, s: open(t)})
		})
	}
}

type tester struct {
	*testing.T
	ctx context.Context
	s   blob.Store
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// put writes data under a condition, and ends the test if that fails.
func (t *tester) put(name, data string, cond blob.Generation) blob.Attrs {
	t.Helper()
	a, err := t.s.Put(t.ctx, name, cond, strings.NewReader(data))
	if err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
	return a
}

// read returns a part of an object, and the attributes of the whole; it ends the test if that fails.
func (t *tester) read(name string, r blob.Range) (string, blob.Attrs) {
	t.Helper()
	rc, a, err := t.s.Open(t.ctx, name, r)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(data), a
}

// wantErr fails the test if err is not want, nor wraps it. A want of nil stands for no error.
func (t *tester) wantErr(what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// attrsOf compares attributes with the contents they must describe.
func (t *tester) attrsOf(a blob.Attrs, name, data string) {
	t.Helper()
	if crc := crc32.Checksum([]byte(data), castagnoli); a.Name != name || a.Size != int64(len(data)) ||
		a.CRC32C != crc || a.Generation <= 0 {
		t.Errorf("attributes %+v: want name %s, size %d, crc %d, a generation above 0", a, name, len(data), crc)
	}
	if a.Updated.IsZero() || time.Since(a.Updated).Abs() > time.Hour {
		t.Errorf("%s: updated at %v, want a time within the last hour", name, a.Updated)
	}
}

// putAndRead wants Stat and Open to say of an object what Put said, and reading to give back what was put.
func (t *tester) putAndRead() {
	put := t.put("a/b", "hello", blob.Any)
	t.attrsOf(put, "a/b", "hello")
	stat, err := t.s.Stat(t.ctx, "a/b")
	if err != nil {
		t.Fatalf("Stat of an object that is there: got error %v, want none", err)
	}
	t.attrsOf(stat, "a/b", "hello")
	data, opened := t.read("a/b", blob.Range{})
	t.attrsOf(opened, "a/b", "hello")
	if data != "hello" || stat.Generation != put.Generation || opened.Generation != put.Generation {
		t.Errorf("read %q at generation %d, put at %d, stat at %d; want hello, and one generation", data,
			opened.Generation, put.Generation, stat.Generation)
	}
}

// absent wants each call about an object that is not there to fail with its error, and an empty store to list nothing.
func (t *tester) absent() {
	_, err := t.s.Stat(t.ctx, "absent")
	t.wantErr("stat", err, blob.ErrNotExist)
	_, _, err = t.s.Open(t.ctx, "absent", blob.Range{})
	t.wantErr("open", err, blob.ErrNotExist)
	_, _, err = t.s.Open(t.ctx, "absent", blob.Range{Offset: 3, Length: 4})
	t.wantErr("open a range", err, blob.ErrNotExist)
	_, err = t.s.Put(t.ctx, "absent", 12345, strings.NewReader("x"))
	t.wantErr("swap what is not there", err, blob.ErrPrecondition)
	for a, err := range t.s.List(t.ctx, "") {
		t.Errorf("an empty store lists %v, %v; want nothing", a, err)
	}
}

// createOnly wants a second create to fail and to leave the first contents; blob.Create tells it without an error.
func (t *tester) createOnly() {
	t.put("once", "first", blob.Absent)
	_, err := t.s.Put(t.ctx, "once", blob.Absent, strings.NewReader("second"))
	t.wantErr("second create", err, blob.ErrPrecondition)
	if data, _ := t.read("once", blob.Range{}); data != "first" {
		t.Errorf("after a second create it holds %q, want first", data)
	}
	created, err := blob.Create(t.ctx, t.s, "once", []byte("third"))
	if created || err != nil {
		t.Errorf("Create of what exists: created %v, %v; want false, and no error", created, err)
	}
}

// compareAndSwap wants a write under an overwritten generation to fail, and to leave the newer contents.
func (t *tester) compareAndSwap() {
	first := t.put("alias", "1", blob.Absent)
	second := t.put("alias", "2", first.Generation)
	_, err := t.s.Put(t.ctx, "alias", first.Generation, strings.NewReader("3"))
	t.wantErr("stale swap", err, blob.ErrPrecondition)
	if data, a := t.read("alias", blob.Range{}); data != "2" || a.Generation != second.Generation {
		t.Errorf("after a stale swap: %q at %d, want 2 at %d", data, a.Generation, second.Generation)
	}
}

// generations wants 50 writes to two names, all of the same contents, to have 50 different generations.
func (t *tester) generations() {
	seen := map[blob.Generation]bool{}
	for i := range 50 { // the same contents are a new generation too
		a := t.put(fmt.Sprintf("g/%d", i%2), "same", blob.Any)
		if seen[a.Generation] {
			t.Fatalf("generation %d was given twice", a.Generation)
		}
		seen[a.Generation] = true
	}
}

// ranges reads parts of ten bytes. A length of 0 is to the end, a part behind the end is empty and no error, negative
// numbers are errors; the attributes are always those of the whole object.
func (t *tester) ranges() {
	const text = "0123456789"
	t.put("digits", text, blob.Any)
	for _, c := range []struct {
		offset, length int64
		want           string
	}{
		{0, 0, text}, {0, 10, text}, {0, 3, "012"}, {4, 2, "45"}, {4, 0, "456789"}, {9, 1, "9"},
		{7, 100, "789"}, {0, 1000, text}, {10, 0, ""}, {10, 5, ""}, {25, 0, ""}, {25, 1, ""},
	} {
		got, a := t.read("digits", blob.Range{Offset: c.offset, Length: c.length})
		if got != c.want {
			t.Errorf("from %d, %d bytes: %q, want %q", c.offset, c.length, got, c.want)
		}
		if a.Size != int64(len(text)) || a.Generation <= 0 {
			t.Errorf("from %d, %d bytes: attributes %+v describe the range, not the object", c.offset, c.length, a)
		}
	}

	for _, r := range []blob.Range{{Offset: -1}, {Length: -1}, {Generation: -1}} {
		if rc, _, err := t.s.Open(t.ctx, "digits", r); err == nil {
			rc.Close()
			t.Errorf("range %+v: got no error, want one", r)
		}
	}
}

// pinned wants a generation to be readable, whole or in part, until it is overwritten, and then to be absent.
func (t *tester) pinned() {
	first := t.put("pinned", "one", blob.Any)
	if data, _ := t.read("pinned", blob.Range{Generation: first.Generation}); data != "one" {
		t.Errorf("read at the first generation: got %q, want one", data)
	}
	second := t.put("pinned", "two", blob.Any)
	_, _, err := t.s.Open(t.ctx, "pinned", blob.Range{Generation: first.Generation})
	t.wantErr("read of an overwritten generation", err, blob.ErrNotExist)
	_, _, err = t.s.Open(t.ctx, "pinned", blob.Range{Generation: first.Generation, Offset: 1, Length: 1})
	t.wantErr("range of an overwritten generation", err, blob.ErrNotExist)
	if data, _ := t.read("pinned", blob.Range{Generation: second.Generation, Offset: 1}); data != "wo" {
		t.Errorf("read from byte 1 at the second generation: got %q, want wo", data)
	}
}

// failingReader writes from a source that breaks. Its error must come back, and the object be absent, or as it was.
func (t *tester) failingReader() {
	broken := errors.New("the source broke")
	// The source breaks at once, in a short upload, and in the first and the second chunk (of 16 MiB) of a long one.
	for _, size := range []int{0, 1000, 9 << 20, 20 << 20} {
		r := io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(broken))
		_, err := t.s.Put(t.ctx, "broken", blob.Any, r)
		t.wantErr(fmt.Sprintf("after %d bytes", size), err, broken)
		_, err = t.s.Stat(t.ctx, "broken")
		t.wantErr(fmt.Sprintf("left after %d bytes", size), err, blob.ErrNotExist)
	}

	a := t.put("whole", "as it was", blob.Any)
	if _, err := t.s.Put(t.ctx, "whole", a.Generation, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("put from a source that breaks at once: got error %v, want %v", err, broken)
	}
	if data, _ := t.read("whole", blob.Range{}); data != "as it was" {
		t.Errorf("a failed write left %q, want it as it was", data)
	}
}

// cancelled wants every call under a cancelled context to fail with that, and a cancelled write to leave nothing.
func (t *tester) cancelled() {
	t.put("there", "x", blob.Any)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, err := t.s.Stat(ctx, "there")
	t.wantErr("stat", err, context.Canceled)
	_, _, err = t.s.Open(ctx, "there", blob.Range{})
	t.wantErr("open", err, context.Canceled)
	_, err = t.s.Put(ctx, "new", blob.Absent, strings.NewReader("x"))
	t.wantErr("put", err, context.Canceled)
	err = nil
	for _, e := range t.s.List(ctx, "") {
		err = e
	}

	t.wantErr("list", err, context.Canceled)
	_, err = t.s.Stat(t.ctx, "new")
	t.wantErr("a cancelled put", err, blob.ErrNotExist)
}

// cancelledReader cancels after the first of 8 MiB: reading on must fail rather than seem to reach the end.
func (t *tester) cancelledReader() {
	t.put("long", strings.Repeat("x", 8<<20), blob.Any)
	ctx, cancel := context.WithCancel(t.ctx)
	rc, _, err := t.s.Open(ctx, "long", blob.Range{})
	if err != nil {
		t.Fatalf("Open of an object that is there: got error %v, want none", err)
	}
	defer rc.Close()
	if _, err := io.ReadFull(rc, make([]byte, 1)); err != nil {
		t.Fatalf("reading the first byte: got error %v, want none", err)
	}
	cancel()
	_, err = io.Copy(io.Discard, rc)
	t.wantErr("read on", err, context.Canceled)
}

// large writes 20 MiB whose length is not known beforehand, and reads them whole, across their middle, and up to a
// limit that is too low.
func (t *tester) large() {
	data := make([]byte, 20<<20+123)
	random := rand.NewChaCha8([32]byte{7})
	if _, err := random.Read(data); err != nil {
		t.Fatalf("cannot make random bytes: %v", err)
	}
	a, err := t.s.Put(t.ctx, "large", blob.Absent, iotest.HalfReader(bytes.NewReader(data))) // of unknown length
	if err != nil {
		t.Fatalf("Put of 20 MiB of unknown length: got error %v, want none", err)
	}

	t.attrsOf(a, "large", string(data))
	got, opened := t.read("large", blob.Range{})
	t.attrsOf(opened, "large", string(data))
	if got != string(data) {
		t.Errorf("read %d bytes that differ from the %d written", len(got), len(data))
	}
	if part, _ := t.read("large", blob.Range{Offset: 16<<20 - 5, Length: 10,
		Generation: a.Generation}); part != string(data[16<<20-5:16<<20+5]) {
		t.Errorf("10 bytes across the middle differ from those written: %q", part)
	}
	_, err = t.s.Put(t.ctx, "large", blob.Absent, bytes.NewReader(data))
	t.wantErr("create again", err, blob.ErrPrecondition)
	_, _, err = blob.ReadAll(t.ctx, t.s, "large", 1<<20)
	if err == nil {
		t.Error("ReadAll of 20 MiB with a limit of 1 MiB: got no error, want one")
	}
}

// empty wants an object without contents to be listed, and to be read as nothing in whatever range.
func (t *tester) empty() {
	a := t.put("empty", "", blob.Absent)
	t.attrsOf(a, "empty", "")
	for _, r := range []blob.Range{{}, {Length: 5}, {Offset: 5}, {Generation: a.Generation}} {
		if data, got := t.read("empty", r); data != "" || got.Size != 0 || got.Generation != a.Generation {
			t.Errorf("range %+v of an empty object: got %q, %+v; want nothing, size 0", r, data, got)
		}
	}
	if got := t.names(""); !slices.Equal(got, []string{"empty"}) {
		t.Errorf("listed %q, want empty alone", got)
	}
}

// remove wants an object to be removed at its current generation alone, removing it again to be no error, and an object
// that is created again to have a later generation. Stores that cannot remove are not tested.
func (t *tester) remove() {
	s, ok := t.s.(blob.Remover)
	if !ok {
		return
	}
	first := t.put("old/a", "first", blob.Absent)
	second := t.put("old/a", "second", first.Generation)
	t.wantErr("remove what was replaced", s.Remove(t.ctx, "old/a", first.Generation), blob.ErrPrecondition)
	t.wantErr("remove", s.Remove(t.ctx, "old/a", second.Generation), nil)
	t.wantErr("remove again", s.Remove(t.ctx, "old/a", second.Generation), nil)
	_, err := t.s.Stat(t.ctx, "old/a")
	t.wantErr("stat", err, blob.ErrNotExist)
	if again := t.put("old/a", "again", blob.Absent); again.Generation <= second.Generation {
		t.Errorf("created again it is at generation %d, want one above %d", again.Generation, second.Generation)
	}
	t.wantErr("remove at an old generation", s.Remove(t.ctx, "old/a", second.Generation), blob.ErrPrecondition)
	if got := t.names(""); !slices.Equal(got, []string{"old/a"}) {
		t.Errorf("listed %q, want old/a", got)
	}
}
