package sweepstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

var (
	rungKind      = kind{"rung", 16 << 20}
	promotionKind = kind{"promotion", 16 << 20}
)

// RungKey identifies a trial at a rung.
type RungKey struct{ Step, Trial int }

// Rung reads the decision about a trial at a rung; nil if there is none yet.
func (t *Trials) Rung(ctx context.Context, trial, step int) (*sweep.Rung, error) {
	return optional(ctx, t.bucket, rungKind, t.names.Rung(trial, step), func(data []byte) (*sweep.Rung, error) {
		r, err := sweep.DecodeRung(data)
		if err == nil && (r.Sweep != t.plan.Sweep || r.Trial != trial || r.Step != step) {
			err = fmt.Errorf("it is of trial %d of sweep %s at %d trees", r.Trial, r.Sweep, r.Step)
		}
		return r, err
	})
}

// CreateRung records the decision about a trial at a rung. created is false if that was decided before.
func (t *Trials) CreateRung(ctx context.Context, r sweep.Rung) (created bool, err error) {
	r.Written = written()
	return create(ctx, t.bucket, t.names.Rung(r.Trial, r.Step), r)
}

// CreatePause marks a trial as paused at a rung; that it was marked before is the same.
func (t *Trials) CreatePause(ctx context.Context, trial, claim, step int) error {
	_, err := create(ctx, t.bucket, t.names.Pause(trial, step), sweep.Pause{Format: sweep.FormatVersion, Claim: claim,
		Written: written()})
	return err
}

// Promotion reads what becomes of a trial paused at a rung; nil while that is not decided.
func (t *Trials) Promotion(ctx context.Context, trial, step int) (*sweep.Promotion, error) {
	return optional(ctx, t.bucket, promotionKind, t.names.Promotion(trial, step),
		func(data []byte) (*sweep.Promotion, error) {
			r, err := sweep.DecodePromotion(data)
			if err == nil && (r.Sweep != t.plan.Sweep || r.Trial != trial || r.Step != step) {
				err = fmt.Errorf("it is of trial %d of sweep %s at %d trees", r.Trial, r.Sweep, r.Step)
			}
			return r, err
		})
}

// CreatePromotion records what becomes of a paused trial. created is false if that was decided before.
func (t *Trials) CreatePromotion(ctx context.Context, r sweep.Promotion) (created bool, err error) {
	r.Written = written()
	return create(ctx, t.bucket, t.names.Promotion(r.Trial, r.Step), r)
}

// AtPause returns the scores of a listed trial up to the rung where it was paused last; none if it never was. Damaged
// ones are left out.
func (t *Trials) AtPause(ctx context.Context, listed Listed) (passed []sweep.RungScore, err error) {
	step := listed.PausedAt()
	for _, at := range slices.Sorted(maps.Keys(listed.Rungs)) {
		if at > step {
			break
		}
		key := RungKey{at, listed.Number}
		if score, read := t.paused.Load(key); read {
			passed = append(passed, sweep.RungScore{Step: at, Score: score.(float64)})
			continue
		}
		all, err := t.RungsTo(ctx, Listed{Number: listed.Number, Rungs: map[int]blob.Generation{at: listed.Rungs[at]}},
			at)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			t.paused.Store(key, r.Score)
			passed = append(passed, sweep.RungScore{Step: at, Score: r.Score})
		}
	}
	return passed, nil
}

// RungsTo reads the rungs of a listed trial up to one of them, ascending, without damaged ones.
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

// GatherRungs adds to known the scores that a listing shows at rungs from one step to another, except that of trial own
// at the last one, which is to be decided. A rung's record includes what it has seen, so the newest is read first and
// few others are needed. Damaged ones are skipped. The scores of trials of the sweep that the plan extends are in the
// plan.
func (t *Trials) GatherRungs(ctx context.Context, l Listing, own, from, to int, known map[RungKey]float64) error {
	if e := t.plan.Extends; e != nil {
		for _, r := range e.Reached {
			known[RungKey{r.Step, r.Trial}] = r.Score
		}
	}

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
		if r == nil {
			continue
		}
		known[one.key] = r.Score
		for _, s := range r.Seen {
			known[RungKey{s.Step, s.Trial}] = s.Score
		}
	}
	return nil
}

// ReachedOf returns the scores at rungs from one step to another, in order, except that of trial own at the last one.
func ReachedOf(known map[RungKey]float64, own, from, to int) []sweep.Reached {
	keys := slices.SortedFunc(maps.Keys(known),
		func(a, b RungKey) int { return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Trial, b.Trial)) })
	var out []sweep.Reached
	for _, k := range keys {
		if k.Step >= from && k.Step <= to && k != (RungKey{to, own}) {
			out = append(out, sweep.Reached{Step: k.Step, Trial: k.Trial, Score: known[k]})
		}
	}
	return out
}
