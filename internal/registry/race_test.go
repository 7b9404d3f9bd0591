package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/registry"
)

// jostled returns a store in memory that yields to other goroutines, a random number of times, before every call and
// after each write, so that concurrent callers interleave in many ways.
func jostled() blob.Store {
	jostle := func() {
		for range rand.IntN(30) {
			runtime.Gosched()
		}
	}
	return &blobtest.Hooked{Store: blob.Memory(),
		Before: func(context.Context, blobtest.Call, string) error {
			jostle()
			return nil
		},
		After: func(_ context.Context, call blobtest.Call, _ string, err error) error {
			if call == blobtest.Put {
				jostle()
			}
			return err
		}}
}

// mortal returns a store as seen by a process that dies at its write number left: that call and all later ones fail
// with errCrash. landed says whether that write still takes effect.
func mortal(s blob.Store, left int, landed bool) blob.Store {
	dead := false
	return &blobtest.Hooked{Store: s,
		Before: func(_ context.Context, call blobtest.Call, _ string) error {
			last := false
			if call == blobtest.Put && !dead {
				left--
				dead = left == 0
				last = dead && landed
			}
			if dead && !last {
				return errCrash
			}
			return nil
		},
		After: func(_ context.Context, _ blobtest.Call, _ string, err error) error {
			if dead && err == nil {
				return errCrash
			}
			return err
		}}
}

// TestConcurrentRegister: if eight callers register at once, each key gets one version, all its callers with the same
// files are told the same number, and the numbers are 1 to the number of keys. Of callers with other files under one
// key one succeeds, the version has its files, and the others get a *ConflictError.
func TestConcurrentRegister(t *testing.T) {
	for name, of := range map[string]func(i int) (key, text string){
		"one key":     func(int) (string, string) { return "k", "x" },
		"many keys":   func(i int) (string, string) { return fmt.Sprint("k", i), "x" },
		"two keys":    func(i int) (string, string) { return fmt.Sprint("k", i%2), "x" },
		"other files": func(i int) (string, string) { return "k", fmt.Sprint(i) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				s := jostled()
				told := map[string]map[string]bool{} // by key: the number that a caller was told, and its text
				var mu sync.Mutex
				var wg sync.WaitGroup
				for i := range 8 {
					key, text := of(i)
					wg.Go(func() {
						v, err := registry.New(s).Register(t.Context(), "ctr", key, files(text), info(i))
						mu.Lock()
						defer mu.Unlock()
						if told[key] == nil {
							told[key] = map[string]bool{}
						}
						if err == nil {
							told[key][fmt.Sprint(v.Number, " model ", text)] = true
						} else if !errors.As(err, new(*registry.ConflictError)) || text == "x" {
							t.Errorf("registered at once: error %v, want none, or a conflict with other files", err)
						}
					})
				}
				wg.Wait()

				r := registry.New(s)
				all, err := r.Versions(t.Context(), "ctr")
				if err != nil || len(all) != len(told) {
					t.Fatalf("%d versions for %d keys, %v; want one for each", len(all), len(told), err)
				}
				for i, v := range all {
					text := must.Get(r.ReadFile(t.Context(), v, "model.txt"))(t)
					if want := fmt.Sprint(i+1, " ", string(text)); len(told[v.Key]) != 1 || !told[v.Key][want] {
						t.Errorf("version %d of key %s: its callers were told %v; want all to be told %q", v.Number,
							v.Key, told[v.Key], want)
					}
				}
			}
		})
	}
}

var errCrash = errors.New("the process died")

