package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// aliasCall is a call about the champion: "read", "promote" or "rollback".
type aliasCall struct {
	do         string
	to, expect int
}

// aliasAnswer is what the caller was told: a version, or why not. An unknown answer means that it cannot tell.
type aliasAnswer struct {
	version int
	refused string // "conflict", "nowhere"
	unknown bool
}

// aliasState is the state of the champion's alias in the model: what callers would find who call one after the other.
type aliasState struct {
	version    int    // 0 before the first promotion
	past       string // the versions before, as text, so that states can be compared
	rolledFrom int    // the last move was a rollback from there; 0 if it was none
}

// apply returns the state after a call, and what its caller must be told: the registry's promise about one call.
func (s aliasState) apply(c aliasCall) (aliasState, aliasAnswer) {
	past := strings.Fields(s.past)
	switch c.do {
	case "read":
	case "promote":
		switch {
		case s.version == c.to:
		case s.version != c.expect:
			return s, aliasAnswer{refused: "conflict"}
		default:
			past = append(past, fmt.Sprint(s.version))
			if s.version == 0 {
				past = nil
			}
			s = aliasState{c.to, strings.Join(past, " "), 0}
		}
	case "rollback":
		switch {
		case s.version == 0:
			return s, aliasAnswer{refused: "nowhere"}
		case s.version != c.expect && s.rolledFrom == c.expect && c.expect > 0:
		case s.version != c.expect:
			return s, aliasAnswer{refused: "conflict"}
		default:
			last := len(past) - 1
			for last >= 0 && past[last] == fmt.Sprint(s.version) {
				last--
			}
			if last < 0 {
				return s, aliasAnswer{refused: "nowhere"}
			}
			from := s.version
			if _, err := fmt.Sscan(past[last], &s.version); err != nil {
				panic(err)
			}
			s.past, s.rolledFrom = strings.Join(past[:last], " "), from
		}
	}
	if s.version == 0 {
		return s, aliasAnswer{refused: "nowhere"}
	}
	return s, aliasAnswer{version: s.version}
}

// aliasModel is the model by which a history of concurrent calls is judged: there must be an order of the calls, each
// between its beginning and its end, in which every caller was told what apply says. A call whose answer is unknown may
// have had its effect or not.
var aliasModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{aliasState{}} },
	Step: func(state, input, output any) []any {
		before := state.(aliasState)
		after, answer := before.apply(input.(aliasCall))
		if output.(aliasAnswer).unknown {
			return []any{before, after}
		}
		if answer != output.(aliasAnswer) {
			return nil
		}
		return []any{after}
	},
}).ToModel()

// blind is a faulty store: it replaces an alias also if that has changed since it was read.
type blind struct{ blob.Store }

func (b blind) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	if strings.Contains(name, "/aliases/") {
		cond = blob.Any
	}
	return b.Store.Put(ctx, name, cond, r)
}

// aliasHistory returns the calls of four concurrent callers who promote, roll back and read the champion, drawn from a
// seed, and what each was told; and what Verify says of the moves in the end. The store, which under may wrap, stalls
// and loses a fifth of the answers to writes.
func aliasHistory(t *testing.T, seed uint64, under func(blob.Store) blob.Store) (history []porcupine.Operation,
	broken error) {
	t.Helper()
	const callers, calls, versions = 4, 8, 4
	store := blob.Memory()
	for n := range versions {
		register(t, registry.New(store), "ctr", fmt.Sprint("sweep-", n))
	}
	lossy := blobtest.NewLossy(under(store), seed, 0.2)
	lossy.Repeats = seed%2 == 0

	var clock atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(seed, uint64(caller)))
			r := registry.New(blobtest.NewStalling(lossy, seed+uint64(caller), 0.4, time.Second))
			known := 0
			for range calls {
				c := aliasCall{do: []string{"read", "promote", "promote", "rollback"}[draw.IntN(4)],
					to: 1 + draw.IntN(versions), expect: known}
				op := porcupine.Operation{ClientId: caller, Input: c, Call: clock.Add(1)}
				answer := callAlias(t, r, c)
				op.Output, op.Return = answer, clock.Add(1)
				if answer.unknown {
					op.Return = 1 << 62 // it may have its effect at any later time
				}
				if answer.version > 0 {
					known = answer.version
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
				if answer.unknown { // a caller without an answer makes no other call at the same time
					return
				}
			}
		})
	}
	all.Wait()
	_, broken = registry.New(store).Verify(t.Context(), "ctr")
	return history, broken
}

