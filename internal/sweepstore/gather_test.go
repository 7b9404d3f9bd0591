package sweepstore_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// event is a moment in which a simulated task does something.
type event struct {
	at   float64
	task int
}

type events []event // at most one of each task

// next takes the earliest event out; of several at once it is that of the task with the smallest number.
func (e *events) next() event {
	first := slices.MinFunc(*e, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), a.task-b.task) })
	*e = slices.DeleteFunc(*e, func(o event) bool { return o == first })
	return first
}

// many is the number of tasks in the largest simulations, which take most of a minute. `make test` runs those with
// folds, which are a tenth of that, and with FULL=1 all. With -short none is run: under the race detector a simulation
// in one goroutine shows nothing.
const many = 100

// TestADecisionTakesFewObjects: a task requests at most five objects of the bucket for a decision, on average, however
// many tasks claim, decide and train at once. The listing is not counted, which a task needs anyway. From its listing
// to its write a simulated task takes a two-hundredth of a training, during which it sees nothing of what others do.
func TestADecisionTakesFewObjects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tasks, trials, folds int }{{1, 60, 0}, {16, 200, 0}, {many, 600, 0}, {1, 20, 3},
		{16, 60, 3}, {many, 100, 3}} {
		if c.tasks == many && (testing.Short() || c.folds == 0 && os.Getenv("COPPICE_FULL") == "") {
			continue
		}
		t.Run(fmt.Sprintf("%d tasks, %d folds", c.tasks, c.folds), func(t *testing.T) {
			t.Parallel()
			store := blobtest.NewCounting(blob.Memory())
			per := simulate(t, store, c.tasks, c.trials, c.folds)
			t.Logf("%d tasks, %d trials, %d folds: %.2f objects a decision", c.tasks, c.trials, c.folds, per)
			if per > 5 {
				t.Errorf("%.2f objects a decision, want at most 5", per)
			}
		})
	}
}

// simulate runs so many tasks on so many open trials, or on so many configurations with folds, and returns the number
// of objects requested for a trial's decision. Time is counted in trainings, and the events of all tasks are taken in
// the order of their times.
func simulate(t *testing.T, store *blobtest.Counting, tasks, trials, folds int) float64 {
	const latency = 0.005
	plan := &sweep.Plan{Format: 1, Sweep: "night-1", Base: sweep.Params{"seed": 1.0}}
	for n := range trials {
		plan.Trials = append(plan.Trials, sweep.Trial{Number: n, Open: true})
	}
	if folds > 0 {
		plan.Folds = sweep.NewFolds("kfold", make([]sweep.Round, folds), false)
		plan.Trials = plan.Folds.Expand(plan.Trials)
		trials *= folds
	}
	bucket := sweepstore.NewTrials(store, plan)

	type task struct {
		known  map[int]sweep.Seen
		ended  map[int]sweep.Result
		trial  int                 // it decides, or trains, -1 before the first
		listed *sweepstore.Listing // from which it decides; nil while it trains
	}
	all := make([]task, tasks)
	var todo events
	for i := range all {
		all[i] = task{known: map[int]sweep.Seen{}, ended: map[int]sweep.Result{}, trial: -1}
		todo = append(todo, event{0, i})
	}

	// free is the number of the next trial to take; decided counts the objects requested for decisions.
	rng, free, decided := rand.New(rand.NewPCG(1, 2)), 0, int64(0)
	for len(todo) > 0 {
		e := todo.next()
		now := &all[e.task]
		if now.listed == nil { // it has ended a trial, and lists to take the next
			if now.trial >= 0 {
				r := sweep.Result{Format: 1, Sweep: plan.Sweep, Trial: now.trial, Status: sweep.StatusFailed,
					Reason: "simulated"}
				must.Get(bucket.CreateResult(t.Context(), r))(t)
				now.ended[r.Trial] = r
				if folds == 0 { // with folds a task knows means of folds, which GatherFolds computes
					bucket.SeenResult(now.known, &r)
				}
			}
			if free == trials {
				continue // no trial is left, so this task ends
			}
			now.trial, free = free, free+1
			l := must.Get(bucket.List(t.Context()))(t)
			now.listed = &l
			todo = append(todo, event{e.at + latency*(0.5+rng.Float64()), e.task})
			continue
		}

		// Decide as a worker does, from the listing, and train.
		before := store.Asked.Load()
		decider := plan.Decider(now.trial)
		own := sweep.Params{"x": float64(decider)}
		was := must.Get(bucket.Decision(t.Context(), decider))(t)
		if was == nil { // of a configuration's folds, the task that is first decides for all
			must.Do(t, bucket.Gather(t.Context(), *now.listed, decider, now.known))
			if folds > 0 {
				must.Do(t, bucket.GatherFolds(t.Context(), *now.listed, decider, now.known, now.ended))
			}
			must.Get(bucket.TakeConfiguration(t.Context(), decider, fmt.Sprint(decider)))(t)
			seen := slices.SortedFunc(maps.Values(now.known), func(a, b sweep.Seen) int { return a.Trial - b.Trial })
			must.Get(bucket.CreateDecision(t.Context(), sweep.Decision{Format: 1, Sweep: plan.Sweep, Trial: decider,
				Params: own, Own: own, Seen: seen}))(t)
		}
		decided += store.Asked.Load() - before
		now.known[decider] = sweep.Seen{Trial: decider, Status: sweep.StatusRunning, Params: own}
		now.listed = nil
		todo = append(todo, event{e.at + 0.5 + rng.Float64(), e.task})
	}
	return float64(decided) / float64(trials)
}

