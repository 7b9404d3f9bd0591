package quote

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"coppice/internal/machines"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// Wish is what to compare, and what is wanted.
type Wish struct {
	Machines []string      // types to compare; empty for those similar to the plan's
	VMs      int           // of each type; 0 for about as many vCPUs as in the plan, or as Within needs
	Within   time.Duration // time for the sweep to end in; 0 for the sweep's own limit
	Budget   float64       // USD, including the reserve for stopping in time; 0 for no limit
}

// Comparison is a sweep on several machine types.
type Comparison struct {
	Offers      []Offer      `json:"offers"` // cheapest first
	Unfit       []Unfit      `json:"unfit,omitempty"`
	Within      float64      `json:"within_hours"`
	Recommended *Recommended `json:"recommended,omitempty"`
	Reason      string       `json:"reason"`
	Notes       []string     `json:"notes,omitempty"`
}

// Unfit is a requested machine type that the sweep cannot use.
type Unfit struct {
	Machine string `json:"machine"`
	Reason  string `json:"reason"`
}

// Recommended is the cheapest offer that meets the wish.
type Recommended struct {
	Machine string      `json:"machine"`
	VMs     int         `json:"vms"`
	Spot    bool        `json:"spot"`
	Hours   sweep.Range `json:"hours"`
	Cost    sweep.Range `json:"cost"`
}

// maxOffers is how many types are compared if none are named.
const maxOffers = 8

// triedVMs bounds the number of machines tried to meet a time.
const triedVMs = 200

// Compare makes an offer for each machine type of the wish, ranks them, and recommends one if any meets the wish. Types
// on which no trial fits are listed in Unfit. Errors are of kind Input for unknown types and for the plan's parameters.
func (q *Estimator) Compare(wish Wish) (*Comparison, error) {
	w, err := q.estimateWork()
	if err != nil {
		return nil, err
	}
	own, err := machines.Find(q.Plan.Spec.Machine.Type)
	if err != nil {
		return nil, err
	}

	types, err := q.candidates(own, wish.Machines)
	if err != nil {
		return nil, err
	}

	c := &Comparison{Within: wish.Within.Hours()}
	if wish.Within == 0 {
		c.Within = time.Duration(q.Plan.Spec.Limits.Sweep).Hours()
	}

	// One offer per type; types on which no trial fits are listed separately.
	for _, t := range types {
		o, err := q.offerFor(w, own, t, wish)
		switch {
		case err == nil:
			c.Offers = append(c.Offers, *o)
		case problem.Is(err, problem.Input):
			c.Unfit = append(c.Unfit, Unfit{t.Name, err.Error()})
		default:
			return nil, err
		}
	}

	slices.SortStableFunc(c.Offers, func(a, b Offer) int { return cmp.Compare(q.rankOf(&a), q.rankOf(&b)) })
	// Types that were not named are many: only those of the best rank are shown, and the own one.
	if len(wish.Machines) == 0 {
		c.shorten(own.Name)
	}

	c.recommend(wish.Budget, keptBack(q.Plan.Plan), q.Region)

	// Notes: on the limits of the plan's own machine, on old prices, on Spot, and on untried disks.
	if i := slices.IndexFunc(c.Offers, func(o Offer) bool { return o.Machine == own.Name }); i >= 0 {
		late, err := q.checkLimits(w, &c.Offers[i])
		if err != nil { // what is compared here says how to mend it
			late = append(late, "`launcher sweep` would refuse this: "+err.Error())
		}
		c.Notes = append(c.Notes, late...)
		c.Notes = append(c.Notes, q.finalNotes(w, &c.Offers[i])...)
	}
	var dates []string
	for _, o := range c.Offers {
		dates = append(dates, o.OnDemand.PriceDate, o.Spot.PriceDate)
	}
	c.Notes = append(c.Notes, noteAge(dates, q.Plan.Created)...)
	c.Notes = append(c.Notes, q.noteUnpaid(c.Offers...)...)
	c.Notes = append(c.Notes, c.noteUntried()...)
	if wish.Budget > 0 && len(q.Plan.Spec.Machine.Fallback) > 0 {
		c.Notes = append(c.Notes,
			"machine.fallback was not compared; a sweep also refuses a budget that a fallback would exceed, "+
				"or a fallback without a known price")
	}
	return c, nil
}

// rankOf returns the number by which offers are ordered, the lowest first: the expected cost under the spec's price
// model. Offers without a price come after all others, ordered by time.
func (q *Estimator) rankOf(offer *Offer) float64 {
	s := offer.Side(*q.Plan.Spec.Machine.Spot)
	if s.Cost != nil {
		return s.Cost.Expected
	}
	const unpriced = 1e15 // more than any cost
	return unpriced + s.Hours.Expected
}

