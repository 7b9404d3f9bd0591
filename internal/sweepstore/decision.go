package sweepstore

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Decision reads the decision about an open trial; nil if there is none yet. An error of kind Damaged means that what
// the trial was to train cannot be recovered.
func (t *Trials) Decision(ctx context.Context, trial int) (*sweep.Decision, error) {
	return decisionKind.readOptional(ctx, t.bucket, t.names.Decision(trial), func(d *sweep.Decision) error {
		return checkOwn(d.Sweep == t.plan.Sweep && d.Trial == trial, "trial %d of sweep %s", d.Trial, d.Sweep)
	})
}

// CreateDecision records what an open trial trains. created is false if that was decided before.
func (t *Trials) CreateDecision(ctx context.Context, d sweep.Decision) (created bool, err error) {
	return create(ctx, t.bucket, t.names.Decision(d.Trial), &d)
}

// maxReservations bounds how many trials may reserve one configuration, each after the ones before were decided
// otherwise. Beyond it the configuration counts as taken.
const maxReservations = 100

// TakeConfiguration reserves a configuration for a trial. key is the Key of a decision with that configuration. taken
// is false if another trial has reserved it. A trial keeps its reservation, whichever task holds the trial.
//
// A trial that has a reservation may have been decided otherwise, by a task that was faster. It will never train the
// configuration then, and the next reservation, an object of its own, counts. A damaged reservation is treated as
// another trial's.
func (t *Trials) TakeConfiguration(ctx context.Context, trial int, key string) (taken bool, err error) {
	for after := range maxReservations {
		object := t.names.Configuration(key, after)
		c := sweep.Configuration{Format: sweep.FormatVersion, Sweep: t.plan.Sweep, Trial: trial, Key: key}
		if taken, err = create(ctx, t.bucket, object, &c); err != nil || taken {
			return taken, err
		}

		there, _, err := configurationKind.read(ctx, t.bucket, object, nil)
		switch {
		case problem.Is(err, problem.Damaged):
			return false, nil
		case err != nil:
			return false, err
		case there.Sweep != t.plan.Sweep || there.Key != key:
			return false, nil
		case there.Trial == trial:
			return true, nil
		}

		otherwise, err := t.decidedOtherwise(ctx, there.Trial, key)
		if err != nil || !otherwise {
			return false, err
		}
	}
	return false, nil
}

// decidedOtherwise reports whether a trial that has reserved a configuration is known to train another one. A decision
// is written once, so the answer true stays true. A damaged decision may be about this configuration.
func (t *Trials) decidedOtherwise(ctx context.Context, trial int, key string) (bool, error) {
	d, err := t.Decision(ctx, trial)
	if problem.Is(err, problem.Damaged) {
		return false, nil
	}
	return d != nil && d.Key() != key, err
}

