package quote

import (
	"fmt"
	"math"
	"strings"

	"coppice/sweep"
)

// BudgetError is a budget that a sweep is expected to exceed, or that cannot be kept.
type BudgetError struct{ Msg string }

func (e *BudgetError) Error() string { return e.Msg }

// IsInput says that what was handed in is at fault, and will be the next time.
func (*BudgetError) IsInput() bool { return true }

// Hold refuses, with a *BudgetError, a budget that the sweep is expected to exceed, on its machines or on any of its fallbacks: what it
// costs, and what has to be kept back so that it can be stopped in time.
func Hold(q *sweep.Quote, machine string, budget float64) error {
	switch {
	case budget == 0:
		return nil
	case q.Hourly == 0:
		return &BudgetError{fmt.Sprintf("a budget cannot be kept: no %s price of %s in %s is known; `launcher prices refresh` reads it, else leave the budget out", model(q.Spot), machine, q.Region)}
	}

	for i, f := range q.Fallback {
		if f.Hourly == 0 {
			return &BudgetError{fmt.Sprintf("a budget cannot be kept: no %s price of machine.fallback[%d] in %s is known; `launcher prices refresh` reads it, else leave the budget out", model(f.Spot), i, q.Region)}
		}
	}

	if need := q.Cost.Expected + q.ReserveCost(); need > budget {
		return &BudgetError{fmt.Sprintf("the budget of %s USD is too small: %d x %s are expected to cost %s (%s to %s), and %s is kept back to stop in time; give --budget %s, or see `launcher plan` for other machines",
			USD(budget), q.VMs, machine, USD(q.Cost.Expected), USD(q.Cost.Low), USD(q.Cost.High), USD(q.ReserveCost()), USD(roundUp(need)))}
	}

	for i, f := range q.Fallback {
		if need := f.Cost.Expected + q.ReserveCost(); need > budget {
			return &BudgetError{fmt.Sprintf("the budget of %s USD is too small for machine.fallback[%d]: %d x %s %s are expected to cost %s (%s to %s), and %s is kept back to stop in time; remove that fallback, or give --budget %s",
				USD(budget), i, f.VMs, f.Machine, priced(f.Spot), USD(f.Cost.Expected), USD(f.Cost.Low), USD(f.Cost.High), USD(q.ReserveCost()), USD(roundUp(need)))}
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

func priced(spot bool) string {
	if spot {
		return "on Spot"
	}
	return "on demand"
}

// USD writes a sum of money: cents, or what a small sum needs.
func USD(v float64) string {
	switch {
	case v == 0 || v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	case v >= 0.001:
		return strings.TrimRight(fmt.Sprintf("%.5f", v), "0")
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.7f", v), "0"), ".")
}

// roundUp is a sum that USD writes exactly and that is enough.
func roundUp(v float64) float64 {
	unit := 1e-7
	switch {
	case v >= 0.1:
		unit = 0.01
	case v >= 0.001:
		unit = 1e-5
	}
	return math.Ceil(v/unit-1e-6) * unit
}
