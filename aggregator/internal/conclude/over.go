package conclude

import (
	"context"
	"fmt"
	"math"
	"time"

	"coppice/ledger"
	"coppice/sweep"
)

// isOver says whether the sweep is to be concluded now, and why; nil means not yet.
func (a *Aggregator) isOver(ctx context.Context, k *known) (*sweep.Ending, error) {
	p, b := k.plan, k.board(nil)
	cancelled, err := a.sweep(p.Sweep).Cancelled(ctx)
	if err != nil {
		return nil, err
	}
	if cancelled {
		return &sweep.Ending{Cancelled: true}, nil
	}
	if b.Waiting == 0 {
		return &sweep.Ending{}, nil
	}
	age := a.Now().Sub(p.Created)
	if limit := time.Duration(p.Spec.Limits.Sweep); age >= limit {
		return early(fmt.Sprintf("after %s, the sweep's time limit", limit), b), nil
	}
	jobs := &turns{a: a, plan: p}
	if spent, err := a.spent(ctx, k, jobs); spent != "" || err != nil {
		return early(spent, b), err
	}
	if a.Jobs == nil {
		return nil, nil
	}
	ended, state, err := jobs.ended(ctx)
	if err != nil || !ended {
		return nil, err
	}
	// What was written between the last look and the job's end counts, too.
	if err := a.readResults(ctx, k); err != nil {
		return nil, err
	}
	if b = k.board(nil); b.Waiting == 0 {
		return &sweep.Ending{}, nil
	}
	return early("when the Batch job was "+state, b), nil
}

// spent says that the sweep's budget is used up, or empty. The tasks see the ending that follows from it and stop by themselves, as
// they do at the time limit.
func (a *Aggregator) spent(ctx context.Context, k *known, jobs *turns) (string, error) {
	p := k.plan
	budget := p.Spec.Budget
	if budget == 0 || p.Quote == nil {
		return "", nil
	}
	if k.costs == nil {
		k.costs = &ledger.Reader{Store: a.Sweeps, Plan: p}
	}
	now := a.Now()
	l, err := k.costs.Read(ctx, k.results, now)
	if err != nil {
		return "", err
	}
	// What the claims say is enough while Batch cannot be asked.
	if !l.Exceeds(p, budget) && a.Jobs != nil {
		floors, err := jobs.floors(ctx)
		if err != nil {
			return "", err
		}
		l = l.AtLeast(p, floors, now)
	}
	if !l.Exceeds(p, budget) {
		return "", nil
	}
	return fmt.Sprintf("when %.4g USD of the budget of %.4g USD were spent and %.4g kept back to stop", l.Cost, budget, p.Quote.ReserveCost()), nil
}

// early is an ending before all trials have ended, nil without a reason.
func early(when string, b sweep.Board) *sweep.Ending {
	if when == "" {
		return nil
	}
	return &sweep.Ending{Early: fmt.Sprintf("%d of %d trials had not ended %s", b.Waiting, len(b.Rows), when)}
}

// quorum is how many trials must be done for a sweep to have a winner, whether it ended early or most of its trials failed.
func quorum(p *sweep.Plan) int {
	return int(math.Ceil(p.Spec.Limits.Quorum * float64(len(p.Trials))))
}
