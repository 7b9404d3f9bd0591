package sweepstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// RungKey identifies a trial at a rung.
type RungKey struct{ Step, Trial int }

// Rung reads the decision about a trial at a rung; nil if there is none yet.
func (t *Trials) Rung(ctx context.Context, trial, step int) (*sweep.Rung, error) {
	return rungKind.readOptional(ctx, t.bucket, t.names.Rung(trial, step), func(r *sweep.Rung) error {
		return checkOwn(r.Sweep == t.plan.Sweep && r.Trial == trial && r.Step == step,
			"trial %d of sweep %s at %d trees", r.Trial, r.Sweep, r.Step)
	})
}

// CreateRung records the decision about a trial at a rung. created is false if that was decided before.
func (t *Trials) CreateRung(ctx context.Context, r sweep.Rung) (created bool, err error) {
	return create(ctx, t.bucket, t.names.Rung(r.Trial, r.Step), &r)
}

// CreatePause marks a trial as paused at a rung; that it was marked before is the same.
func (t *Trials) CreatePause(ctx context.Context, trial, claim, step int) error {
	_, err := create(ctx, t.bucket, t.names.Pause(trial, step), &sweep.Pause{Format: sweep.FormatVersion, Claim: claim})
	return err
}

// Promotion reads what becomes of a trial paused at a rung; nil while that is not decided.
func (t *Trials) Promotion(ctx context.Context, trial, step int) (*sweep.Promotion, error) {
	return promotionKind.readOptional(ctx, t.bucket, t.names.Promotion(trial, step), func(r *sweep.Promotion) error {
		return checkOwn(r.Sweep == t.plan.Sweep && r.Trial == trial && r.Step == step,
			"trial %d of sweep %s at %d trees", r.Trial, r.Sweep, r.Step)
	})
}

// CreatePromotion records what becomes of a paused trial. created is false if that was decided before.
func (t *Trials) CreatePromotion(ctx context.Context, r sweep.Promotion) (created bool, err error) {
	return create(ctx, t.bucket, t.names.Promotion(r.Trial, r.Step), &r)
}

// AtPause returns the scores of a listed trial at its rungs, ascending, up to the one where it was paused last. There
// are none if it never was paused. It reads each once, and leaves out those whose record is damaged.
func (t *Trials) AtPause(ctx context.Context, listed Listed) (passed []sweep.RungScore, err error) {
	step := listed.PausedAt()
	for _, at := range slices.Sorted(maps.Keys(listed.Rungs)) {
		if at > step {
			break
		}
		key := RungKey{at, listed.Number}
		if score, read := t.paused.Load(key); read {
			passed = append(passed, score.(sweep.RungScore))
			continue
		}
		r, err := t.Rung(ctx, listed.Number, at)
		if err != nil && !problem.Is(err, problem.Damaged) {
			return nil, err
		}
		if r != nil {
			score := sweep.RungScore{Step: at, Score: r.Score}
			t.paused.Store(key, score)
			passed = append(passed, score)
		}
	}
	return passed, nil
}

// RungsTo reads the records of a listed trial's rungs up to step last, ascending. Damaged ones are left out.
func (t *Trials) RungsTo(ctx context.Context, listed Listed, last int) (rungs []*sweep.Rung, err error) {
	for _, step := range slices.Sorted(maps.Keys(listed.Rungs)) {
		if step > last {
			break
		}
		r, err := t.Rung(ctx, listed.Number, step)
		switch {
		case problem.Is(err, problem.Damaged):
		case err != nil:
			return nil, err
		case r != nil:
			rungs = append(rungs, r)
		}
	}
	return rungs, nil
}

// GatherRungs adds to known the scores of the listed trials at the rungs from step from to step to. The score of trial
// own at the last one is left out, since the decision there is what they are gathered for. What is known is not read
// again. A rung's record includes the scores that it has seen, so the newest is read first and few others are needed.
// Damaged records are skipped.
func (t *Trials) GatherRungs(ctx context.Context, l Listing, own, from, to int, known map[RungKey]sweep.Reached) error {
	// The records in question, the newest first.
	type listed struct {
		key RungKey
		at  blob.Generation
	}
	var all []listed
	for _, trial := range l.Trials {
		for step, at := range trial.Rungs {
			if step >= from && step <= to && !(trial.Number == own && step == to) {
				all = append(all, listed{RungKey{step, trial.Number}, at})
			}
		}
	}
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(b.at, a.at) })

	// Read those whose scores no newer record has told.
	for _, one := range all {
		if _, have := known[one.key]; have {
			continue
		}
		r, err := t.Rung(ctx, one.key.Trial, one.key.Step)
		if problem.Is(err, problem.Damaged) {
			continue
		}
		if err != nil {
			return err
		}
		if r == nil { // it was there when it was listed, and has been deleted since, with the sweep
			continue
		}
		known[one.key] = sweep.Reached{Step: r.Step, Trial: r.Trial, Score: r.Score}
		for _, s := range r.Seen {
			known[RungKey{s.Step, s.Trial}] = s
		}
	}
	return nil
}

// ReachedOf returns the scores at rungs from one step to another, in order, except that of trial own at the last one.
func ReachedOf(known map[RungKey]sweep.Reached, own, from, to int) []sweep.Reached {
	var out []sweep.Reached
	for at, r := range known {
		if at.Step >= from && at.Step <= to && at != (RungKey{to, own}) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b sweep.Reached) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Trial, b.Trial))
	})
	return out
}