// story returns the life of a model in steps: three versions, each promoted, a rollback, and another alias. Each step
// may be repeated after a crash.
func story(t *testing.T) []func(r *registry.Registry) error {
	ctx := t.Context()
	do := func(key string, day int) func(r *registry.Registry) error {
		return func(r *registry.Registry) error { return third(r.Register(ctx, "ctr", key, files(key), info(day))) }
	}
	promote := func(to, from, day int) func(r *registry.Registry) error {
		return func(r *registry.Registry) error {
			return third(r.Promote(ctx, "ctr", to, registry.Expect{Version: from},
				act(day, fmt.Sprint("promote ", to))))
		}
	}
	return []func(r *registry.Registry) error{
		do("a", 1), promote(1, 0, 2), do("b", 3), promote(2, 1, 4), do("c", 5), promote(3, 2, 6),
		func(r *registry.Registry) error {
			return third(r.Rollback(ctx, "ctr", "champion", 0, registry.Expect{Version: 3}, act(7, "alarm")))
		},
		func(r *registry.Registry) error {
			return third(r.SetAlias(ctx, "ctr", "canary", 3, registry.Expect{}, act(8, "watch")))
		},
	}
}

// tell runs the story in a process that dies at its k-th write, and from the step of its death on in a new process that
// does not die. died is false if the story has fewer writes.
func tell(t *testing.T, s blob.Store, k int, landed bool) (died bool) {
	t.Helper()
	process := registry.New(mortal(s, k, landed))
	for i, step := range story(t) {
		err := step(process)
		if errors.Is(err, errCrash) {
			died, process = true, registry.New(s)
			err = step(process)
		}
		if err != nil {
			t.Fatalf("write %d: step %d: got error %v, want none", k, i, err)
		}
	}
	return died
}