// candidates returns the types to compare: the named ones or, without names, the plan's (own) and, if that is one of
// Google's, all others with half to twice as many vCPUs that can have local SSDs and have a known price.
func (q *Estimator) candidates(own machines.Type, names []string) (types []machines.Type, err error) {
	for _, name := range names {
		t, err := machines.Find(name)
		if err != nil {
			return nil, err
		}
		types = append(types, t)
	}
	if len(names) > 0 {
		return types, nil
	}

	types = []machines.Type{own}
	if own.Family == machines.Custom {
		return types, nil
	}
	for _, t := range machines.All() {
		_, _, priced := q.Prices.Hourly(t, q.Region, *q.Plan.Spec.Machine.Spot, 1)
		if priced && t.Name != own.Name && len(t.Disks) > 0 && 2*t.VCPUs >= own.VCPUs && t.VCPUs <= 2*own.VCPUs {
			types = append(types, t)
		}
	}
	return types, nil
}

// offerFor is the offer for the machine type t. It has as many machines as the wish states; else as few as meet the
// wished time; else the plan's number or, for another type than the plan's (own), about as many vCPUs, rounded up to
// whole machines. The error is of kind Input if no trial fits the type.
func (q *Estimator) offerFor(w *work, own, t machines.Type, wish Wish) (*Offer, error) {
	m := q.Plan.Spec.Machine
	if t.Name != m.Type { // these were chosen for the plan's type: determine them anew
		m.LocalSSD, m.TasksPerVM = 0, 0
	}

	with := func(vms int) (*Offer, error) {
		m.VMs = vms
		z, disks, err := plan.Size(plan.SizeRequest{Machine: m, Type: t, DatasetBytes: q.Manifest.Bytes(),
			Trials: min(len(w.seconds), q.Plan.AtOnce()), Memory: w.memory})
		if err != nil {
			return nil, err
		}
		return q.makeOffer(w, t, z, disks, q.Plan.Spec.FinalMachines()), nil
	}

	switch {
	case wish.VMs > 0:
		return with(wish.VMs)
	case wish.Within > 0:
		return q.findFewest(with, min(triedVMs, len(w.seconds)), wish.Within.Hours())
	case t.Name == m.Type:
		return with(m.VMs)
	}
	return with(max(1, (m.VMs*own.VCPUs+t.VCPUs-1)/t.VCPUs))
}

// findFewest is the offer with the fewest machines, of at most maxVMs, that is expected to end within the hours. If
// none does, it is that with the fewest machines among the fastest. with makes the offer for a number of machines. More
// machines are never slower, so bisection works. If a single machine does not fit, its error is returned; a larger
// number that with refuses counts as too slow.
func (q *Estimator) findFewest(with func(vms int) (*Offer, error), maxVMs int, hours float64) (*Offer, error) {
	if _, err := with(1); err != nil {
		return nil, err
	}

	takes := func(o *Offer) float64 { return o.Side(*q.Plan.Spec.Machine.Spot).Hours.Expected }
	n := 1 + sort.Search(maxVMs-1, func(i int) bool {
		o, err := with(1 + i)
		return err == nil && takes(o) <= hours
	})

	o, err := with(n) // n is maxVMs also if none ends in time
	if err != nil || n < maxVMs || takes(o) <= hours {
		return o, err
	}

	// None ends in time: the fewest that are as fast as the most.
	fastest := takes(o)
	n = 1 + sort.Search(maxVMs-1, func(i int) bool {
		o, err := with(1 + i)
		return err == nil && takes(o) <= fastest
	})
	return with(n)
}

// shorten keeps the first maxOffers of the offers, which are in the order of their rank; the plan's own machine takes
// the last place if it would be left out.
func (c *Comparison) shorten(own string) {
	if len(c.Offers) <= maxOffers {
		return
	}
	i := slices.IndexFunc(c.Offers, func(o Offer) bool { return o.Machine == own }) // -1 if no trial fits it
	if i >= maxOffers {
		c.Offers[maxOffers-1] = c.Offers[i]
	}
	c.Offers = c.Offers[:maxOffers]
}

// choice is one priced side of an offer.
type choice struct {
	*Offer
	side *Side
	spot bool
}

func (c choice) String() string { return fmt.Sprintf("%d x %s %s", c.VMs, c.Machine, Priced(c.spot)) }

// cheapestBy returns the choice with the lowest value, the first of equal ones; nil if there are no choices.
func cheapestBy(choices []choice, value func(choice) float64) *choice {
	var best *choice
	for i, c := range choices {
		if best == nil || value(c) < value(*best) {
			best = &choices[i]
		}
	}
	return best
}

