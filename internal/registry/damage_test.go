package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// overwrite replaces the contents of an object.
func overwrite(t *testing.T, s blob.Store, object, text string) {
	t.Helper()
	must.Get(s.Put(t.Context(), object, blob.Any, strings.NewReader(text)))(t)
}

func TestDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		object, text string
		do           func(*registry.Registry) error
		want         string
	}{
		"file": {"registry/ctr/versions/1/model.txt", "model A", func(r *registry.Registry) error {
			v, err := r.Get(context.Background(), "ctr", "1")
			if err != nil {
				return err
			}
			return third(r.ReadFile(context.Background(), v, "model.txt"))
		}, "7 bytes with SHA-256"},
		"longer file": {"registry/ctr/versions/1/model.txt", strings.Repeat("x", 1000),
			func(r *registry.Registry) error {
				v, err := r.Get(context.Background(), "ctr", "1")
				if err != nil {
					return err
				}
				return third(r.ReadFile(context.Background(), v, "model.txt"))
			}, "object is too long: more than the 7 bytes"},
		"version": {"registry/ctr/versions/1/version.json", "{",
			func(r *registry.Registry) error { return third(r.Get(context.Background(), "ctr", "1")) },
			"unexpected end of JSON"},
		"format": {"registry/ctr/versions/1/version.json", `{"format":2}`,
			func(r *registry.Registry) error { return third(r.Get(context.Background(), "ctr", "1")) },
			"format 2; this build reads 1"},
		"versions": {"registry/ctr/versions/1/version.json", "{", func(r *registry.Registry) error {
			all, err := r.Versions(context.Background(), "ctr")
			if len(all) != 1 || all[0].Number != 2 {
				return fmt.Errorf("the other version is not there: %+v", all)
			}
			return err
		}, "unexpected end of JSON"},
		"alias": {"registry/ctr/aliases/champion.json", `{"format":1,"model":"ctr","alias":"champion","version":7}`,
			func(r *registry.Registry) error { return third(r.Get(context.Background(), "ctr", "")) },
			"it is \"champion\" of \"ctr\" at version 7"},
		"huge record": {"registry/ctr/versions/1/version.json", strings.Repeat(" ", 1<<20+1),
			func(r *registry.Registry) error { return third(r.Get(context.Background(), "ctr", "1")) },
			"object is too long: more than the 1048576 bytes"},
		"event": {"registry/ctr/history/champion/00000001.json", "[]", func(r *registry.Registry) error {
			events, err := r.History(context.Background(), "ctr")
			if len(events) != 3 { // two registrations and the second move
				return fmt.Errorf("%d events", len(events))
			}
			return err
		}, "an object belongs here"},
	} {
		t.Run(name, func(t *testing.T) {
			s := blob.Memory()
			r := registry.New(s)
			register(t, r, "ctr", "a")
			register(t, r, "ctr", "b")
			for i := range 2 {
				must.Get(r.Promote(t.Context(), "ctr", 1+i, registry.Expect{Any: true}, act(i, "x")))(t)
			}
			overwrite(t, s, tc.object, tc.text)
			err := tc.do(r)
			if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), tc.object) {
				t.Errorf("with other bytes at %s: got error %v; want one of kind damaged that names it and says %q",
					tc.object, err, tc.want)
			}
		})
	}
}

// TestStrangersInTheBucket: objects that no registry wrote neither confuse nor hide anything.
func TestStrangersInTheBucket(t *testing.T) {
	s := blob.Memory()
	r := registry.New(s)
	register(t, r, "ctr", "a")
	for _, object := range []string{
		"registry/ctr/versions/README", "registry/ctr/versions/02/version.json", "registry/ctr/versions/-3/claim.json",
		"registry/ctr/versions/x/claim.json",
		"registry/ctr/versions/9/model.txt", "registry/ctr/versions/99999999999999999999/claim.json",
		"registry/_models/README", "registry/_models/Bad Name.json",
		"registry/_models/empty.json", "registry/ctr/aliases/notes.txt", "registry/ctr/aliases/a/b.json",
		"registry/ctr/history/champion/1.json", "registry/ctr/history/x",
	} {
		overwrite(t, s, object, "not ours")
	}
	if v := register(t, r, "ctr", "b"); v.Number != 2 {
		t.Errorf("number %d", v.Number)
	}
	if models, err := r.Models(t.Context()); err != nil || !slices.Equal(models, []string{"ctr"}) {
		t.Errorf("the models beside a stray object: got %v, %v; want ctr", models, err)
	}
	if all, err := r.Aliases(t.Context(), "ctr"); err != nil || len(all) != 0 {
		t.Errorf("the aliases beside a stray object: got %v, %v; want none", all, err)
	}
	if n := len(history(t, r, "ctr")); n != 2 {
		t.Errorf("%d events", n)
	}
	overwrite(t, s, "registry/ctr/versions/3/claim.json", "a claim that cannot be read takes the number")
	if v := register(t, r, "ctr", "c"); v.Number != 4 {
		t.Errorf("number %d", v.Number)
	}
}