// Decisions reads those decisions in a listing that are not in known, which is by trial, and adds them. It leaves out
// what each is based on, Seen and Refused, which for a thousand open trials would be a hundred megabytes. Damaged
// decisions are left out.
func (t *Trials) Decisions(ctx context.Context, l Listing, known map[int]*sweep.Decision) error {
	var missing []int
	for _, listed := range l.Trials {
		if known[listed.Number] == nil && listed.Decided != blob.Absent {
			missing = append(missing, listed.Number)
		}
	}

	// Read several at a time.
	found := make([]*sweep.Decision, len(missing))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, trial := range missing {
		group.Go(func() error {
			d, err := t.Decision(ctx, trial)
			if problem.Is(err, problem.Damaged) {
				return nil
			}
			if d != nil {
				d.Seen, d.Refused = nil, nil
			}
			found[i] = d
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, d := range found {
		if d != nil {
			known[missing[i]] = d
		}
	}
	return nil
}

// Gather adds to known, by trial, what a search that learns has to know of the plan's trials in a listing. That is the
// results of trials that have ended, the scores of trials that were paused at a rung, which count as stopped there, and
// the parameters of open trials that have been decided. Trial own is left out, since it is to be decided from this.
//
// What is known already is not read again. A decision includes what it has seen of other trials, so the newest is read
// first, and few others are needed. Damaged results count as failed, and damaged decisions are skipped. In a plan with
// folds Gather reads decisions only, and GatherFolds reads the results. In a plan that compares sets of columns it
// reads no decisions, since only the scores count there.
func (t *Trials) Gather(ctx context.Context, l Listing, own int, known map[int]sweep.Seen) error {
	scoresOnly := t.plan.Spec.Search.Features != nil
	decided := slices.DeleteFunc(slices.Clone(l.Trials), func(x Listed) bool {
		return x.Decided == blob.Absent || x.Number == own || scoresOnly
	})
	slices.SortFunc(decided, func(a, b Listed) int { return cmp.Compare(b.Decided, a.Decided) })
	for _, listed := range decided {
		if known[listed.Number].Params != nil { // a newer decision has seen it
			continue
		}
		d, err := t.Decision(ctx, listed.Number)
		if problem.Is(err, problem.Damaged) {
			continue
		}
		if err != nil {
			return err
		}
		if d != nil {
			adoptDecision(known, own, d)
		}
	}

	// A result is read unless it is known: a trial that was paused is known as stopped, and may have ended since. So
	// may a paused trial have come to another rung.
	if t.plan.Folds != nil {
		return nil
	}
	for _, listed := range l.Trials {
		was, have := known[listed.Number]
		stopped := have && was.Status == sweep.StatusStopped && was.Score != nil
		switch {
		case listed.Number == own:
		case listed.Ended:
			if have && was.Status != sweep.StatusRunning && !(stopped && len(listed.Pauses) > 0) {
				continue
			}
			r, err := t.resultOf(ctx, listed.Number)
			if err != nil {
				return err
			}
			known[listed.Number] = t.seenResult(was, r)
		case len(listed.Pauses) > 1 || len(listed.Pauses) == 1 && !stopped:
			passed, err := t.AtPause(ctx, listed)
			if err != nil {
				return err
			}
			if n := len(passed); n > 0 {
				was.Trial, was.Status, was.Score, was.Rungs = listed.Number, sweep.StatusStopped, &passed[n-1].Score,
					passed
				known[listed.Number] = was
			}
		}
	}
	return nil
}

// GatherFolds adds to known what a search has to know of the configurations of a plan with folds: the mean of the first
// folds, by the trial of the first one, of each configuration whose first folds have all ended. The configuration of
// trial own is left out. It reads the results that are not in results, and adds them there. A mean that a decision
// already told, through Gather, is not computed again.
func (t *Trials) GatherFolds(ctx context.Context, l Listing, own int, known map[int]sweep.Seen,
	results map[int]sweep.Result) error {
	// Find the configurations that are new, and the results that they need.
	var ended []int
	need := Listing{}
	for c := range t.plan.Configurations() {
		folds := t.plan.FirstFolds(c)
		was, have := known[folds[0].Number]
		open := func(f sweep.Trial) bool { return !l.Trials[f.Number].Ended }
		if folds[0].Number == own || have && was.Status != sweep.StatusRunning || slices.ContainsFunc(folds, open) {
			continue
		}
		ended = append(ended, c)
		for _, f := range folds {
			need.Trials = append(need.Trials, l.Trials[f.Number])
		}
	}
	if err := t.Results(ctx, need, results, nil); err != nil {
		return err
	}

	// The parameters are known from decisions.
	for _, c := range ended {
		if s, ok := t.plan.SeenConfiguration(c, results); ok {
			s.Params = known[s.Trial].Params
			known[s.Trial] = s
		}
	}
	return nil
}

// resultOf returns a trial's result. It reads it once and keeps it, since results do not change.
func (t *Trials) resultOf(ctx context.Context, trial int) (*sweep.Result, error) {
	if r, read := t.ended.Load(trial); read {
		return r.(*sweep.Result), nil
	}
	r, _, err := t.Result(ctx, trial)
	if err == nil {
		t.ended.Store(trial, r)
	}
	return r, err
}

// adoptDecision adds to known the trials that a decision has seen, and the decision's own trial as running. Trials that
// are known to have ended stay as they are. Of others, the decision's parameters count or, where it has none, those
// that are known. Trial own is left out: it is to be decided.
func adoptDecision(known map[int]sweep.Seen, own int, d *sweep.Decision) {
	for _, s := range append(slices.Clone(d.Seen), sweep.Seen{Trial: d.Trial, Status: sweep.StatusRunning,
		Params: d.Own}) {
		if was, have := known[s.Trial]; s.Trial != own && (!have || was.Status == sweep.StatusRunning) {
			if s.Params == nil {
				s.Params = was.Params
			}
			known[s.Trial] = s
		}
	}
}

// seenResult returns what is known of a trial by its result; the parameters stay as they were known before. A trial has
// a score if it is done, or if it was stopped after it had grown trees.
func (t *Trials) seenResult(was sweep.Seen, r *sweep.Result) sweep.Seen {
	was.Trial, was.Status, was.Score, was.Values = r.Trial, r.Status, nil, t.plan.Spec.Values(r)
	was.Rungs = r.Rungs
	if r.Status == sweep.StatusDone || r.Status == sweep.StatusStopped && r.TreesGrown > 0 {
		was.Score = &r.Score
	}
	return was
}

// SeenResult adds to known a result that the caller has just written, so that it need not be read.
func (t *Trials) SeenResult(known map[int]sweep.Seen, r *sweep.Result) {
	known[r.Trial] = t.seenResult(known[r.Trial], r)
}
