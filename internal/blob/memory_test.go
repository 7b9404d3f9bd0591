package blob_test

import (
	"errors"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(*testing.T) blob.Store { return blob.Memory() })
}

func TestSub(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store {
		all := blob.Memory()
		for _, decoy := range []string{"sweeps/x", "sweeps/x2/a", "a"} {
			must.Get(all.Put(t.Context(), decoy, blob.Any, strings.NewReader("decoy")))(t)
		}
		s := must.Get(blob.Sub(all, "sweeps/x/"))(t)
		return s
	})
}

func TestSubRefusesFolders(t *testing.T) {
	for _, folder := range []string{"", "/", "..", "a/../b", "/a", "a//"} {
		if _, err := blob.Sub(blob.Memory(), folder); !errors.Is(err, blob.ErrName) {
			t.Errorf("a store below the folder %q: got error %v; want ErrName", folder, err)
		}
	}
}

func TestSubWritesBelow(t *testing.T) {
	all := blob.Memory()
	s := must.Get(blob.Sub(all, "a/b"))(t)
	must.Get(blobtest.CreateJSON(t.Context(), s, "c.json", map[string]int{"n": 1}))(t)
	var got map[string]int
	if _, err := blob.ReadJSON(t.Context(), all, "a/b/c.json", &got); err != nil || got["n"] != 1 {
		t.Fatalf("written below a/b, read from the whole: got %v (error %v); want n to be 1", got, err)
	}
	if _, err := blob.ReadJSON(t.Context(), s, "../b/c.json", &got); !errors.Is(err, blob.ErrName) {
		t.Errorf("a name left its folder: %v", err)
	}
}

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
			t.Fatalf("%q passed", name)
		}
	})
}