func TestDeletedEventIsNoticed(t *testing.T) {
	s := blob.Memory()
	r := registry.New(s)
	register(t, r, "ctr", "a")
	register(t, r, "ctr", "b")
	for i := range 4 {
		must.Get(r.Promote(t.Context(), "ctr", 1+i%2, registry.Expect{Any: true}, act(i, "x")))(t)
	}
	events, err := registry.New(&without{s, "registry/ctr/history/champion/00000002.json"}).History(t.Context(), "ctr")
	if !problem.Is(err, problem.Damaged) ||
		!strings.Contains(err.Error(), "registry/ctr/history/champion/00000002.json") ||
		len(events) != 5 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

// without is a store in which one object has been deleted.
type without struct {
	blob.Store
	object string
}

func (w *without) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		for a, err := range w.Store.List(ctx, prefix) {
			if a.Name != w.object && !yield(a, err) {
				return
			}
		}
	}
}

// brokenReads ends the reads of one object in the middle.
type brokenReads struct {
	blob.Store
	object string
}

func (b *brokenReads) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	rc, a, err := b.Store.Open(ctx, name, r)
	if err == nil && name == b.object {
		rc.Close()
		return io.NopCloser(io.MultiReader(strings.NewReader("{"), failing{})), a, nil
	}
	return rc, a, err
}

type failing struct{}

var errCut = errors.New("the connection was cut")

func (failing) Read([]byte) (int, error) { return 0, errCut }

func TestBrokenReadIsNoDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	s := blob.Memory()
	register(t, registry.New(s), "ctr", "a")
	r := registry.New(&brokenReads{s, "registry/ctr/versions/1/version.json"})
	_, err := r.Get(t.Context(), "ctr", "1")
	if !errors.Is(err, errCut) || problem.Is(err, problem.Damaged) {
		t.Errorf("a read that breaks off: got error %v; want errCut, and no word of damage", err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := registry.New(blob.Memory())
	for name, err := range map[string]error{
		"register": third(r.Register(ctx, "ctr", "k", files("k"), info(0))),
		"get":      third(r.Get(ctx, "ctr", "")),
		"models":   third(r.Models(ctx)),
		"versions": third(r.Versions(ctx, "ctr")),
		"history":  third(r.History(ctx, "ctr")),
		"promote":  third(r.Promote(ctx, "ctr", 1, registry.Expect{}, act(0, "x"))),
		"rollback": third(r.Rollback(ctx, "ctr", "champion", registry.Expect{}, act(0, "x"))),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v; want context.Canceled", name, err)
		}
	}
}

// TestFindWhateverIsDamaged: what was registered under a key is found by any of the records that say so, and
// registering it again is still harmless.
func TestFindWhateverIsDamaged(t *testing.T) {
	const (
		key, claim, version = "registry/ctr/keys/a.json", "registry/ctr/versions/1/claim.json",
			"registry/ctr/versions/1/version.json"
		others = `{"format":1,"model":"ctr","key":"b","version":1}`
	)
	for name, tc := range map[string]struct {
		spoil     map[string]string
		number    int // that Find knows
		corrupt   bool
		registers bool
	}{
		"nothing":            {nil, 1, false, true},
		"key":                {map[string]string{key: "{"}, 1, false, true},
		"key, another's":     {map[string]string{key: others}, 1, false, true},
		"claim":              {map[string]string{claim: "{"}, 1, false, true},
		"key and claim":      {map[string]string{key: "{", claim: "{"}, 1, false, true},
		"version":            {map[string]string{version: "{"}, 1, true, false},
		"key and version":    {map[string]string{key: "{", version: "{"}, 1, true, false},
		"all that say whose": {map[string]string{key: "{", claim: "{", version: "{"}, 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := blob.Memory()
			r := registry.New(s)
			register(t, r, "ctr", "a")
			register(t, r, "ctr", "b")
			for object, text := range tc.spoil {
				overwrite(t, s, object, text)
			}

			v, err := r.Find(t.Context(), "ctr", "a")
			if v.Number != tc.number || problem.Is(err, problem.Damaged) != tc.corrupt || err != nil && !tc.corrupt {
				t.Errorf("Find gives version %d and %v; want version %d, damaged: %t", v.Number, err, tc.number,
					tc.corrupt)
			}
			if v, err := r.Register(t.Context(), "ctr", "a", files("a"), info(5)); tc.registers &&
				(err != nil || v.Number != 1) || !tc.registers && !problem.Is(err, problem.Damaged) {
				t.Errorf("registering again gives version %d and %v; want version 1: %t, else a *CorruptError",
					v.Number, err, tc.registers)
			}
		})
	}

	r := registry.New(blob.Memory())
	if _, err := r.Find(t.Context(), "ctr", "a"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Find in an empty registry: %v, want a *NotFoundError", err)
	}
}
