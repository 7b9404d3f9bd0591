package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// years returns a model as n nights leave it: a version and a move of the champion each, and of every five nights the
// first three deleted.
func years(t *testing.T, n int) *blobtest.Counting {
	t.Helper()
	s := &blobtest.Counting{Store: blob.Memory()}
	r := registry.New(s)
	for i := 1; i <= n; i++ {
		v := register(t, r, "ctr", fmt.Sprint("night-", i))
		must.Get(r.Promote(t.Context(), "ctr", v.Number, registry.Expect{Any: true}, act(i, "better")))(t)
		if old := i - 5; old > 0 && old%5 < 3 {
			must.Do(t, r.Delete(t.Context(), "ctr", old, act(i, "old")))
		}
	}
	return s
}

// TestWhatVersionsCost counts requests for objects at 100 and 200 versions. What happens every night must not read
// more the more nights there were; what shows all versions may read a few objects of each.
func TestWhatVersionsCost(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	t.Parallel()
	small, large := years(t, 100), years(t, 200)
	for what, c := range map[string]struct {
		do   func(r *registry.Registry) error
		most int64 // requests beside the listing; 0 for up to 4.5 per version
	}{
		"register": {func(r *registry.Registry) error {
			_, err := r.Register(t.Context(), "ctr", "tonight", files("x"), info(0))
			return err
		}, 12},
		"register again": {func(r *registry.Registry) error {
			_, err := r.Register(t.Context(), "ctr", "night-99", files("night-99"), info(0))
			return err
		}, 4},
		"find": {func(r *registry.Registry) error {
			_, err := r.Find(t.Context(), "ctr", "night-99")
			return err
		}, 4},
		"find none": {func(r *registry.Registry) error {
			if _, err := r.Find(t.Context(), "ctr", "other"); problem.Of(err) != problem.NotFound {
				return fmt.Errorf("find a key that was never used: got %w; want an error of kind NotFound", err)
			}
			return nil
		}, 4},
		"the champion": {func(r *registry.Registry) error {
			_, err := r.Get(t.Context(), "ctr", "")
			return err
		}, 4},
		"the newest": {func(r *registry.Registry) error {
			_, err := r.Get(t.Context(), "ctr", "latest")
			return err
		}, 4},
		"promote and roll back": {func(r *registry.Registry) error {
			at := registry.Expect{Any: true}
			if _, err := r.Promote(t.Context(), "ctr", 98, at, act(0, "better")); err != nil {
				return err
			}
			_, err := r.Rollback(t.Context(), "ctr", registry.Champion, at, act(0, "worse"))
			return err
		}, 30},
		"the last three moves": {func(r *registry.Registry) error {
			n := 0
			for _, err := range r.Moves(t.Context(), "ctr", registry.Champion) {
				if n++; n == 3 || err != nil {
					return err
				}
			}
			return nil
		}, 4},
		"models": {func(r *registry.Registry) error {
			_, err := r.Models(t.Context())
			return err
		}, 1},
		"numbers": {func(r *registry.Registry) error {
			_, err := r.Numbers(t.Context(), "ctr")
			return err
		}, 0},
		"versions": {func(r *registry.Registry) error {
			_, err := r.Versions(t.Context(), "ctr")
			return err
		}, 0},
		"history": {func(r *registry.Registry) error {
			_, err := r.History(t.Context(), "ctr")
			return err
		}, 0},
	} {
		var asked, listed [2]int64
		for i, s := range []*blobtest.Counting{small, large} {
			s.Asked.Store(0)
			s.Listed.Store(0)
			if err := c.do(registry.New(s)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			asked[i], listed[i] = s.Asked.Load(), s.Listed.Load()
		}
		t.Logf("%s: %d and %d requests, %d and %d names listed", what, asked[0], asked[1], listed[0], listed[1])
		if c.most > 0 && asked[1] > c.most {
			t.Errorf("%s: %d requests at 100 versions and %d at 200; want at most %d", what, asked[0], asked[1], c.most)
		}
		if asked[1] > 900 || listed[1] > 3*listed[0] {
			t.Errorf("%s: %d requests and %d names at 200 versions, %d names at 100; want up to 900, and names in "+
				"proportion", what, asked[1], listed[1], listed[0])
		}
	}
}

// TestMoves: the moves of an alias come latest first, and pass over what cannot be read.
func TestMoves(t *testing.T) {
	s := blob.Memory()
	r := registry.New(s)
	for i := 1; i <= 5; i++ {
		v := register(t, r, "ctr", fmt.Sprint("night-", i))
		must.Get(r.Promote(t.Context(), "ctr", v.Number, registry.Expect{Any: true}, act(i, "better")))(t)
	}
	moves := func() string {
		text := ""
		for e, err := range r.Moves(t.Context(), "ctr", registry.Champion) {
			switch {
			case problem.Is(err, problem.Damaged):
				text += "? "
			case err != nil:
				t.Fatal(err)
			default:
				text += fmt.Sprint(e.To, " ")
			}
		}
		return text
	}
	if got, want := moves(), "5 4 3 2 1 "; got != want {
		t.Errorf("moves: got %q, want %q", got, want)
	}
	for _, c := range []struct{ object, want string }{
		{"history/champion/00000005.json", "5 4 3 2 1 "}, // the alias has it
		{"history/champion/00000003.json", "5 4 ? 2 1 "},
		{"aliases/champion.json", "? ? 4 ? 2 1 "},
	} {
		must.Get(s.Put(t.Context(), "registry/ctr/"+c.object, blob.Any, strings.NewReader("{")))(t)
		if got := moves(); got != c.want {
			t.Errorf("moves with a damaged %s: got %q, want %q", c.object, got, c.want)
		}
	}
}
