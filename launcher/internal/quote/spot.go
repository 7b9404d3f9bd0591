package quote

import (
	"fmt"
	"time"
)

// spot says under which price model the plan runs the offer: as in the spec or, with spot: auto, as decide says.
func (q *Estimator) spot(o *Offer) bool {
	if q.Plan.Spec.Machine.SpotAuto {
		spot, _ := q.decide(o)
		return spot
	}
	return *q.Plan.Spec.Machine.Spot
}

// decide is the rule of spot: auto, with the reason. It chooses Spot unless that is expected to cost at least as much
// as on demand, or to exceed the sweep's time limit when on demand does not. An unknown price is no objection.
func (q *Estimator) decide(o *Offer) (spot bool, why string) {
	limit := time.Duration(q.Plan.Spec.Limits.Sweep)
	late := o.Spot.Hours.Expected > limit.Hours() && o.OnDemand.Hours.Expected <= limit.Hours()
	switch {
	case late:
		return false, fmt.Sprintf("at %v preemptions an hour Spot is expected to take %s hours, more than "+
			"limits.sweep (%s), on demand %s",
			q.Preemptions, hoursText(o.Spot.Hours.Expected), limit, hoursText(o.OnDemand.Hours.Expected))
	case o.Spot.Cost == nil || o.OnDemand.Cost == nil:
		return true, "one of the two prices is not known"
	case o.Spot.Cost.Expected >= o.OnDemand.Cost.Expected:
		return false, fmt.Sprintf("at %v preemptions an hour %s", q.Preemptions, o.compared())
	}
	return true, fmt.Sprintf("at %v preemptions an hour %s", q.Preemptions, o.compared())
}

// compared states hours and money under both models.
func (o *Offer) compared() string {
	return fmt.Sprintf("Spot is expected to take %s hours and %s USD, on demand %s hours and %s USD",
		hoursText(o.Spot.Hours.Expected), USD(o.Spot.Cost.Expected), hoursText(o.OnDemand.Hours.Expected),
		USD(o.OnDemand.Cost.Expected))
}

// hoursText formats hours.
func hoursText(h float64) string { return fmt.Sprintf("%.2f", h) }

// spotPays is the rate of preemptions at which both models cost the same. If a share p x loss of its time is lost, a
// Spot machine is paid for calm / (1 - p x loss) hours; at equal cost that share is one minus the ratio of the prices.
func (q *Estimator) spotPays(o *Offer) float64 {
	if o.Spot.Hourly <= 0 || o.OnDemand.Hourly <= o.Spot.Hourly {
		return 0
	}
	share := min(1-o.Spot.Hourly/o.OnDemand.Hourly, mostLost)
	return 3600 * share / q.loss(o.Lead.Expected, o.Trial.Expected)
}

// unpaid is a note for each offer on which Spot, if chosen, costs at least as much as on demand.
func (q *Estimator) unpaid(offers ...Offer) (notes []string) {
	for i := range offers {
		o := &offers[i]
		if o.Spot.Cost == nil || o.OnDemand.Cost == nil || o.Spot.Cost.Expected < o.OnDemand.Cost.Expected {
			continue
		}
		notes = append(notes, fmt.Sprintf("Spot does not pay on %s: at %v preemptions an hour %s; it pays below %.1f "+
			"an hour, and spot: auto in sweep.yaml chooses the cheaper", o.Machine, q.Preemptions, o.compared(),
			o.SpotPays))
	}
	return notes
}

// settle writes the decision of spot: auto into the plan, and explains it; it does nothing if the spec decides itself.
func (q *Estimator) settle(o *Offer) []string {
	m := &q.Plan.Spec.Machine
	if !m.SpotAuto {
		if *m.Spot {
			return q.unpaid(*o)
		}
		return nil
	}
	spot, why := q.decide(o)
	m.Spot = &spot
	return []string{fmt.Sprintf("spot: auto chose %s: %s", model(spot), why)}
}
