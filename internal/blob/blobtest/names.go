package blobtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"coppice/internal/blob"
)

// names returns the names that the store lists below a prefix. The test fails if the attributes in the listing are not
// those of the objects.
func (t *tester) names(prefix string) []string {
	t.Helper()
	var names []string
	for a, err := range t.s.List(t.ctx, prefix) {
		if err != nil {
			t.Fatalf("List: got error %v, want none", err)
		}
		data, _ := t.read(a.Name, blob.Range{Generation: a.Generation})
		t.attrsOf(a, a.Name, data)
		names = append(names, a.Name)
	}
	return names
}

// list writes seven names in another order and lists them by prefix: ascending by bytes, of which '/' stands between
// '.' and '0'. At last it stops in the middle of a listing, which must neither panic nor hang.
func (t *tester) list() {
	all := []string{"a-b", "a.b", "a/b", "a/b2", "a/c/d", "a0", "b/a"} // '-' < '.' < '/' < '0'
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(all)) {
		t.put(all[i], "contents of "+all[i], blob.Any)
	}

	for prefix, want := range map[string][]string{
		"": all, "a": all[:6], "a/": all[2:5], "a/b": all[2:4], "a/c/d": all[4:5], "b/": all[6:], "c": nil,
		"a/c/d/": nil,
	} {
		if got := t.names(prefix); !slices.Equal(got, want) {
			t.Errorf("list %q: %q, want %q", prefix, got, want)
		}
	}

	seen := 0
	for _, err := range t.s.List(t.ctx, "") {
		seen++
		if seen == 3 || err != nil {
			break
		}
	}
}

// strangeNames wants names that have to be escaped in a URL or in a file system to be told apart, and kept as they are.
func (t *tester) strangeNames() {
	names := []string{
		"with space", "per%cent", "per%2Fcent", "plus+plus", "hash#mark?query=1&x", "ünï/cödé/日本", "quote'\"<>",
		"dots..and...more", "~/:@!$()*,;=[]", "a%20b", "a b",
	}
	for _, n := range names {
		t.put(n, "contents of "+n, blob.Absent)
	}

	for _, n := range names {
		if data, a := t.read(n, blob.Range{}); data != "contents of "+n || a.Name != n {
			t.Errorf("%q holds %q, and is called %q", n, data, a.Name)
		}
		if data, _ := t.read(n, blob.Range{Offset: 3, Length: 5}); data != "tents" {
			t.Errorf("range of %q: %q", n, data)
		}
		if a, err := t.s.Stat(t.ctx, n); err != nil || a.Name != n {
			t.Errorf("stat %q: %+v, %v", n, a, err)
		}
	}

	slices.Sort(names)
	if got := t.names(""); !slices.Equal(got, names) {
		t.Errorf("listed %q, want %q", got, names)
	}
}

// refusedNames wants Put, Stat and Open to refuse every name that blob.ValidName does, and nothing to be written.
func (t *tester) refusedNames() {
	for _, n := range []string{"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\\b", "a\nb", "a\x00b",
		"\xff", strings.Repeat("x", 1025)} {
		_, err := t.s.Put(t.ctx, n, blob.Any, strings.NewReader("x"))
		t.wantErr(fmt.Sprintf("put %.20q", n), err, blob.ErrName)
		_, err = t.s.Stat(t.ctx, n)
		t.wantErr(fmt.Sprintf("stat %.20q", n), err, blob.ErrName)
		_, _, err = t.s.Open(t.ctx, n, blob.Range{})
		t.wantErr(fmt.Sprintf("open %.20q", n), err, blob.ErrName)
	}
	if got := t.names(""); len(got) > 0 {
		t.Errorf("after writes that were refused, listed %q; want nothing", got)
	}
}
