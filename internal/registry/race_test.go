package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/registry"
)

// jostled lets other goroutines go first, a random number of times, before every call of the store.
type jostled struct{ blob.Store }

func jostle() {
	for range rand.IntN(30) {
		runtime.Gosched()
	}
}

func (j jostled) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	jostle()
	defer jostle()
	return j.Store.Put(ctx, name, cond, r)
}

func (j jostled) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	jostle()
	return j.Store.Open(ctx, name, r)
}

func (j jostled) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	jostle()
	return j.Store.List(ctx, prefix)
}

func TestConcurrentRegister(t *testing.T) {
	for name, key := range map[string]func(i int) string{
		"one key":   func(int) string { return "k" },
		"many keys": func(i int) string { return fmt.Sprint("k", i) },
		"two keys":  func(i int) string { return fmt.Sprint("k", i%2) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				s := jostled{blob.Memory()}
				numbers := map[string]map[int]bool{}
				var mu sync.Mutex
				var wg sync.WaitGroup
				for i := range 8 {
					wg.Go(func() {
						v, err := registry.New(s).Register(t.Context(), "ctr", key(i), files(key(i)), info(i))
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						if numbers[key(i)] == nil {
							numbers[key(i)] = map[int]bool{}
						}
						numbers[key(i)][v.Number] = true
					})
				}
				wg.Wait()
				checkNumbers(t, s, numbers)
			}
		})
	}
}

// checkNumbers checks that every key has one number of its own, and that these are 1 to the number of keys.
func checkNumbers(t *testing.T, s blob.Store, numbers map[string]map[int]bool) {
	t.Helper()
	all, err := registry.New(s).Versions(t.Context(), "ctr")
	if err != nil || len(all) != len(numbers) {
		t.Fatalf("%d versions for %d keys, %v", len(all), len(numbers), err)
	}
	for i, v := range all {
		if v.Number != i+1 || len(numbers[v.Key]) != 1 || !numbers[v.Key][v.Number] {
			t.Errorf("version %d of key %s at %d; its callers were told %v", v.Number, v.Key, i, numbers[v.Key])
		}
		if got, err := registry.New(s).ReadFile(t.Context(), v, "model.txt"); err != nil || string(got) != "model "+
			v.Key {
			t.Errorf("the model of version %d is %q, error %v; want that of key %s", v.Number, got, err, v.Key)
		}
	}
}

// TestConcurrentOtherBytes: with one key and different bytes one attempt wins whole, and the others get an error.
func TestConcurrentOtherBytes(t *testing.T) {
	for range 50 {
		s := jostled{blob.Memory()}
		var wg sync.WaitGroup
		won := make([]bool, 8)
		for i := range won {
			wg.Go(func() {
				_, err := registry.New(s).Register(t.Context(), "ctr", "k", files(strconv.Itoa(i)), info(i))
				var conflict *registry.ConflictError
				if won[i] = err == nil; !won[i] && !errors.As(err, &conflict) {
					t.Errorf("registered other files under one key: error %v, expected success or a conflict", err)
				}
			})
		}
		wg.Wait()
		all, err := registry.New(s).Versions(t.Context(), "ctr")
		if err != nil || len(all) != 1 {
			t.Fatalf("%d versions, %v", len(all), err)
		}
		text, err := registry.New(s).ReadFile(t.Context(), all[0], "model.txt")
		winner := slices.Index(won, true)
		if err != nil || winner < 0 || slices.Contains(won[winner+1:], true) ||
			string(text) != fmt.Sprint("model ", winner) {
			t.Errorf("%q, %v; won: %v", text, err, won)
		}
	}
}

func TestConcurrentMoves(t *testing.T) {
	s := jostled{blob.Memory()}
	r := registry.New(s)
	for i := range 8 {
		register(t, r, "ctr", strconv.Itoa(i))
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := r.Promote(t.Context(), "ctr", i+1, registry.Expect{Any: true}, act(i, "race")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	events := history(t, r, "ctr")[8:]
	if len(events) != 8 {
		t.Fatalf("%d moves", len(events))
	}
	slices.SortFunc(events, func(a, b registry.Event) int { return a.Sequence - b.Sequence })
	for i, e := range events {
		if e.Sequence != i+1 || i > 0 && e.From != events[i-1].To {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	// Of many callers that expect the same state, one moves the alias.
	at := events[7].To
	moved := make([]bool, 8)
	for i := range moved {
		wg.Go(func() {
			_, err := r.Promote(t.Context(), "ctr", (at+i%4)%8+1, registry.Expect{Version: at},
				act(i, fmt.Sprint("belief ", i)))
			var conflict *registry.ConflictError
			if moved[i] = err == nil; !moved[i] && !errors.As(err, &conflict) {
				t.Errorf("moved the champion from version %d: error %v, expected success or a conflict", at, err)
			}
		})
	}
	wg.Wait()
	if n := len(history(t, r, "ctr")); n != 17 || !slices.Contains(moved, true) {
		t.Errorf("%d events, moved: %v", n, moved)
	}
	// Many callers that roll back from the same version roll back once.
	a := must.Get(r.Alias(t.Context(), "ctr", "champion"))(t)
	for i := range 8 {
		wg.Go(func() {
			if _, err := r.Rollback(t.Context(), "ctr", "champion", registry.Expect{Version: a.Version},
				act(i, fmt.Sprint("alarm ", i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b, err := r.Alias(t.Context(), "ctr", "champion"); err != nil || b.Version != at ||
		len(b.Past) != len(a.Past)-1 {
		t.Errorf("%+v after %+v, %v", b, a, err)
	}
}
