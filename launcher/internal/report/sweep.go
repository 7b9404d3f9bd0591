// Package report reads what a page shows: a sweep, a model of the registry, a dataset. It decides nothing and writes
// nothing. The same objects give the same view: no clock is asked, a sweep is as old as its newest object. Of one that
// lacks machines, Batch says why.
package report

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/blob"
	"coppice/internal/engine"
	"coppice/internal/ledger"
	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/bill"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/quote"
	"coppice/launcher/internal/sweepview"
)

// AskJob asks the engine about a sweep's job; nil where it cannot be asked.
type AskJob func(context.Context, *sweep.Plan) (provision.SweepJob, error)

// Links are the engine's own pages about a sweep; nil where there are none.
type Links func(job, sweep string, since time.Time) []engine.Link

// jobPatience is how long a page waits for what the engine says, which is not worth more.
const jobPatience = 5 * time.Second

// ask returns the status of the plan's job; the zero value if the engine cannot be asked, fails, or does not answer
// within jobPatience.
func (a AskJob) ask(ctx context.Context, p *sweep.Plan) (job provision.SweepJob) {
	if a != nil {
		ctx, cancel := context.WithTimeout(ctx, jobPatience)
		defer cancel()
		job, _ = a(ctx, p)
	}
	return job
}

// SweepReader is one sweep as it has been read so far. It is used by one goroutine at a time.
type SweepReader struct {
	Online bool // the sweep's machines cost something
	Job    AskJob
	Links  Links

	registry *registry.Registry
	follow   *sweepview.View
	trials   *sweepstore.Trials
	ledger   ledger.Reader
	curves   map[int]curve // by trial
	winner   *page.Winner  // once it is known
	notes    []string      // about the winner
}

// curve is a trial's learning curve as it was last read.
type curve struct {
	claims int                // how many of its claims had a curve then
	points []sweep.CurvePoint // those of all of them, joined
}

// OpenSweep reads a sweep's plan, and returns what reads the rest. A sweep that does not exist is an error of kind
// NotFound. reg may be nil; then nothing is read of the winner's version.
func OpenSweep(ctx context.Context, sweeps blob.Store, reg *registry.Registry, id sweep.ID) (*SweepReader, error) {
	f, err := sweepview.Open(ctx, sweeps, id)
	if err != nil {
		return nil, err
	}
	return &SweepReader{registry: reg, follow: f, trials: sweepstore.NewTrials(sweeps, f.Plan),
		ledger: ledger.Reader{Store: sweeps, Plan: f.Plan}, curves: map[int]curve{}}, nil
}