// TestARungTakesFewObjects: a task requests at most five objects of the bucket at a rung, on average, however many
// tasks have trials that reach three rungs each. The listing is not counted here, either.
func TestARungTakesFewObjects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tasks, trials int }{{1, 60}, {16, 200}, {many, 600}} {
		if c.tasks == many && os.Getenv("COPPICE_FULL") == "" {
			continue
		}
		t.Run(fmt.Sprintf("%d tasks", c.tasks), func(t *testing.T) {
			t.Parallel()
			store := blobtest.NewCounting(blob.Memory())
			per := simulateRungs(t, store, c.tasks, c.trials)
			t.Logf("%d tasks, %d trials: %.2f objects a rung", c.tasks, c.trials, per)
			if per > 5 {
				t.Errorf("%.2f objects a rung, want at most 5", per)
			}
		})
	}
}

// simulateRungs runs so many tasks on so many trials, each of which reaches three rungs, and returns the number of
// objects requested at a rung.
func simulateRungs(t *testing.T, store *blobtest.Counting, tasks, trials int) float64 {
	const latency, rungs = 0.005, 3
	plan := &sweep.Plan{Format: 1, Sweep: "night-1", Trials: make([]sweep.Trial, trials)}
	bucket := sweepstore.NewTrials(store, plan)

	type task struct {
		known       map[sweepstore.RungKey]sweep.Reached
		trial, step int
		listed      *sweepstore.Listing
	}
	all, free, reached := make([]task, tasks), 0, 0
	rng := rand.New(rand.NewPCG(1, 2))
	var todo events
	begin := func(i int, at float64) {
		if free < trials {
			all[i].trial, all[i].step, free = free, 1, free+1
			todo = append(todo, event{at + 0.5 + rng.Float64(), i})
		}
	}
	for i := range all {
		all[i].known = map[sweepstore.RungKey]sweep.Reached{}
		begin(i, 0)
	}

	for len(todo) > 0 {
		e := todo.next()
		now := &all[e.task]
		if now.listed == nil {
			l := must.Get(bucket.List(t.Context()))(t)
			now.listed = &l
			todo = append(todo, event{e.at + latency*(0.5+rng.Float64()), e.task})
			continue
		}

		must.Do(t, bucket.GatherRungs(t.Context(), *now.listed, now.trial, now.step, now.step, now.known))
		r := sweep.Rung{Format: 1, Sweep: plan.Sweep, Trial: now.trial, Step: now.step,
			Seen: sweepstore.ReachedOf(now.known, now.trial, now.step, now.step)}
		must.Get(bucket.CreateRung(t.Context(), r))(t)
		now.known[sweepstore.RungKey{Step: now.step, Trial: now.trial}] = sweep.Reached{Step: now.step,
			Trial: now.trial}
		now.listed, reached = nil, reached+1
		now.step++
		if now.step > rungs {
			begin(e.task, e.at)
			continue
		}
		todo = append(todo, event{e.at + 0.5 + rng.Float64(), e.task})
	}
	return float64(store.Asked.Load()) / float64(reached)
}
