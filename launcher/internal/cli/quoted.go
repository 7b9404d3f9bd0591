package cli

import (
	"context"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/machines"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/quote"
)

// quote writes the expected cost into the plan, and rejects a plan that is expected to exceed its budget. A sweep that
// exists already is not rejected, whatever it would cost today: it keeps the budget that it was started with.
func (c *cloud) quote(ctx context.Context, p *plan.Plan, m *dataset.Manifest, prices *machines.Prices,
	a quote.Assumptions) error {
	q := quote.Estimator{Plan: p, Manifest: m, Prices: prices, Region: c.env.Location, Assumptions: a}
	if err := q.Price(); err != nil {
		return err
	}

	over := quote.Hold(p.Quote, p.Spec.Machine.Type, p.Spec.Budget)
	if over == nil {
		return nil
	}

	exists, err := sweepstore.New(c.sweeps, p.Sweep).HasPlan(ctx)
	if err == nil && !exists {
		return over
	}
	return err
}

// quotedCost formats a quote's cost with its price model.
func quotedCost(q *sweep.Quote) string {
	model := "on demand"
	if q.Spot {
		model = "on Spot"
	}
	if q.Hourly == 0 {
		return "no price known " + model
	}
	return fmt.Sprintf("%s USD %s", money(&q.Cost), model)
}

func budgetText(usd float64) string {
	if usd == 0 {
		return "no budget"
	}
	return fmt.Sprintf("a budget of %s USD", quote.USD(usd))
}