// Look reads what is new, and returns the sweep's page as it stands. ended says that nothing more will come.
func (s *SweepReader) Look(ctx context.Context) (view *page.Sweep, ended bool, err error) {
	state, err := s.follow.Look(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := s.readCurves(ctx, state.Listing); err != nil {
		return nil, false, err
	}

	// The page's time is that of the newest object or, at the end, of the conclusion. Then the ledger is read as of a
	// time at which all tasks have stopped, so that its sum is the one that `launcher bill` shows from then on.
	now := state.Listing.Latest
	settled := now
	if state.Conclusion != nil {
		now = state.Conclusion.At
		s.ledger.Ended, settled = now, now.Add(2*time.Duration(s.follow.Plan.Takeover))
	}
	results := s.follow.Results()
	l, err := s.ledger.Read(ctx, results, settled)
	if err != nil {
		return nil, false, err
	}
	if err := s.readWinner(ctx, state.Conclusion); err != nil {
		return nil, false, err
	}

	// A running sweep also says what its machines are like, and how long it takes.
	view = s.assembleView(state, &l, bill.Make(s.follow.Plan, &l, results))
	view.AsOf = now
	if state.Conclusion == nil {
		j := s.Job.ask(ctx, s.follow.Plan)
		if j.Machines != nil && j.Machines.Next != "" {
			view.Notes = append(view.Notes, "Machines: "+j.Machines.String()+".")
		}
		if isStopped(s.follow.Plan, state, s.follow.Snapshot(state, j)) {
			view.State = page.Interrupted
		} else {
			view.Left, _ = s.follow.Left(state)
		}
	}
	return view, state.Conclusion != nil, nil
}

// Board returns a page with a sweep's trials as they stand, without their curves and costs. It reads nothing.
func Board(p *sweep.Plan, state sweepview.State) *page.Sweep {
	s := &SweepReader{follow: &sweepview.View{Plan: p}}
	return s.assembleView(state, &ledger.Ledger{}, &bill.Bill{})
}

// readCurves reads the learning curves of trials that have more of them than when they were last read. A trial has one
// for each of its claims (attempts) that reported.
func (s *SweepReader) readCurves(ctx context.Context, l sweepstore.Listing) error {
	for _, t := range l.Trials {
		claims := 0
		for _, c := range t.Claims {
			if c.Curve {
				claims++
			}
		}

		if claims == s.curves[t.Number].claims {
			continue
		}
		curves, err := s.trials.Curves(ctx, t)
		if err != nil {
			return err
		}
		s.curves[t.Number] = curve{claims, sweep.JoinCurves(curves)}
	}
	return nil
}

// assembleView makes the page of what has been read of the sweep: its state, its ledger l and its bill b. It reads
// nothing more.
func (s *SweepReader) assembleView(state sweepview.State, l *ledger.Ledger, b *bill.Bill) *page.Sweep {
	p := s.follow.Plan
	v := &page.Sweep{ID: string(p.Sweep), Model: p.Spec.Model, Dataset: p.Dataset.Name + "@" + p.Dataset.Version,
		Objective: p.Spec.Objective, Metric: p.Spec.Metric,
		Version: p.Coppice, Maximize: p.Maximize, State: nameState(state), Planned: p.Created,
		Rows:  p.Dataset.TableRows(sweep.Train),
		Goals: p.Spec.Goals, Winner: s.winner, Notes: slices.Clone(s.notes)}

	// Notes and links.
	if l.Unreadable > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s cannot be read; the work done under unreadable claims is not shown.",
			english.Plural(l.Unreadable, "claim", "")))
	}
	if p.Breeds() {
		v.Notes = append(v.Notes,
			fmt.Sprintf("This sweep trains a population of %d: from trial %d on, each trial continues the model of "+
				"one before. Parameters are those of its own trees, scores and trees those of the whole model; "+
				"importance and the plots over parameters mix both.", p.Spec.Search.Population,
				p.Spec.Search.Population))
	}
	if s.Online && s.Links != nil {
		for _, l := range s.Links(p.Job, string(p.Sweep), p.Created) {
			v.Links = append(v.Links, page.Link(l))
		}
	}

	// Trials, with results and costs.
	params := page.Differ(p)
	v.Params = params.Shown
	results, front := map[int]*sweep.Result{}, map[int]bool{}
	for _, row := range state.Board.Rows {
		results[row.Trial.Number], front[row.Trial.Number] = row.Result, row.Front
	}
	costs := map[int]bill.TrialCost{}
	for _, t := range b.Trials {
		costs[t.Trial] = t
	}
	for _, t := range p.Trials {
		one := s.trialRow(t, results[t.Number], state.Listing.Trials[t.Number], costs[t.Number], params, state)
		one.Goals, one.Front = p.Spec.Values(results[t.Number]), front[t.Number]
		v.Trials = append(v.Trials, one)
	}
	v.Configurations = configurations(v.Trials, state.Board, params)
	s.tellRunning(v, l)

	v.Money = &page.Money{Free: true, HoursTaken: b.Hours}
	if s.Online {
		v.Money = pageMoney(b, p)
	}
	return v
}

// nameState returns a sweep's state in words: its outcome, if it has one.
func nameState(s sweepview.State) string {
	switch {
	case s.Conclusion != nil:
		return string(s.Conclusion.Outcome)
	case s.Cancelled:
		return "being cancelled"
	case s.Ending:
		return "being concluded"
	}
	return "running"
}

