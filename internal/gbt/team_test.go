package gbt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"coppice/internal/must"
)

// gathering is a team of goroutines in one process. At each call of a Team's method, all workers put down their words,
// wait for those of the others, and take them.
type gathering struct {
	mu      sync.Mutex
	changed sync.Cond
	words   [][]int64 // by worker, its words of the current call
	came    int       // how many workers have put down their words
	left    int       // how many workers have yet to take the others'
	gone    bool      // a worker is lost: all further calls fail
	calls   int       // how many calls were made, of all workers
	dies    int       // the number of the call at which its worker is lost; -1 for none
}

// seat is a worker's place in a gathering, and its Team.
type seat struct {
	*gathering
	rank int
}

// newGathering returns the Team of each of size workers.
func newGathering(size int) []Team {
	m := &gathering{words: make([][]int64, size), dies: -1}
	m.changed.L = &m.mu
	var seats []Team
	for i := range size {
		seats = append(seats, seat{m, i})
	}
	return seats
}

func (s seat) Place() (rank, size int) { return s.rank, len(s.words) }

var errLeft = errors.New("a worker has left")

// leave ends the team, as a closed connection does.
func (m *gathering) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	m.changed.Broadcast()
}

// meet puts down a worker's words, waits until all workers have done so, and calls take with the words of all of them.
func (s seat) meet(words []int64, take func(all [][]int64)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.left > 0 && !s.gone { // the last call is not over
		s.changed.Wait()
	}
	s.calls++
	if s.calls == s.dies {
		s.gone = true
		s.changed.Broadcast()
		return errLeft
	}
	// The last one to come makes left the number of workers, for which the others wait.
	s.words[s.rank] = slices.Clone(words)
	s.came++
	if s.came == len(s.words) {
		s.came, s.left = 0, len(s.words)
		s.changed.Broadcast()
	} else {
		for s.left == 0 && !s.gone {
			s.changed.Wait()
		}
	}
	if s.left == 0 { // woken because a worker is gone, and not all have come
		return errLeft
	}
	take(s.words)
	s.left--
	if s.left == 0 {
		s.changed.Broadcast()
	}
	return nil
}

// Reduce is Team.Reduce; it makes the words of other workers unusable, since these are undefined.
func (s seat) Reduce(words []int64, bounds []int) error {
	return s.meet(words, func(all [][]int64) {
		for j := range words {
			if j < bounds[s.rank] || j >= bounds[s.rank+1] {
				words[j] = -12345 // undefined
				continue
			}
			words[j] = 0
			for _, w := range all {
				words[j] += w[j]
			}
		}
	})
}

func (s seat) Gather(words []int64) (got []int64, err error) {
	err = s.meet(words, func(all [][]int64) { got = slices.Concat(all...) })
	return got, err
}

func (s seat) Broadcast(from int, words []int64) error {
	return s.meet(words, func(all [][]int64) { copy(words, all[from]) })
}

// shares returns where the rows of each worker begin among n rows, and the end. How is equal, random, or absurd: most
// workers have no row or a single one.
func shares(rng *rand.Rand, how string, n, workers int) []int {
	begin := make([]int, workers+1)
	for i := range begin {
		begin[i] = n * i / workers
	}
	switch how {
	case "random":
		for i := 1; i < workers; i++ {
			begin[i] = rng.IntN(n + 1)
		}
	case "absurd": // one has a row, some none
		for i := 1; i < workers; i++ {
			begin[i] = []int{0, 1, n}[rng.IntN(3)]
		}
	}
	slices.Sort(begin)
	begin[workers] = n
	return begin
}

// trainTogether trains with a team that has a worker for each part of the table, from begin[w] to begin[w+1], and
// returns the results and errors of the workers. The team loses a worker at call number dies; -1 for never. own, if not
// nil, may change a worker's table and options.
func trainTogether(t *testing.T, d *Data, p Params, opt Options, begin []int, dies int,
	own func(worker int, part *Data, opt *Options)) ([]*Result, []error) {
	t.Helper()
	n := len(begin) - 1
	seats := newGathering(n)
	seats[0].(seat).dies = dies // of the gathering that all seats share
	results, errs := make([]*Result, n), make([]error, n)
	var wg sync.WaitGroup
	for w := range n {
		part := d.Shard(begin[w], begin[w+1])
		part.Team = seats[w]
		o := opt
		if own != nil {
			own(w, part, &o)
		}
		wg.Go(func() {
			results[w], errs[w] = Train(t.Context(), part, p, o)
			if errs[w] != nil {
				seats[w].(seat).leave()
			}
		})
	}
	wg.Wait()
	return results, errs
}

