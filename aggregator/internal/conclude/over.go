package conclude

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/engine"
	"coppice/internal/ledger"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
)

// explainEnding returns an ending that says why the sweep ends, in words only if it ends before all trials have. spent
// says why the budget is used up, and state is that of the newest job; each is read if it is the reason.
func explainEnding(why protocol.Why, b sweep.Board, p *sweep.Plan, spent string,
	state engine.Phase) *sweep.Ending {
	switch why {
	case protocol.Cancelled:
		return &sweep.Ending{Cancelled: true}
	case protocol.AtLimit:
		return newEarlyEnding(fmt.Sprintf("after %s, the sweep's time limit", time.Duration(p.Spec.Limits.Sweep)), p, b)
	case protocol.Spent:
		return newEarlyEnding(spent, p, b)
	case protocol.JobOver:
		return newEarlyEnding("when the job "+state.Past(), p, b)
	}
	return &sweep.Ending{}
}

// explainSpent says why the sweep's budget counts as used up, which includes a reserve for the time until tasks have
// seen the ending and stopped. It is empty if the budget is not used up, if there is none, or if the plan has no prices
// (Quote) to count by.
func (a *Aggregator) explainSpent(ctx context.Context, k *known, jobs *jobHistory) (string, error) {
	p := k.plan
	budget := p.Spec.Budget
	if budget == 0 || p.Quote == nil {
		return "", nil
	}

	now := a.Now()
	l, err := a.ledgerOf(k).Read(ctx, k.results, now)
	if err != nil {
		return "", err
	}

	// The ledger counts machines by the trials that they claimed. The engine also knows of machines that claimed
	// none, but need not be asked if the claims alone exceed the budget.
	if !l.Exceeds(p, budget) && a.Jobs != nil {
		usage, err := jobs.minimumUsage(ctx)
		if err != nil {
			return "", err
		}
		l = l.AtLeast(p, usage, now)
	}

	if !l.Exceeds(p, budget) {
		return "", nil
	}
	return fmt.Sprintf("when $%.2f of the budget of $%.4g were spent and $%.2f reserved for stopping", l.Cost,
		budget, p.Quote.ReserveCost()), nil
}

// ledgerOf returns the reader of what a sweep has cost. It is kept in k, so that each Read reads only what has changed
// since the last.
func (a *Aggregator) ledgerOf(k *known) *ledger.Reader {
	if k.costs == nil {
		k.costs = &ledger.Reader{Store: a.Sweeps, Plan: k.plan}
	}
	return k.costs
}

// costPatience bounds how long a conclusion waits for the sweep's cost to be computed.
const costPatience = time.Minute

// costOfSweep returns the cost of a sweep that ends with conclusion c. It is nil if the plan or the claims cannot be
// read within costPatience; the conclusion is then written without a cost.
func (a *Aggregator) costOfSweep(ctx context.Context, k *known, c *sweep.Conclusion) *sweep.Cost {
	if k.plan == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, costPatience)
	defer cancel()

	r := a.ledgerOf(k)
	r.Ended = c.At
	l, err := r.Read(ctx, k.results, c.At)
	if err != nil {
		a.Log.Warn("what the sweep has cost is not in its conclusion", "sweep", c.Sweep, "error", err.Error())
		return nil
	}
	out := &sweep.Cost{USD: l.Cost, MachineHours: l.MachineSeconds / 3600}
	for _, n := range l.Jobs {
		if hourly, _ := k.plan.Price(n); hourly == 0 {
			out.Unpriced = append(out.Unpriced, n)
		}
	}
	return out
}

// newEarlyEnding returns an ending before all trials have ended. when ends the sentence: after or when something
// happened. If only the final training has not ended, it says so.
func newEarlyEnding(when string, p *sweep.Plan, b sweep.Board) *sweep.Ending {
	n := b.Tally(p).Waiting
	if n == 0 {
		return &sweep.Ending{Early: "the final training had not ended " + when}
	}
	return &sweep.Ending{Early: fmt.Sprintf("%d of %d trials had not ended %s", n, len(p.Own()), when)}
}

// countUntrained says how many trials were left out for the final training; empty if none was.
func countUntrained(p *sweep.Plan, b sweep.Board) string {
	n := b.Tally(p).Untrained
	if _, final := p.Final(); !final || n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d trials not trained: %s", n, len(p.Own()), p.KeptBack())
}

// countForQuorum returns how many trials are done, and the text for when these are fewer than the quorum. In a
// cross-validated sweep it counts configurations instead, which are done if all their folds are.
func countForQuorum(p *sweep.Plan, b sweep.Board, e *sweep.Ending) (done int, short string) {
	if p.Folds == nil {
		done = b.Tally(p).Done
		return done, fmt.Sprintf("%s done, and the quorum is %d", english.Plural(done, "trial is", "trials are"),
			quorum(p, b, e))
	}
	for _, c := range b.Configurations {
		if c.State == sweep.ConfigurationDone {
			done++
		}
	}
	has := "have all their"
	if done == 1 {
		has = "has all its"
	}
	return done, fmt.Sprintf("%d of %d configurations %s folds, and the quorum is %d", done, len(b.Configurations), has,
		quorum(p, b, e))
}

// quorum returns how many trials (or configurations, as in countForQuorum) must be done for a sweep to have a winner:
// limits.quorum of them all, less those that were stopped because others were better. Paused trials that the ending
// finds to be behind count as stopped, as do configurations that were dropped. Trials that were left out for the final
// training do not count at all. It is at least 1.
func quorum(p *sweep.Plan, b sweep.Board, e *sweep.Ending) int {
	own := b.Tally(p)
	wanted, stopped := p.Configurations()-own.Untrained, own.Stopped+len(e.Behind)
	if b.Configurations != nil {
		wanted, stopped = p.Configurations(), 0
		for _, c := range b.Configurations {
			if c.State == sweep.ConfigurationDropped {
				stopped++
			}
		}
	}
	// A product such as .55 * 20 is rounded to a little more than 11, which must not make it 12.
	return max(1, int(math.Ceil(p.Spec.Limits.Quorum*float64(wanted)-1e-9))-stopped)
}