// recommend sets Recommended to the cheapest way, on Spot or on demand, in which an offer is expected to end within
// c.Within and for the budget (0 for no limit). It sets Reason to why it is that one or, if there is none, to what
// would be possible. reserve is how long machines run on once the budget is used up; the budget has to cover that, too.
func (c *Comparison) recommend(budget float64, reserve time.Duration, region string) {
	cost := func(o choice) float64 { return o.side.Cost.Expected }
	required := func(o choice) float64 { // what Hold accepts for a sweep without fallbacks
		return cost(o) + o.side.Hourly*float64(o.VMs)*reserve.Seconds()/3600
	}

	// Machines with attached local SSDs come before those with built-in ones, which have never been seen mounted by
	// Batch; of the same kind, the cheaper one.
	var priced, inTime, attached, builtIn []choice
	for i := range c.Offers {
		for _, spot := range []bool{true, false} {
			o := choice{&c.Offers[i], c.Offers[i].Side(spot), spot}
			// Without a price, or with one that a person has given and that makes no sense.
			if o.side.Cost == nil || !sane(o.side.Cost.Expected) {
				continue
			}
			priced = append(priced, o)
			if o.side.Hours.Expected > c.Within {
				continue
			}
			inTime = append(inTime, o)
			switch {
			case budget > 0 && required(o) > budget:
			case o.BuiltIn:
				builtIn = append(builtIn, o)
			default:
				attached = append(attached, o)
			}
		}
	}
	within := written(time.Duration(c.Within * float64(time.Hour)).Round(time.Second))

	if best := cmp.Or(cheapestBy(attached, cost), cheapestBy(builtIn, cost)); best != nil {
		c.Recommended = &Recommended{Machine: best.Machine, VMs: best.VMs, Spot: best.spot,
			Hours: best.side.Hours, Cost: *best.side.Cost}
		c.Reason = fmt.Sprintf("the cheapest of these%s that is expected to finish within %s",
			c.describeChoice(), within)
		if budget > 0 {
			c.Reason += fmt.Sprintf(" for at most %s, including the reserve for stopping in time", formatBudget(budget))
		}
		return
	}

	// Nothing can be recommended: say the smallest step that would help.
	if least := cheapestBy(inTime, required); least != nil {
		c.Reason = fmt.Sprintf("none of these is expected to finish within %s for at most %s, including the "+
			"reserve for stopping in time; %s needs a budget of %s",
			within, formatBudget(budget), least, USD(roundUp(required(*least))))
		return
	}
	fastest := cheapestBy(priced, func(o choice) float64 { return o.side.Hours.Expected })
	switch {
	case fastest != nil:
		c.Reason = fmt.Sprintf("none of these is expected to finish within %s at a known price; the fastest, %s, "+
			"takes %s", within, fastest, Time(3600*fastest.side.Hours.Expected))
	case len(c.Offers) == 0:
		c.Reason = "no machine type fits"
	case strings.HasPrefix(c.Offers[0].Machine, machines.Custom):
		c.Reason = fmt.Sprintf("%d x %s, of a cluster, without a price: %s", c.Offers[0].VMs, c.Offers[0].Machine,
			Hours(c.Offers[0].OnDemand.Hours))
	default:
		c.Reason = fmt.Sprintf("no price of these is known in %s; check COPPICE_LOCATION, or give prices with "+
			"COPPICE_PRICES=FILE", region)
	}
}

// describeChoice says among which offers the recommended one is the cheapest: nothing if all have attached disks, or
// all built-in ones, since then it is among all.
func (c *Comparison) describeChoice() string {
	builtIn := 0
	for _, o := range c.Offers {
		if o.BuiltIn {
			builtIn++
		}
	}
	if builtIn > 0 && builtIn < len(c.Offers) {
		return " with attached local SSDs"
	}
	return ""
}

// noteUntried is a note about machines with built-in local SSDs, if one is offered.
func (c *Comparison) noteUntried() []string {
	var names []string
	for _, o := range c.Offers {
		if o.BuiltIn {
			names = append(names, o.Machine)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: the local SSDs come with the machine, and it is not documented whether Batch "+
		"mounts such disks; try it with a small one before relying on it (docs/run.md, MACHINE and SSDS)",
		strings.Join(names, ", "))}
}

// spotPays returns the rate of preemptions per hour up to which Spot costs less than on demand; 0 if it never does or a
// price is unknown. At a rate p a Spot machine is paid for undisturbed / (1 - p x loss) hours (see machineHours). Both
// cost the same where the lost share, p x loss, is one minus the ratio of the prices; that is solved for p.
func (q *Estimator) spotPays(offer *Offer) float64 {
	if offer.Spot.Hourly <= 0 || offer.OnDemand.Hourly <= offer.Spot.Hourly {
		return 0
	}
	share := min(1-offer.Spot.Hourly/offer.OnDemand.Hourly, maxLost)
	return 3600 * share / q.loss(offer.Lead.Expected, offer.Trial.Expected)
}

// noteUnpaid is a note for each offer on which Spot, if chosen, costs at least as much as on demand.
func (q *Estimator) noteUnpaid(offers ...Offer) (notes []string) {
	for i := range offers {
		o := &offers[i]
		if o.Spot.Cost == nil || o.OnDemand.Cost == nil || o.Spot.Cost.Expected < o.OnDemand.Cost.Expected {
			continue
		}
		notes = append(notes, fmt.Sprintf("Spot does not pay on %s: at %v preemptions an hour Spot is expected to "+
			"take %s and %s, on demand %s and %s; it pays below %.1f an hour; spot: false in sweep.yaml", o.Machine,
			q.Preemptions, Time(3600*o.Spot.Hours.Expected), USD(o.Spot.Cost.Expected),
			Time(3600*o.OnDemand.Hours.Expected), USD(o.OnDemand.Cost.Expected), o.SpotPays))
	}
	return notes
}