// trialRow returns one trial as the page shows it. r is its result, nil while it has none; listed are its objects, cost
// what it has cost, params those that differ between trials. A score, seconds or a cost that is not known is NaN. The
// score of a final training is left unknown, and so is a cost where nothing is paid or the bill lacks a price.
func (s *SweepReader) trialRow(t sweep.Trial, r *sweep.Result, listed sweepstore.Listed, cost bill.TrialCost,
	params *page.Differing, state sweepview.State) page.TrialRow {
	out := page.TrialRow{Number: t.Number, Score: math.NaN(), Seconds: math.NaN(), Cost: math.NaN(),
		Values: params.Values(t.Params), Attempts: len(listed.Claims), Final: t.Refit}
	if cost.Attempts > 0 && !cost.Unpriced && s.Online {
		out.Cost = cost.Cost
	}

	// Why it was tried, and its curve.
	out.From = t.Source
	if t.Reason != "" {
		out.Tried = fmt.Sprintf("%s: %s", t.Source, t.Reason)
	}
	for _, c := range s.curves[t.Number].points {
		out.CurveX, out.CurveY = append(out.CurveX, float64(c.Tree)), append(out.CurveY, c.Score)
	}

	// How it ended, or what it waits for.
	if r == nil {
		out.State, out.Reason = s.waiting(listed, state)
		return out
	}
	out.Trees, out.Grown, out.Best, out.Ended = r.Trees, r.TreesGrown, r.BestIteration, r.Ended
	out.Seconds = r.Usage.TrainSeconds
	out.State, out.Reason = ending(r, t.Params)
	switch {
	case r.Refits != nil: // without its score, which is that of the trial that it trains again
		out.Reason = joined("; ", fmt.Sprintf("final training of trial %d's configuration on all rows", *r.Refits),
			r.Usage.Together(), out.Reason)
	case r.Status == sweep.StatusDone:
		out.Score = r.Score
		if r.ScoreSE != nil {
			out.SE = *r.ScoreSE
		}
		out.Reason = joined("; ", r.Usage.Together(), out.Reason)
	}

	// Whether it won, or why it may not.
	if c := state.Conclusion; c != nil {
		out.Highlight = c.Outcome == sweep.OutcomeWinner && c.Trial == t.Number
		for _, no := range c.Rejected {
			if no.Trial == t.Number {
				out.Reason += "; may not win: " + no.Reason
			}
		}
	}
	return out
}

// joined joins the texts that are not empty, with by between them.
func joined(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), by)
}

// waiting returns the state of a trial that has no result, and why it is in it. A trial that search.stop has paused,
// once the sweep's rule has compared it with others, may be resumed later, by any task.
func (s *SweepReader) waiting(listed sweepstore.Listed, state sweepview.State) (name, why string) {
	step, at := listed.PausedAt(), "" // the rung at which it was last paused; 0 for none
	// Without search.stop no task pauses a trial, but there may be a stray object.
	if stop := s.follow.Plan.Spec.Search.Stop; stop != nil {
		at = " " + stop.Reached(step)
	}
	switch {
	case state.Conclusion != nil && len(listed.Claims) > 0:
		return page.StateCancelled, "had not ended when the sweep was concluded"
	case state.Conclusion != nil:
		return page.StateCancelled, "had not started when the sweep was concluded"
	case listed.Paused:
		return page.StatePaused, fmt.Sprintf("paused%s, behind others; it may resume", at)
	case !listed.Free():
		return page.StateRunning, "running"
	case step > 0:
		return page.StateWaiting, fmt.Sprintf("was paused%s; waiting for a task", at)
	case len(listed.Claims) > 0:
		return page.StateWaiting, "released; waiting for a task"
	}
	return page.StateWaiting, "not started"
}

