package worker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// claimsOf returns the names of all claims in the sweep.
func (w *world) claimsOf(t *testing.T) (claims []string) {
	t.Helper()
	for attrs, err := range w.sweeps.List(t.Context(), sweep.Names(w.plan.Sweep).Trials()) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(attrs.Name, "/claims/") {
			claims = append(claims, attrs.Name)
		}
	}
	return claims
}

// TestLostAnswersCostNothing: when three in ten answers to writes are lost and the storage client retries the writes, a
// task still recognises its own claims and results: nothing is claimed twice or waited for, and every trial is
// published once.
func TestLostAnswersCostNothing(t *testing.T) {
	want := calmModels(t, 7, nil)
	for seed := range uint64(3) {
		w := newWorld(t, 7, nil)
		synctest.Test(t, func(t *testing.T) {
			lossy := blobtest.NewLossy(w.sweeps, seed, 0.3)
			lossy.Repeats = true
			worker, start := w.worker(0), time.Now()
			worker.Sweeps = lossy
			if err := worker.Run(t.Context()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}

			if claims := w.claimsOf(t); len(claims) != 7 || len(w.published.messages) != 7 ||
				time.Since(start) >= time.Minute {
				t.Errorf("seed %d, %d answers lost: claims %q and %d messages after %s; want 7 of each and no waiting",
					seed, lossy.Lost(), claims, len(w.published.messages), time.Since(start))
			}
			if got := w.models(t); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("seed %d: other models than without losses", seed)
			}
		})
	}
}

// TestWriteIDs: create-only objects carry the id of their write, which is ignored when two plans are compared.
func TestWriteIDs(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.run(t, 0)
	seen := map[string]string{}
	names := sweep.Names(w.plan.Sweep)
	for _, name := range []string{names.Claim(0, 0), names.Claim(1, 0), names.Result(0), names.Result(1)} {
		var o sweep.Written
		must.Get(blob.ReadJSON(t.Context(), w.sweeps, name, &o))(t)
		if before, twice := seen[o.WriteID]; o.WriteID == "" || twice {
			t.Errorf("%s has the write id %q, as %q has; want one of its own", name, o.WriteID, before)
		}
		seen[o.WriteID] = name
	}
	other := *w.plan
	other.WriteID = "x"
	if other.Fingerprint() != w.plan.Fingerprint() {
		t.Error("a plan's write id changes its fingerprint")
	}
}

// TestLostAnswersEndAttempts: when the storage client gives up, an attempt may end; the next ones finish the sweep with
// the same models, and every trial is published once.
func TestLostAnswersEndAttempts(t *testing.T) {
	calm := newWorld(t, 3, nil)
	must.Do(t, calm.worker(0).Run(t.Context()))
	want, ended := calm.models(t), 0
	for seed := range uint64(3) {
		w := newWorld(t, 3, nil)
		synctest.Test(t, func(t *testing.T) {
			lossy := blobtest.NewLossy(w.sweeps, seed, 0.1)
			for attempt := 0; ; attempt++ {
				worker := w.worker(0)
				worker.Attempt, worker.Sweeps, worker.Nonce = attempt, lossy, fmt.Sprint("attempt-", attempt)
				err := worker.Run(t.Context())
				if err == nil {
					break
				}
				ended++
				if !problem.Is(err, problem.Transient) || !errors.Is(err, blobtest.ErrLost) {
					t.Fatalf("seed %d, attempt %d: %v; want a transient error, the lost answer", seed, attempt, err)
				}
			}
		})
		if got := w.models(t); fmt.Sprint(got) != fmt.Sprint(want) || len(w.published.messages) != 3 {
			t.Errorf("seed %d: %d messages, want 3, and the models of a sweep without losses", seed,
				len(w.published.messages))
		}
	}
	if ended == 0 {
		t.Error("no attempt met a lost answer")
	}
}
