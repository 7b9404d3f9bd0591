package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// stoppingFlags say what sweeps are simulated.
type stoppingFlags struct {
	searchFlags
	rule           string
	workers, trees int
}

// treesAxis is the surrogate's number of trees, which is fixed here: trials are compared along it.
const treesAxis = "nrounds"

// Of sweep.yaml's search.stop, the defaults by trees.
const (
	rungEta     = 3
	rungFewest  = 10
	wholeSweeps = "none" // the rule that lets every trial run to its end
)

func regretStoppingCommand(out io.Writer) *cobra.Command {
	var f stoppingFlags
	cmd := &cobra.Command{
		Use:   "regret-stopping",
		Short: "Search the surrogate's tasks with trials that pause at rungs; one JSON object for each method and task",
		Args:  cobra.NoArgs,
		Long: `Simulates whole sweeps by the rules that tasks follow, with a number of trees that is the same
for every trial. A tree takes every worker the same time. A search finds the best of the trials that were
trained to their end; what it cost are the trees of all trials, as whole trainings.`,
		Example: "  gauge regret-stopping --data ../shared/data/surrogate --python build/venv-peers/bin/python " +
			"--methods auto,random --rule asha",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), out, cmd.ErrOrStderr()) },
	}

	f.add(cmd, sweep.MethodAuto, sweep.MethodRandom)
	cmd.Flags().StringVar(&f.rule, "rule", sweep.StopASHA,
		"by which trials go on at a rung: asha, halving, hyperband, or none")
	cmd.Flags().IntVar(&f.workers, "workers", 4, "trials at once")
	cmd.Flags().IntVar(&f.trees, "trees", 729, "trees of a whole training")
	_ = cmd.MarkFlagRequired("data")
	return cmd
}

func (f *stoppingFlags) run(ctx context.Context, out, errOut io.Writer) error {
	if f.rule != wholeSweeps && !slices.Contains(sweep.StopRules(), f.rule) {
		return fmt.Errorf("unknown rule %q: use one of %v, or %s", f.rule, sweep.StopRules(), wholeSweeps)
	}
	return f.withSurrogates(ctx, errOut, false, func(tasks []task) error { return f.sweepAll(tasks, out) })
}

