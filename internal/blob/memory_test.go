package blob_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestMemory: a store in memory behaves as every store does.
func TestMemory(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(*testing.T) blob.Store { return blob.Memory() })
}

// TestSub: a folder of a store behaves as a store of its own, whatever lies beside it under similar names.
func TestSub(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store {
		all := blob.Memory()
		for _, decoy := range []string{"sweeps/x", "sweeps/x2/a", "a"} {
			must.Get(all.Put(t.Context(), decoy, blob.Any, strings.NewReader("decoy")))(t)
		}
		return must.Get(blob.Sub(all, "sweeps/x/"))(t)
	})
}

// TestSubRefusesFolders: Sub refuses every folder that could not be the name of an object.
func TestSubRefusesFolders(t *testing.T) {
	for _, folder := range []string{"", "/", "..", "a/../b", "/a", "a//"} {
		if _, err := blob.Sub(blob.Memory(), folder); !errors.Is(err, blob.ErrName) {
			t.Errorf("a store below the folder %q: got error %v; want ErrName", folder, err)
		}
	}
}

// TestSubWritesBelow: what is written in a folder lies below its name in the whole, and no name leads out of it.
func TestSubWritesBelow(t *testing.T) {
	all := blob.Memory()
	s := must.Get(blob.Sub(all, "a/b"))(t)
	must.Get(blobtest.CreateJSON(t.Context(), s, "c.json", map[string]int{"n": 1}))(t)
	var got map[string]int
	if _, err := blob.ReadJSON(t.Context(), all, "a/b/c.json", &got); err != nil || got["n"] != 1 {
		t.Fatalf("written below a/b, read from the whole: got %v (error %v); want n to be 1", got, err)
	}
	if _, err := blob.ReadJSON(t.Context(), s, "../b/c.json", &got); !errors.Is(err, blob.ErrName) {
		t.Errorf("a name led out of its folder: %v; want ErrName", err)
	}
}

// FuzzValidName: no name that ValidName accepts is absolute or has an empty or ".." part.
func FuzzValidName(f *testing.F) {
	f.Add("sweeps/a/trials/0001/result.json")
	f.Add("a/../b")
	f.Add("a/\xff")
	f.Fuzz(func(t *testing.T, name string) {
		if blob.ValidName(name) != nil {
			return
		}
		if strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") ||
			strings.Contains("/"+name+"/", "//") {
			t.Fatalf("the name %q passed, and leads elsewhere", name)
		}
	})
}

// damaging is a store whose first reads, as many as left says, give three wrong bytes and then the error why. opens
// counts all reads.
type damaging struct {
	blob.Store
	left  int
	opens int
	why   error
}

var errTransfer = errors.New("the connection broke")

// Open counts the call. As long as d.left is above 0, what it returns breaks off with d.why after three wrong bytes.
func (d *damaging) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	body, attrs, err := d.Store.Open(ctx, name, r)
	if d.opens++; err != nil || d.left == 0 {
		return body, attrs, err
	}
	d.left--
	return io.NopCloser(io.MultiReader(strings.NewReader("dam"), iotest.ErrReader(d.why))), attrs, body.Close()
}

// TestWhatArrivesDamagedIsReadAgain: ReadAll reads an object up to seven times if its data are damaged on the way. It
// reads once if the object does not exist or is too long. If the checksum is wrong every time, the object is
// problem.Damaged, and so is one that is too long; if the connection breaks every time, it is not. The object has 5
// bytes. In each case: its name, the limit, how many reads are damaged, how many reads are expected, and the error.
func TestWhatArrivesDamagedIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := blob.Memory()
		must.Get(whole.Put(t.Context(), "a", blob.Any, strings.NewReader("whole")))(t)
		for _, tc := range []struct {
			name    string
			limit   int64
			damaged int
			opens   int
			want    error
		}{
			{"a", 5, 0, 1, nil}, {"a", 5, 6, 7, nil}, {"a", 5, 7, 7, errTransfer}, {"a", 5, 7, 7, blob.ErrChecksum},
			{"a", 4, 0, 1, blob.ErrTooLong}, {"b", 5, 0, 1, blob.ErrNotExist},
		} {
			s := &damaging{Store: whole, left: tc.damaged, why: cmp.Or(tc.want, errTransfer)}
			data, _, err := blob.ReadAll(t.Context(), s, tc.name, tc.limit)
			damaged := errors.Is(tc.want, blob.ErrChecksum) || errors.Is(tc.want, blob.ErrTooLong)
			if problem.Is(err, problem.Damaged) != damaged {
				t.Errorf("%s, %d times %v: %v; want it damaged: %t", tc.name, tc.damaged, s.why, err, damaged)
			}
			if !errors.Is(err, tc.want) || err == nil && string(data) != "whole" || s.opens != tc.opens {
				t.Errorf("%s of at most %d bytes, %d times damaged: %q, %v after %d reads; want %v after %d", tc.name,
					tc.limit, tc.damaged, data, err, s.opens, tc.want, tc.opens)
			}
		}
	})
}