// TestAnyDivisionGivesTheSameModel: each worker of a team gets the model of one alone, byte for byte, for any number of
// workers and threads and any division of the rows. The trainings are random ones. Under the race detector only four
// seeds are tried, among them one with a table of some and one of many rows.
func TestAnyDivisionGivesTheSameModel(t *testing.T) {
	seeds := []uint64{1, 4, 5, 11}
	if !raceEnabled {
		seeds = seeds[:0]
		for seed := range uint64(some(36)) {
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		s := tableOfFew
		switch seed % 12 {
		case 11:
			s = tableOfMany
		case 5:
			s = tableOfSome
		}
		trial := randomTrial(seed, s)
		opt := Options{Threads: 1, Shift: float64(seed % 3)}
		if seed%5 < 3 { // with early stopping, by a metric that is the first row's score: any number will do
			opt.Valid, opt.Eval = &trial.Data, func(raw []float64) (float64, error) { return raw[0], nil }
			trial.p.EarlyStoppingRound = 1 + int(seed%3)
		}
		rng := rand.New(rand.NewPCG(seed, 5))
		want := mustTrain(t, &trial.Data, trial.p, opt)
		for _, workers := range []int{1, 2, 3, 4, 7} {
			for _, how := range []string{"equal", "random", "absurd"} {
				opt.Threads = 1 + rng.IntN(2)
				begin := shares(rng, how, trial.Rows, workers)
				what := fmt.Sprintf("seed %d, %v\n%d workers, rows from %v, %d threads", seed, trial, workers, begin,
					opt.Threads)
				results, errs := trainTogether(t, &trial.Data, trial.p, opt, begin, -1, nil) // -1: no worker is lost
				for w, got := range results {
					if errs[w] != nil {
						t.Fatalf("%s: worker %d: got error %v, want a model", what, w, errs[w])
					}
					if !bytes.Equal(text(t, got.Model), text(t, want.Model)) {
						t.Fatalf("%s: worker %d has another model than one alone, want the same: %s", what, w,
							firstDifference(text(t, got.Model), text(t, want.Model)))
					}
					if got.Best != want.Best || got.Grown != want.Grown || got.Stopped != want.Stopped {
						t.Fatalf("%s: worker %d: got %d of %d trees (%s), want %d of %d (%s)", what, w, got.Best,
							got.Grown, got.Stopped, want.Best, want.Grown, want.Stopped)
					}
				}
			}
		}
	}
}

// TestATeamGoesOnWithOthers: if a team loses a worker at any call, another team of one to four workers, with other
// parts of the rows, continues from the newest checkpoint that any worker has, again and again. The model in the end is
// that of an uninterrupted training.
func TestATeamGoesOnWithOthers(t *testing.T) {
	for seed := range uint64(40) {
		trial := randomTrial(seed, tableOfFew)
		rng := rand.New(rand.NewPCG(seed, 6))
		if seed%4 == 2 {
			trial.withObjective([]string{"quantile", "regression_l1"}[rng.IntN(2)], rng)
		}
		trial.p.NumIterations = 4
		opt := Options{Threads: 1, Identity: "here", Valid: &trial.Data}
		opt.Eval = func(raw []float64) (float64, error) {
			if slices.ContainsFunc(raw, math.IsNaN) {
				return 0, errors.New("the metric is not a number")
			}
			return raw[0], nil
		}
		want := mustTrain(t, &trial.Data, trial.p, opt)

		var newest *Checkpoint
		var mu sync.Mutex
		keep := func(_ int, _ *Data, o *Options) {
			o.Resume = newest
			o.Checkpoint = func(c *Checkpoint) error {
				mu.Lock()
				defer mu.Unlock()
				if newest == nil || c.Rounds() > newest.Rounds() {
					newest = c
				}
				return nil
			}
		}
		var got *Result
		for attempt := 0; got == nil; attempt++ {
			workers := 1 + rng.IntN(4)
			begin := shares(rng, []string{"equal", "random", "absurd"}[rng.IntN(3)], trial.Rows, workers)
			dies := 1 + rng.IntN(workers*100*(attempt+1)) // later from attempt to attempt, so that one succeeds
			results, errs := trainTogether(t, &trial.Data, trial.p, opt, begin, dies, keep)
			for w, err := range errs {
				if err == nil {
					got = results[w]
				} else if !errors.Is(err, ErrTeam) {
					t.Fatalf("seed %d, %v\nattempt %d of %d workers: worker %d: %v", seed, trial, attempt, workers, w,
						err)
				}
			}
		}
		if !bytes.Equal(text(t, got.Model), text(t, want.Model)) {
			t.Fatalf("seed %d, %v: another model than of an uninterrupted training, want the same: %s", seed, trial,
				firstDifference(text(t, got.Model), text(t, want.Model)))
		}
	}
}

// TestExchanges: Params.Exchanges is how many more calls of Team a tree takes than one of the objective binary without
// bags, for which Exchanges is 0. Calls for a tree are the difference between those of trainings with eight and with
// four trees of one split, divided by four.
func TestExchanges(t *testing.T) {
	const workers, few, many = 3, 4, 8
	perTree := func(p Params) int {
		d := ranked(3, 600, true) // for its labels from 0 to 4, which all these objectives take but binary
		d.Weight = make([]float32, d.Rows)
		for r, y := range d.Label {
			d.Weight[r] = 1
			if p.Objective == "binary" {
				d.Label[r] = min(y, 1)
			}
		}
		p.NumLeaves = 2
		var counts [2]int
		for i, trees := range []int{few, many} {
			p.NumIterations = trees
			var team *gathering // all workers share it
			trainTogether(t, &d.Data, p, Options{Threads: 1}, shares(nil, "equal", d.Rows, workers), -1,
				func(_ int, part *Data, _ *Options) {
					team = part.Team.(seat).gathering
				})
			counts[i] = team.calls / workers
		}
		return (counts[1] - counts[0]) / (many - few)
	}
	plain := perTree(rankParams("binary"))
	for what, change := range map[string]func(*Params){
		"binary, bags":  func(p *Params) { p.BaggingFraction, p.BaggingFreq = 0.5, 1 },
		"regression_l1": func(*Params) {},
		"regression":    func(*Params) {},
		"poisson":       func(*Params) {},
	} {
		objective, _, _ := strings.Cut(what, ",")
		p := rankParams(objective)
		change(&p)
		must.Equal(t, perTree(p)-plain, p.Exchanges(workers), "%s: exchanges more for each tree", what)
	}
}

// TestATeamEndsTogether: if the first worker's OnTree ends the training, all workers end: at a limit with as many
// trees, and with an error otherwise. If one worker's label is bad, it returns ErrData and the others ErrTeam.
func TestATeamEndsTogether(t *testing.T) {
	d := randomTable(tableSpec{rows: 900, numerical: 4, bins: 20, seed: 4})
	p := small()
	failing := errors.New("the disk is full")
	for _, tc := range []struct {
		what   string
		onTree error
		first  error
		others error
	}{
		{"at a limit", ErrLimit, nil, nil},
		{"with the first worker's error", failing, failing, ErrLeader},
	} {
		opt := Options{Threads: 1, OnTree: func(p Progress) error {
			if p.Tree == 2 {
				return tc.onTree
			}
			return nil
		}}
		results, errs := trainTogether(t, &d.Data, p, opt, []int{0, 300, 600, 900}, -1, nil)
		for w, err := range errs {
			want := tc.others
			if w == 0 {
				want = tc.first
			}
			if !errors.Is(err, want) {
				t.Errorf("a training ends %s: worker %d: error %v, want %v", tc.what, w, err, want)
			}
			if want == nil && (results[w].Grown != 2 || results[w].Stopped != StopLimit) {
				t.Errorf("a training ends %s: worker %d has %d trees and stopped because %q, want 2 and %q", tc.what,
					w, results[w].Grown, results[w].Stopped, StopLimit)
			}
		}
	}

	d.Label[700] = 2 // the third worker has rows 600 to 899
	_, errs := trainTogether(t, &d.Data, p, Options{Threads: 1}, []int{0, 300, 600, 900}, -1, nil)
	for w, want := range []error{ErrTeam, ErrTeam, ErrData} {
		if !errors.Is(errs[w], want) {
			t.Errorf("the third worker has a bad label: worker %d: error %v, want %v", w, errs[w], want)
		}
	}
}
