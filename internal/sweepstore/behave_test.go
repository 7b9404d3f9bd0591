package sweepstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestBehaviour: what is written is read back, create-only objects stay as they are, and a damaged object of each kind
// means to every reader what internal/sweep/WIRE.md says. That every blob.Store behaves as the memory used here is
// package blobtest's part.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		test func(*tester)
	}{
		{"sweeps", (*tester).sweeps},
		{"created once", (*tester).createdOnce},
		{"absent", (*tester).absent},
		{"claims", (*tester).claims},
		{"results", (*tester).results},
		{"files", (*tester).files},
		{"checkpoints", (*tester).checkpoints},
		{"curves", (*tester).curves},
		{"decisions", (*tester).decisions},
		{"promotions", (*tester).promotions},
		{"gathered", (*tester).gathered},
		{"gathered folds", (*tester).gatheredFolds},
		{"rungs", (*tester).rungs},
		{"listing", (*tester).listing},
		{"strangers in a listing", (*tester).strangers},

		{"damaged plan", (*tester).damagedPlan},
		{"damaged claim", (*tester).damagedClaim},
		{"damaged heartbeat", (*tester).damagedHeartbeat},
		{"damaged result", (*tester).damagedResult},
		{"damaged curve", (*tester).damagedCurve},
		{"damaged decision", (*tester).damagedDecision},
		{"damaged end", (*tester).damagedEnd},

		{"contents that do not matter", (*tester).contentsDoNotMatter},
		{"cancelled", (*tester).cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()

			plan, bucket := newPlan(), blob.Memory()
			c.test(&tester{T: t, ctx: ctx, bucket: bucket, plan: plan,
				sweep: sweepstore.New(bucket, plan.Sweep), trials: sweepstore.NewTrials(bucket, plan)})
		})
	}
}

// tester is a test with an empty bucket, a plan of four trials, and access to that plan's sweep.
type tester struct {
	*testing.T
	ctx    context.Context
	bucket blob.Store
	plan   *sweep.Plan
	sweep  *sweepstore.Sweep
	trials *sweepstore.Trials
}

var at = time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC)

// newPlan returns a valid plan of four trials, with one fallback.
func newPlan() *sweep.Plan {
	p := &sweep.Plan{Format: 1, Sweep: "night-1", Created: at, Job: "projects/p/locations/l/jobs/night-1", Heartbeat: 1,
		Takeover: 2,
		Dataset:  sweep.DatasetRef{Name: "clicks", Version: "0123456789abcdef"},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
			Test: sweep.Rows{Split: "test"}},
		Fallback: []sweep.Sizing{{MachineType: "n2-highmem-8"}}}
	p.Spec.Model = "ctr"
	p.Spec.Machine.Fallback = make([]sweep.Fallback, 1)
	for i := range 4 {
		p.Trials = append(p.Trials, sweep.Trial{Number: i})
	}
	return p
}

// must fails unless a step succeeded.
func (t *tester) must(what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: got the error %v, want none", what, err)
	}
}

// created fails unless a create had the expected outcome.
func (t *tester) created(what string, want bool) func(bool, error) {
	t.Helper()
	return func(created bool, err error) {
		t.Helper()
		if err != nil || created != want {
			t.Fatalf("%s: created %t, error %v; want %t and none", what, created, err, want)
		}
	}
}

// equal fails the test unless what was read is as wanted.
func (t *tester) equal(what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: read %+v, want %+v", what, got, want)
	}
}

