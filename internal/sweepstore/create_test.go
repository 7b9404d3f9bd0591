package sweepstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// writer is one of several that want to create the same object, each with contents of its own.
type writer struct {
	create func(ctx context.Context) (bool, error)
	sign   string
}

// writers are four that want the same object: for a sweep's claim, result, ending and conclusion, by name.
func writers(s blob.Store, round int) map[string][]writer {
	p := &sweep.Plan{Sweep: sweep.ID(fmt.Sprintf("night-%d", round)), Trials: make([]sweep.Trial, 1)}
	whole, trials := sweepstore.New(s, p.Sweep), sweepstore.NewTrials(s, p)
	names, all := sweep.Names(p.Sweep), map[string][]writer{}
	for i := range 4 {
		sign := fmt.Sprintf("writer-%d", i)
		add := func(name string, create func(context.Context) (bool, error)) {
			all[name] = append(all[name], writer{create, sign})
		}
		add(names.Claim(0, 0), func(ctx context.Context) (bool, error) {
			return trials.CreateClaim(ctx, sweep.Claim{Format: 1, Sweep: p.Sweep, Host: sign})
		})
		add(names.Result(0), func(ctx context.Context) (bool, error) {
			return trials.CreateResult(ctx, sweep.Result{Format: 1, Sweep: p.Sweep, Status: sweep.StatusFailed,
				Reason: sign})
		})
		add(names.Ending(), func(ctx context.Context) (bool, error) {
			return whole.CreateEnding(ctx, sweep.Ending{Format: 1, Sweep: p.Sweep, Early: sign})
		})
		add(names.Conclusion(), func(ctx context.Context) (bool, error) {
			return whole.CreateConclusion(ctx, sweep.Conclusion{Format: 1, Sweep: p.Sweep,
				Outcome: sweep.OutcomeNoWinner, Reason: sign})
		})
	}
	return all
}

// TestLostAnswersAreSettled: if several writers create the same object at once while three of ten answers are lost,
// exactly one is told that it did, and its object is the one that exists; whether the store's client repeats a write or
// gives up.
func TestLostAnswersAreSettled(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 30
	}
	for _, repeats := range []bool{true, false} {
		lost := 0
		for seed := range uint64(seeds) {
			bucket := blob.Memory()
			lossy := blobtest.NewLossy(bucket, seed, 0.3)
			lossy.Repeats = repeats
			for object, all := range writers(lossy, int(seed)) {
				winner := race(t, all)
				data, _ := must.Get2(blob.ReadAll(t.Context(), bucket, object, 1<<20))(t)
				if len(winner) != 1 || !strings.Contains(string(data), winner[0]) {
					t.Fatalf("seed %d, client repeats %t: %q were told that they created %s, which holds\n%s", seed,
						repeats, winner, object, data)
				}
			}
			lost += lossy.Lost()
		}
		if lost < 3*seeds {
			t.Errorf("client repeats %t: only %d answers were lost; want %d", repeats, lost, 3*seeds)
		}
	}
}

// race lets all writers create at once and returns which were told that they did.
func race(t *testing.T, all []writer) (winners []string) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, w := range all {
		group.Go(func() {
			created, err := w.create(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("got %s: %v; want no error", w.sign, err)
			}
			if created {
				winners = append(winners, w.sign)
			}
		})
	}
	group.Wait()
	return winners
}

// unread is a store whose objects cannot be read.
type unread struct{ blob.Store }

var errUnread = errors.New("no objects can be read")

func (u unread) Open(context.Context, string, blob.Range) (io.ReadCloser, blob.Attrs, error) {
	return nil, blob.Attrs{}, errUnread
}

// TestWhatCannotBeSettledIsAnError: a writer is not told that it has lost, or won, if that is uncertain.
func TestWhatCannotBeSettledIsAnError(t *testing.T) {
	p := &sweep.Plan{Sweep: "night-1", Trials: make([]sweep.Trial, 1)}
	claim := sweep.Claim{Format: 1, Sweep: p.Sweep}
	check := func(what string, s blob.Store, want error) {
		t.Helper()
		if created, err := sweepstore.NewTrials(s, p).CreateClaim(t.Context(), claim); created ||
			!errors.Is(err, want) {
			t.Errorf("%s: created %t, error %v; want the error %v", what, created, err, want)
		}
	}

	check("the answer is lost and nothing can be read", blobtest.NewLossy(unread{blob.Memory()}, 1, 1),
		blobtest.ErrLost)
	taken := blob.Memory()
	if created, err := sweepstore.NewTrials(taken, p).CreateClaim(t.Context(), claim); !created || err != nil {
		t.Fatalf("the first claim: created %t, error %v", created, err)
	}
	check("an object is there that cannot be read", unread{taken}, errUnread)
}