func (f *stoppingFlags) sweepAll(tasks []task, out io.Writer) error {
	for _, method := range f.methods {
		for i := range tasks {
			t := &tasks[i]
			r := searched{Method: method + ", stop: " + f.rule, Task: t.Name, Batch: f.workers, Trials: f.trials,
				Best: &t.Best, Median: &t.Median}
			for seed := range f.seeds {
				found, trainings, err := f.sweep(t, method, uint64(seed))
				if err != nil {
					return fmt.Errorf("%s on %s: %w", r.Method, t.Name, err)
				}
				r.Found, r.Trainings = append(r.Found, rounded(found)), append(r.Trainings, trainings)
			}
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep simulates one: what it finds, and its trees as whole trainings.
func (f *stoppingFlags) sweep(t *task, method string, seed uint64) (found, trainings float64, err error) {
	p := &sweep.Plan{Maximize: true}
	p.Spec.Seed, p.Spec.Search = seed, t.Space
	p.Spec.Search.Method = method
	p.Spec.Search.Random = maps.Clone(t.Space.Random)
	delete(p.Spec.Search.Random, treesAxis)
	if f.rule != wholeSweeps {
		p.Spec.Search.Stop = &sweep.Stop{Rule: f.rule, By: sweep.ByTrees, Eta: rungEta, MinTrees: rungFewest,
			Rungs: search.Rungs(rungFewest, f.trees, rungEta)}
	}

	if p.Trials, err = search.Begin(p, nil, f.trials, func(own sweep.Params) (sweep.Params, error) {
		return own, nil
	}); err != nil {
		return 0, 0, err
	}
	for n := len(p.Trials); n < f.trials; n++ {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Source: method, Open: true})
	}

	c := climb{plan: p, trees: f.trees, value: func(own sweep.Params, trees int) (float64, error) {
		own = maps.Clone(own)
		own[treesAxis] = float64(trees)
		v, err := t.Values([]sweep.Params{own})
		if err != nil {
			return 0, err
		}
		return v[0], nil
	}}
	return c.run(f.workers)
}

// climb is a sweep whose trials climb from rung to rung.
type climb struct {
	plan  *sweep.Plan
	trees int // of a whole training
	value func(own sweep.Params, trees int) (float64, error)

	begun    []sweep.Seen // by number
	climbers []climber    // the same trials
	reached  []sweep.Reached
	now      int       // in trees
	coming   []arrival // one of each busy worker
}

// climber is where a trial is.
type climber struct {
	trees         int
	paused, ended bool
}

// arrival is when a trial will have so many trees.
type arrival struct{ time, trial, trees int }

func (c *climb) run(workers int) (found, trainings float64, err error) {
	for {
		for working := true; working && len(c.coming) < workers; {
			if working, err = c.employ(); err != nil {
				return 0, 0, err
			}
		}
		if len(c.coming) == 0 {
			break
		}
		if err := c.arrive(); err != nil {
			return 0, 0, err
		}
	}

	found, grown := math.Inf(-1), 0
	for i, s := range c.begun {
		grown += c.climbers[i].trees
		if s.Status == sweep.StatusDone {
			found = max(found, *s.Score)
		}
	}
	return found, float64(grown) / float64(c.trees), nil
}

// employ gives one worker something to do, if there is anything: a paused trial that is promoted, or else one that has
// not begun.
func (c *climb) employ() (working bool, err error) {
	if c.promote() {
		return true, nil
	}
	n := len(c.begun)
	if n == len(c.plan.Trials) {
		return false, nil
	}

	params := c.plan.Trials[n].Params
	if c.plan.Trials[n].Open {
		decided, err := search.Decide(c.plan, n, c.begun, nil)
		if err != nil {
			return false, err
		}
		params = decided.Params
	}
	c.begun, c.climbers = append(c.begun, sweep.Seen{Trial: n, Status: sweep.StatusRunning, Params: params}),
		append(c.climbers, climber{})
	c.send(n)
	return true, nil
}

// send lets a trial grow to its next rung, or to its end.
func (c *climb) send(trial int) {
	from, to := c.climbers[trial].trees, c.trees
	if c.plan.Spec.Search.Stop != nil {
		for _, rung := range search.RungsOf(c.plan, trial) {
			if rung > from {
				to = min(to, rung)
			}
		}
	}
	c.coming = append(c.coming, arrival{c.now + to - from, trial, to})
}

// promote looks for a paused trial that goes on, and ends those that never will.
func (c *climb) promote() bool {
	l := search.Ladder{Reached: c.reached, Coming: map[int]int{}, Last: len(c.begun) == len(c.plan.Trials) &&
		len(c.coming) == 0}
	for _, r := range c.reached {
		if at := c.climbers[r.Trial]; at.paused && at.trees == r.Step {
			l.Paused = append(l.Paused, r)
			l.Coming[r.Step] = c.onTheWay(r.Step)
		}
	}
	if len(l.Paused) == 0 {
		return false
	}

	for _, r := range search.Resumable(c.plan, l) {
		c.climbers[r.Trial].paused = false
		if r.Action == search.GoOn {
			c.send(r.Trial)
			return true
		}
		c.climbers[r.Trial].ended = true
	}
	return false
}

// onTheWay counts the trials that may still come to a rung.
func (c *climb) onTheWay(rung int) int {
	n := len(c.plan.Trials) - len(c.begun)
	for _, at := range c.climbers {
		if at.trees < rung && !at.ended {
			n++
		}
	}
	return n
}

// arrive takes the next trial to come to a rung or to its end.
func (c *climb) arrive() error {
	first := 0
	for i, a := range c.coming {
		if b := c.coming[first]; a.time < b.time || a.time == b.time && a.trial < b.trial {
			first = i
		}
	}
	a := c.coming[first]
	c.coming = append(c.coming[:first], c.coming[first+1:]...)
	s := &c.begun[a.trial]
	v, err := c.value(s.Params, a.trees)
	if err != nil {
		return err
	}
	at := &c.climbers[a.trial]
	c.now, at.trees, s.Score = a.time, a.trees, &v
	if a.trees == c.trees {
		s.Status, at.ended = sweep.StatusDone, true
		return nil
	}

	own := sweep.Reached{Step: a.trees, Trial: a.trial, Score: v}
	var seen []sweep.Reached
	for _, r := range c.reached {
		if r.Step == own.Step {
			seen = append(seen, r)
		}
	}
	c.reached, s.Rungs = append(c.reached, own), append(s.Rungs, sweep.RungScore{Step: a.trees, Score: v})
	if at.paused = search.AtRung(c.plan, own, seen).Action == search.Wait; !at.paused {
		c.send(a.trial)
	}
	// To a method that learns, a trial that was paused is a stopped one until it ends.
	s.Status = sweep.StatusStopped
	return nil
}