// put writes any bytes under a name.
func (t *tester) put(name, data string) {
	t.Helper()
	if _, err := t.bucket.Put(t.ctx, name, blob.Any, strings.NewReader(data)); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

// putJSON writes v under a name, which its kind's writer would not do.
func (t *tester) putJSON(name string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	t.must("encode", err)
	t.put(name, string(data))
}

// text returns the contents of a name.
func (t *tester) text(name string) string {
	t.Helper()
	data, _, err := blob.ReadAll(t.ctx, t.bucket, name, 1<<20)
	t.must("read", err)
	return string(data)
}

// wantDamaged fails unless err says that the named object is damaged, and is permanent for every caller.
func (t *tester) wantDamaged(what string, err error, object string) {
	t.Helper()
	if !problem.Is(err, problem.Damaged) || !strings.HasPrefix(err.Error(), object+": ") {
		t.Errorf("%s: error %v; expected that %s is damaged", what, err, object)
	}
}

// claim returns a claim of a trial by task 3.
func (t *tester) claim(trial, number int) sweep.Claim {
	return sweep.Claim{Format: 1, Sweep: t.plan.Sweep, Trial: trial, Claim: number, Job: "night-1", Task: 3, Host: "vm",
		Nonce: fmt.Sprint("n", number), At: at}
}

// result returns the result of a trial that is done, which names files that need not exist.
func (t *tester) result(trial int) sweep.Result {
	o := func(file string) sweep.Object {
		return sweep.Object{Name: sweep.Names(t.plan.Sweep).Attempt(trial, 0) + file, Bytes: 1}
	}
	model := o("model.txt")
	return sweep.Result{Format: 1, Sweep: t.plan.Sweep, Trial: trial, Status: sweep.StatusDone, Score: 0.5,
		Model: &model, Scores: &sweep.Scored{Calib: o("calib.scores"), Test: o("test.scores")}, Started: at,
		Ended: at.Add(time.Minute)}
}

// list lists all trials, and checks that the listing has them all.
func (t *tester) list() []sweepstore.Listed {
	t.Helper()
	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	if l.Ended.Before(l.Began) || len(l.Trials) != len(t.plan.Trials) {
		t.Fatalf("listing of %d trials from %s to %s; want all, and no end before the "+
			"beginning", len(l.Trials), l.Began, l.Ended)
	}
	return l.Trials
}

// writer is one of several that want to create the same object, each with contents of its own.
type writer struct {
	create func(ctx context.Context) (bool, error)
	sign   string
}

// writers returns, by the name of an object, four writers that want to create it: a claim, a result, the ending and the
// conclusion of the sweep of this round.
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

// TestLostAnswersAreSettled: if four writers create the same object at once while about three of ten answers of the
// store are lost, exactly one is told that it created it, and its object is the one that exists. That holds whether the
// store's client repeats a write or gives up. At least three answers are lost for each seed, or little would be tested.
func TestLostAnswersAreSettled(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 30
	}
	for _, repeats := range []bool{true, false} {
		lost := 0
		for seed := range uint64(seeds) {
			bucket := blob.Memory()
			lossy := blobtest.NewLossy(bucket, seed, 0.3) // loses the answer to a write with this probability
			lossy.Repeats = repeats
			for object, all := range writers(lossy, int(seed)) {
				winner := race(t, all)
				data, _ := must.Get2(blob.ReadAll(t.Context(), bucket, object, 1<<20))(t)
				if len(winner) != 1 || !strings.Contains(string(data), winner[0]) {
					t.Fatalf("seed %d, client repeats %t: %q were told that they created %s, which holds\n%s\nwant "+
						"one writer, whose object it is", seed, repeats, winner, object, data)
				}
			}
			lost += lossy.Lost()
		}
		if lost < 3*seeds {
			t.Errorf("client repeats %t: %d answers were lost, want at least %d", repeats, lost, 3*seeds)
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

var errUnread = errors.New("no objects can be read")

// unread is a store whose objects cannot be read.
func unread(s blob.Store) blob.Store {
	return blobtest.Before(s, blobtest.Open, func(context.Context, string) error { return errUnread })
}

// TestWhatCannotBeSettledIsAnError: a writer gets an error, and is told neither that it created the object nor that
// another did, if the answer is lost and no object can be read, or if an object exists that cannot be read.
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

	// The seed is 1, and so is the share of answers that are lost: all of them.
	check("the answer is lost and nothing can be read", blobtest.NewLossy(unread(blob.Memory()), 1, 1),
		blobtest.ErrLost)
	taken := blob.Memory()
	if created, err := sweepstore.NewTrials(taken, p).CreateClaim(t.Context(), claim); !created || err != nil {
		t.Fatalf("the first claim: created %t, error %v; want true and none", created, err)
	}
	check("an object is there that cannot be read", unread(taken), errUnread)
}