// TestDyingAtEveryWrite: a process dies at its k-th write, which takes effect or not, and another one continues the
// story. For every k, the history and all objects are those of a story without a death.
func TestDyingAtEveryWrite(t *testing.T) {
	calm := blob.Memory()
	if tell(t, calm, 1<<30, false) {
		t.Fatal("it died without a planted death")
	}
	want, wantHistory := snapshot(t, calm), history(t, registry.New(calm), "ctr")
	if len(wantHistory) != 8 {
		t.Fatalf("the story without a death has %d events, want 8", len(wantHistory))
	}
	tried := 0
	for _, landed := range []bool{false, true} {
		for k := 1; ; k++ {
			s := blob.Memory()
			if !tell(t, s, k, landed) {
				break
			}
			tried++
			if got := history(t, registry.New(s), "ctr"); !reflect.DeepEqual(got, wantHistory) {
				t.Errorf("write %d, landed %v: the history is %q; want that without a death", k, landed, describe(got))
			}
			got := snapshot(t, s)
			// The copy of an alias's last event is written with its next move at the latest.
			for _, last := range []string{"registry/ctr/history/canary/00000001.json",
				"registry/ctr/history/champion/00000004.json"} {
				if _, there := got[last]; !there {
					got[last] = want[last]
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("write %d, landed %v: got other objects, want those without the crash", k, landed)
			}
		}
	}
	if tried < 2*30 {
		t.Errorf("the process died in %d stories, want at least 60, or the test shows little", tried)
	}
}

// TestDyingAndBeingOvertaken: a process dies while it registers under a key. Another key is registered, and then the
// first one again, with other files. The two have the numbers 1 and 2, in either order, and the first has its new
// files. Only if the first version had been complete, its new files are a conflict.
func TestDyingAndBeingOvertaken(t *testing.T) {
	ctx := t.Context()
	for _, landed := range []bool{false, true} {
		for k := 1; ; k++ {
			s := blob.Memory()
			m := mortal(s, k, landed)
			if _, err := registry.New(m).Register(ctx, "ctr", "first", files("old"), info(0)); err == nil {
				break
			}
			r := registry.New(s)
			second := must.Get(r.Register(ctx, "ctr", "second", files("second"), info(1)))(t)
			first, err := r.Register(ctx, "ctr", "first", files("new"), info(2))
			var conflict *registry.ConflictError
			if errors.As(err, &conflict) { // the first had committed, but died before the answer
				if !landed {
					t.Fatalf("write %d did not land: got %v, want no conflict", k, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("write %d: got error %v, want none", k, err)
			}
			if first.Number+second.Number != 3 {
				t.Errorf("write %d: numbers %d and %d; want 1 and 2", k, first.Number, second.Number)
			}
			for name, want := range files("new") {
				if got, err := r.ReadFile(ctx, first, name); err != nil || string(got) != string(want) {
					t.Errorf("write %d: %s is %q, %v; want the new one", k, name, got, err)
				}
			}
			if again, err := r.Register(ctx, "ctr", "first", files("new"), info(3)); err != nil ||
				!reflect.DeepEqual(again, first) {
				t.Errorf("write %d, registered once more: got %+v, error %v; want the same version, %+v", k, again, err,
					first)
			}
			if models, err := r.Models(ctx); err != nil || len(models) != 1 {
				t.Errorf("write %d: models %v, %v; want one", k, models, err)
			}
		}
	}
}

// TestBytesOfADeadAttemptStandAside: a process dies after writing its files, but before its version is complete. Other
// files under the same key are then stored beside those that differ, under a name with their checksum; a file with the
// same bytes keeps its name.
func TestBytesOfADeadAttemptStandAside(t *testing.T) {
	s := blob.Memory()
	m := mortal(s, 7, false) // claim, model, key, three files; the version is lost
	if _, err := registry.New(m).Register(t.Context(), "ctr", "k", files("old"), info(0)); err == nil {
		t.Fatal("the first attempt lived, want it dead")
	}
	v := must.Get(registry.New(s).Register(t.Context(), "ctr", "k", files("new"), info(0)))(t)
	f, _ := v.File("model.txt")
	if want := "registry/ctr/versions/1/other/" + f.SHA256[:16] + "/model.txt"; f.Object != want {
		t.Errorf("model.txt lies at %s, want %s", f.Object, want)
	}
	if f, _ := v.File("calibrator.json"); f.Object != "registry/ctr/versions/1/calibrator.json" {
		t.Errorf("calibrator.json lies at %s, want its own name, which no other has taken", f.Object)
	}
}

// TestLostAnswers: over a store that does each write but loses the answer, so that its client's retry is told of a
// conflict, the story succeeds and ends with the same objects.
func TestLostAnswers(t *testing.T) {
	s, calm := blob.Memory(), blob.Memory()
	// The client writes again, and is told that it lost a race.
	after := func(_ context.Context, call blobtest.Call, name string, err error) error {
		if call == blobtest.Put && err == nil {
			err = fmt.Errorf("put %s: %w", name, blob.ErrPrecondition)
		}
		return err
	}
	deaf := &blobtest.Hooked{Store: s, After: after}
	for i, step := range story(t) {
		if err := step(registry.New(deaf)); err != nil {
			t.Fatalf("step %d: got error %v, want none", i, err)
		}
	}
	tell(t, calm, 1<<30, false) // the process dies at a write that is never reached, so not at all
	got, want := snapshot(t, s), snapshot(t, calm)
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("without answers, %s is %.80q; want %.80q, as with answers", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("without answers there are %d objects; want %d, as with answers", len(got), len(want))
	}
}

// TestMovesWithoutCopies: if no event can be copied into the history, the first move of an alias succeeds, and its
// event is read from the alias. The next move fails, since it would overwrite that event.
func TestMovesWithoutCopies(t *testing.T) {
	s, r := registered(t, "a", "b")
	refusing := registry.New(refusingTo(s, blobtest.Put, "/history/"))
	must.Get(refusing.Promote(t.Context(), "ctr", 1, registry.Expect{}, act(1, "one")))(t)
	if _, err := refusing.Promote(t.Context(), "ctr", 2, registry.Expect{Version: 1}, act(2, "two")); !errors.Is(err,
		errRefused) {
		t.Fatalf("no copy of the event can be written: got error %v; want errRefused", err)
	}
	if got := describe(history(t, r, "ctr")); len(got) != 3 || got[2] != "promoted champion 1: 0 to 1 by ada: one" {
		t.Errorf("the history after a refused promotion is %q; want two registrations and the first promotion", got)
	}
}

var errRefused = errors.New("permission denied")

// refusingTo returns a store that refuses a kind of calls about objects whose names contain part.
func refusingTo(s blob.Store, call blobtest.Call, part string) blob.Store {
	return blobtest.Before(s, call, func(_ context.Context, name string) error {
		if strings.Contains(name, part) {
			return errRefused
		}
		return nil
	})
}
