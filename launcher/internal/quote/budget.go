package quote

import (
	"math"

	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Hold rejects a budget below the sweep's expected cost plus the reserve for stopping it in time,
// on its machines or on any of its fallbacks.
func Hold(q *sweep.Quote, machine string, budget float64) error {
	switch {
	case budget == 0:
		return nil
	case q.Hourly == 0:
		return problem.New(problem.Input, "a budget cannot be kept: no %s price of %s in %s is known; give one with "+
			"COPPICE_PRICES=FILE, or leave the budget out", model(q.Spot), machine, q.Region)
	}

	for i, f := range q.Fallback {
		if f.Hourly == 0 {
			return problem.New(problem.Input, "a budget cannot be kept: no %s price of machine.fallback[%d] in %s is "+
				"known; give one with COPPICE_PRICES=FILE, or leave the budget out", model(f.Spot), i, q.Region)
		}
	}

	if need := q.Cost.Expected + q.ReserveCost(); need > budget {
		return problem.New(problem.Input, "the budget of %s is too small: %d x %s are expected to cost %s, "+
			"and %s is reserved for stopping in time; give --budget %s, or see `launcher plan` for other machines",
			USD(budget), q.VMs, machine, Money(&q.Cost), USD(q.ReserveCost()),
			argument(roundUp(need)))
	}

	for i, f := range q.Fallback {
		if need := f.Cost.Expected + q.ReserveCost(); need > budget {
			return problem.New(problem.Input, "the budget of %s is too small for machine.fallback[%d]: %d x %s %s "+
				"are expected to cost %s, and %s is reserved for stopping in time; remove that fallback, "+
				"or give --budget %s",
				USD(budget), i, f.VMs, f.Machine, Priced(f.Spot), Money(&f.Cost),
				USD(q.ReserveCost()), argument(roundUp(need)))
		}
	}
	return nil
}

func model(spot bool) string {
	if spot {
		return "Spot"
	}
	return "on-demand"
}

// Priced says which machines a price is of.
func Priced(spot bool) string {
	if spot {
		return "on Spot"
	}
	return "on demand"
}

// roundUp rounds up to an amount of three digits, or to cents.
func roundUp(v float64) float64 {
	unit := math.Pow(10, min(math.Floor(math.Log10(v)), 0)-2)
	return math.Round(math.Ceil(v/unit-1e-6)*unit*1e9) / 1e9
}
