//go:build unix

package gcsemu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"
)

// TestListing separates items and prefixes as the service does: with folders as gcloud and the console make them, which
// are empty objects whose names end in a slash.
func TestListing(t *testing.T) {
	all := []string{"a", "a/", "a/b", "a/c/d", "a/c/e", "a//x", "b-1", "b/", "z"}
	slices.Sort(all)
	w := start(t, Options{})
	for _, name := range all {
		w.mustPut(name, "")
	}
	for _, c := range []struct {
		q    storage.Query
		want string
	}{
		{storage.Query{}, strings.Join(all, " ")},
		{storage.Query{Prefix: "a/"}, "a/ a//x a/b a/c/d a/c/e"},
		{storage.Query{Delimiter: "/"}, "a b-1 z a/ b/"},
		{storage.Query{Delimiter: "/", IncludeTrailingDelimiter: true}, "a a/ b-1 b/ z a/ b/"},
		{storage.Query{Delimiter: "/", Prefix: "a/"}, "a/ a/b a// a/c/"},
		{storage.Query{Delimiter: "/", Prefix: "b"}, "b-1 b/"},
		{storage.Query{Delimiter: "/", Prefix: "b/"}, "b/"},
		{storage.Query{Delimiter: "/", Prefix: "a/c"}, "a/c/"},
		{storage.Query{Delimiter: "/c", Prefix: "a"}, "a a/ a//x a/b a/c"},
		{storage.Query{Delimiter: "/", Prefix: "none/"}, ""},
		{storage.Query{StartOffset: "a/b", EndOffset: "b/"}, "a/b a/c/d a/c/e b-1"},
		{storage.Query{StartOffset: "a/b", Delimiter: "/"}, "b-1 z a/ b/"},
	} {
		if got := strings.Join(w.list(&c.q), " "); got != c.want {
			w.Errorf("list %+v: %s\nexpected %s", c.q, got, c.want)
		}
	}
}

// TestPages: pages of every size list the same, wherever a page ends.
func TestPages(t *testing.T) {
	w := start(t, Options{})
	for i := range 7 {
		w.mustPut(fmt.Sprintf("d%d/x", i), "")
		w.mustPut(fmt.Sprintf("d%d/y", i), "")
		w.mustPut(fmt.Sprintf("d%d", i), "")
		w.mustPut(fmt.Sprintf("d%d/", i), "")
	}
	for _, q := range []storage.Query{{}, {Delimiter: "/"}, {Delimiter: "/", IncludeTrailingDelimiter: true},
		{Prefix: "d3/"}} {
		want := slices.Sorted(slices.Values(w.list(&q)))
		for size := 1; size < 6; size++ {
			if got := w.pages(q, size); !slices.Equal(got, want) {
				w.Errorf("list %+v in pages of %d: %q\nexpected %q", q, size, got, want)
			}
		}
	}
}

// pages lists in pages of a size, and fails if one is longer, or is empty although more follow.
func (w *world) pages(q storage.Query, size int) []string {
	w.Helper()
	var got []string
	pager := iterator.NewPager(w.b.Objects(w.ctx, &q), size, "")
	for {
		var page []*storage.ObjectAttrs
		next, err := pager.NextPage(&page)
		if err != nil {
			w.Fatal(err)
		}
		for _, a := range page {
			got = append(got, a.Prefix+a.Name)
		}
		if next == "" {
			return slices.Sorted(slices.Values(got))
		}
	}
}
