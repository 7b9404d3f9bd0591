package sweepview

import (
	"context"
	"slices"

	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// Reasons says why a trial was tried and how it ended.
type Reasons struct {
	Trial    sweep.Trial     `json:"trial"`
	Decision *sweep.Decision `json:"decision,omitempty"` // for an open trial
	Replayed string          `json:"replayed,omitempty"` // the outcome of reproducing it
	Rungs    []sweep.Rung    `json:"rungs,omitempty"`
	// Promotions say what became of the trial at the rungs where it was paused; Unlike says why one of them would be
	// decided otherwise now, or cannot be read.
	Promotions []sweep.Promotion `json:"promotions,omitempty"`
	Unlike     string            `json:"unlike,omitempty"`
	// why the last trial of a cross-validated sweep trains what it does
	Refit  string        `json:"refit,omitempty"`
	Result *sweep.Result `json:"result,omitempty"`
	// which model predicts, for the winner and the final training
	Live string `json:"live,omitempty"`
}

// replayed is the outcome of repeating a decision.
func replayed(err error) string {
	if err != nil {
		return err.Error()
	}
	return "repeating the decision gives the same result"
}

// Why reads why a trial of a sweep was tried and how it ended, and repeats the decisions about it from what is stored.
func (s *View) Why(ctx context.Context, st State, trial int) (y Reasons, err error) {
	p := s.Plan
	y.Trial = p.Trials[trial]
	if r, ended := s.results[trial]; ended {
		y.Result = &r
	}

	if c := st.Conclusion; c != nil && c.Final != nil && (trial == c.Final.Trial || trial == c.Trial) {
		y.Live = c.Live()
	}
	if y.Trial.Refit {
		y.Refit, err = whyRefit(p, st.Board)
		return y, err
	}
	if y.Trial.Open {
		if y.Decision, err = s.trials.Decision(ctx, p.Decider(trial)); err != nil {
			return y, err
		}
		if d := y.Decision; d != nil {
			y.Replayed = replayed(search.Replay(p, d))
		}
	}
	return y, s.readRungs(ctx, &y)
}

// readRungs reads how the trial compared at each rung, and what became of it there. A damaged record is told of and
// hides no other.
func (s *View) readRungs(ctx context.Context, y *Reasons) error {
	stop := s.Plan.Spec.Search.Stop
	if stop == nil {
		return nil
	}

	told := func(err error) error {
		if problem.Is(err, problem.Damaged) {
			y.Unlike, err = err.Error(), nil
		}
		return err
	}
	for _, step := range stop.Rungs {
		r, err := s.trials.Rung(ctx, y.Trial.Number, step)
		if err = told(err); err != nil {
			return err
		}
		if r != nil {
			y.Rungs = append(y.Rungs, *r)
		}
		after, err := s.trials.Promotion(ctx, y.Trial.Number, step)
		if err = told(err); err != nil {
			return err
		}
		if after != nil {
			y.Promotions = append(y.Promotions, *after)
			if err := search.ReplayPromotion(s.Plan, after); err != nil {
				y.Unlike = err.Error()
			}
		}
	}
	return nil
}

// whyRefit says what the refit trains, or that this is not known yet.
func whyRefit(p *sweep.Plan, b sweep.Board) (string, error) {
	if slices.ContainsFunc(b.Rows, func(r sweep.Row) bool { return r.Result == nil && !r.Trial.Refit }) {
		if p.Folds == nil {
			return "it trains the winner's configuration on the rows of all splits when all other trials have ended",
				nil
		}
		return "it trains the best configuration on all rows of train and valid when all folds have ended", nil
	}

	require, err := search.CompileRequires(p.Spec.Require, metric.Canonical)
	if err != nil {
		return "", err
	}
	if p.Folds == nil {
		return search.WhyFinal(p, b, require), nil
	}
	chosen, none := search.Choose(p, b, require)
	if chosen == nil {
		return none, nil
	}
	return chosen.Reason, nil
}