// ending returns the state of a trial that has ended, in the word that the terminal has for it, and why it ended: the
// reason in its result or, of one that is done, whether early stopping ended it. params are the trial's.
func ending(r *sweep.Result, params sweep.Params) (state, reason string) {
	if r.Untrained() { // it never began, as those that had not started when the sweep was concluded
		return page.StateCancelled, r.Reason
	}
	state = r.State()
	if r.Status != sweep.StatusDone || r.AtLimit {
		return state, r.Reason
	}
	if most, _ := params["num_iterations"].(float64); most > float64(r.TreesGrown) {
		return state, fmt.Sprintf("no better after tree %d; ended at %d of %.0f", r.BestIteration, r.TreesGrown, most)
	}
	return state, fmt.Sprintf("all %d trees grown; best at %d", r.TreesGrown, r.BestIteration)
}

// tellRunning sets in v the reason of each running trial: which task trains it where, and how many trees it has. Of a
// trial's attempts, which the ledger has in order, the last one counts. It also counts the machines that the sweep has
// had.
func (s *SweepReader) tellRunning(v *page.Sweep, l *ledger.Ledger) {
	hosts := map[string]bool{}
	for _, a := range l.Attempts {
		hosts[a.Host] = true
		if t := &v.Trials[a.Trial]; t.State == page.StateRunning {
			t.Reason = fmt.Sprintf("task %d on %s, %d trees", a.Task, a.Host, a.Trees)
			t.Grown = a.Trees
			if a.End == ledger.Silent {
				t.Reason += "; silent"
			}
		}
	}
	v.Machines = len(hosts)
}

// aboutObjects reports whether an error is about objects that are missing or damaged, which trying again does not
// change.
func aboutObjects(err error) bool {
	return problem.Is(err, problem.NotFound) || problem.Is(err, problem.Damaged)
}

// configurations returns the configurations of a cross-validated sweep, the best first; nil without folds. It also
// changes the trials: charts show each configuration once, so its first trial gets the mean over the folds as its
// score, and all others get none, since scores of different folds are not comparable. Each trial's reason then names
// its fold.
func configurations(trials []page.TrialRow, b sweep.Board, params *page.Differing) []page.ConfigurationRow {
	if b.Configurations == nil {
		return nil
	}
	for i := range trials {
		trials[i].Score = math.NaN()
	}

	var out []page.ConfigurationRow
	for i, c := range b.Configurations {
		q := page.ConfigurationRow{Rated: c, Values: params.Values(c.Params)}
		if c.State == sweep.ConfigurationDone {
			q.Rank = i + 1
			trials[c.Trials[0]].Score = *c.Mean
		}

		for f, n := range c.Trials {
			text := fmt.Sprintf("configuration %d, fold %d", c.Configuration, f+1)
			if s := c.Scores[f]; s != nil {
				text += fmt.Sprintf(": %s", sweep.Score(*s, 0))
			}
			trials[n].Reason = text + "; " + trials[n].Reason
		}
		out = append(out, q)
	}
	return out
}

// pageMoney returns the bill as a page shows it: the amounts, and rows of label and text without empty ones. Hourly is
// what all machines of the last job cost an hour; a bill has at least one, the plan's own as long as none has run.
// Known is false as long as nothing was trained, or if no price is known.
func pageMoney(b *bill.Bill, p *sweep.Plan) *page.Money {
	_, none := b.Unpriced()
	m := &page.Money{Known: !none && len(b.Attempts) > 0, Total: b.Cost, Budget: b.Budget, HoursTaken: b.Hours,
		Hourly: b.Hourly * float64(max(p.Placed(b.Jobs[len(b.Jobs)-1].Number).Sizing.VMs, 1))}
	rows := append(b.Rows(), [2]string{"machine time", plot.Seconds.Format(3600 * b.MachineHours)})
	if q := b.Quote; q != nil {
		rows = append(rows, [2]string{"quoted", quote.Money(&q.Cost)})
	}
	if b.Budget > 0 {
		rows = append(rows, [2]string{"budget", plot.USD.Format(b.Budget)})
	}
	m.Rows = slices.DeleteFunc(rows, func(r [2]string) bool { return r[1] == "" })
	return m
}