// callAlias makes one call, and returns what the caller was told. An error of another kind fails the test.
func callAlias(t *testing.T, r *registry.Registry, c aliasCall) aliasAnswer {
	act := registry.Act{By: "test", Why: "because", At: time.Now()}
	var a registry.Alias
	var err error
	switch c.do {
	case "promote":
		a, err = r.Promote(t.Context(), "ctr", c.to, registry.Expect{Version: c.expect}, act)
	case "rollback":
		a, err = r.Rollback(t.Context(), "ctr", registry.Champion, 0, registry.Expect{Version: c.expect}, act)
	default:
		a, err = r.Alias(t.Context(), "ctr", registry.Champion)
	}
	switch {
	case errors.Is(err, blobtest.ErrLost):
		return aliasAnswer{unknown: true}
	case problem.Is(err, problem.Conflict):
		return aliasAnswer{refused: "conflict"}
	case problem.Is(err, problem.NotFound):
		return aliasAnswer{refused: "nowhere"}
	case err != nil:
		t.Errorf("%+v: %v; want an answer, a conflict or nothing there", c, err)
	}
	return aliasAnswer{version: a.Version}
}

// TestAliasesAreLinearizable: concurrent callers who promote, roll back and read the champion are told what callers
// one after the other would be told, although the store stalls and loses answers, and their moves form one history.
// Over a store without compare-and-swap, the same check must find calls that no order explains, which shows that it can
// fail.
func TestAliasesAreLinearizable(t *testing.T) {
	seeds := uint64(60)
	if os.Getenv("COPPICE_FULL") != "" {
		seeds = 300
	}
	for name, under := range map[string]func(blob.Store) blob.Store{
		"sound": func(s blob.Store) blob.Store { return s },
		"blind": func(s blob.Store) blob.Store { return blind{s} },
	} {
		wrong, moves := 0, 0
		for seed := range seeds {
			var history []porcupine.Operation
			var broken error
			synctest.Test(t, func(t *testing.T) { history, broken = aliasHistory(t, seed, under) })
			moves += len(slices.DeleteFunc(slices.Clone(history), func(o porcupine.Operation) bool {
				return o.Output.(aliasAnswer).version == 0 || o.Input.(aliasCall).do == "read"
			}))
			if broken != nil && name == "sound" {
				t.Errorf("seed %d: verified in the end: error %v, want moves that form one history", seed, broken)
			}
			if porcupine.CheckOperations(aliasModel, history) {
				continue
			}
			wrong++
			if name == "sound" {
				t.Errorf("seed %d: no order of these calls explains what the callers were told, want one: %+v", seed,
					history)
			}
		}
		t.Logf("%s: %d histories, %d moves, %d not linearizable", name, seeds, moves, wrong)
		if name == "blind" && wrong == 0 {
			t.Error("a store that replaces an alias blindly passes the check, want it not to: the check proves nothing")
		}
	}
}

// years returns a registry after n nights: each has registered a version and promoted it. Of every five versions, three
// were deleted later.
func years(t *testing.T, n int) *blobtest.Counting {
	t.Helper()
	s := blobtest.NewCounting(blob.Memory())
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

// TestWhatVersionsCost: operations that happen every night take a bounded number of requests, also with 200 versions.
// Those that return all versions may take up to 4.5 requests for each. Names are listed in proportion to the
// versions.
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
			_, err := r.Rollback(t.Context(), "ctr", registry.Champion, 0, at, act(0, "worse"))
			return err
		}, 30},
		"the last three moves": {func(r *registry.Registry) error {
			n := 0
			for _, err := range r.Moves(t.Context(), "ctr", registry.Champion) {
				n++
				if n == 3 || err != nil {
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
				t.Fatalf("%s: got error %v, want none", what, err)
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

// TestMoves: Moves yields the moves of an alias latest first. A damaged one is an error of kind Damaged, after which
// the earlier ones follow. In the texts, a move is the version to which it led, and an error is "?".
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
	must.Equal(t, moves(), "5 4 3 2 1 ", "moves")
	// Damage accumulates: each object stays damaged in the cases after it. So the first two errors of the last case are
	// those of the alias and of move 5.
	for _, c := range []struct{ object, want string }{
		{"history/champion/00000005.json", "5 4 3 2 1 "}, // the alias has it
		{"history/champion/00000003.json", "5 4 ? 2 1 "},
		{"aliases/champion.json", "? ? 4 ? 2 1 "},
	} {
		must.Get(s.Put(t.Context(), "registry/ctr/"+c.object, blob.Any, strings.NewReader("{")))(t)
		must.Equal(t, moves(), c.want, "moves with a damaged %s", c.object)
	}
}
